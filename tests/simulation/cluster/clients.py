"""Calls of clients: admin calls through a broker or a controller, and access decisions.

A client sends a call to a node of the cluster, which forwards it to the active controller with the client's principal
and host. The call is retried if the node found no controller, but not if the answer was lost: its outcome is unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.metadata.features import METADATA_VERSION
from barnabas.metadata.metadata_version import LATEST_PRODUCTION
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.messages import alter_client_quotas as quotas
from barnabas.protocol.messages import create_acls, create_delegation_token, create_topics, delete_acls, delete_topics
from barnabas.protocol.messages import incremental_alter_configs as alter_configs
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest
from barnabas.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from barnabas.security.principal import parse_principal
from barnabas.security.request_context import RequestContext
from tests.simulation.cluster.quorum_changes import QUORUM_CALLS

if TYPE_CHECKING:
    from barnabas.protocol.schema import Message
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.plan import Step
    from tests.simulation.cluster.world import World

__all__ = ["alter_config", "carry_out_call", "create_topic"]

CLIENT = -1
"""The id of clients in the network."""
TRIES_MAX = 4
RETRY_S = 0.2


def carry_out_call(world: World, step: Step) -> None:
    if step.kind in QUORUM_CALLS:
        QUORUM_CALLS[step.kind](world, *step.args)
        return
    node = world.nodes[step.args[0]]
    if not node.is_up:
        world.say(f"{node.name} is down")
        return
    _CALLS[step.kind](world, node, *step.args[1:])


def _submit(world: World, node: SimulatedNode, principal: str, request: Message) -> None:
    """Send the client's request to the node; it is lost if the connection is cut."""

    def arrive() -> None:
        node.act(lambda: world.loop.create_task(_call(world, node, principal, request)))

    world.network.send(CLIENT, node.id, arrive)


async def _call(world: World, node: SimulatedNode, principal: str, request: Message) -> None:
    key = ApiKey(request.API_KEY)
    context = RequestContext(
        api_key=key,
        api_version=API_TABLE[key].highest,
        principal=parse_principal(principal),
        client_host="192.0.2.7",
        security_protocol="SASL_SSL",
    )
    name = type(request).__name__
    number = world.checks.begun(node, name)
    text = "is not served"
    try:
        for _ in range(TRIES_MAX):
            try:
                response = await node.channel.forward(request, context)
            except ApiException as error:
                text = error.code.name
                if error.code is not ErrorCode.NOT_CONTROLLER:
                    break
            else:
                text = _brief(response)
                if "NOT_CONTROLLER" not in text:
                    break
            await asyncio.sleep(RETRY_S)
    finally:
        world.checks.ended(number)
    world.say(f"{node.name}: {name} of {principal}: {text}")


def _brief(response: Any) -> str:
    """Return the names of an answer's error codes."""
    codes = []
    for name in ("topics", "responses", "results", "filter_results", "entries"):
        codes += [result.error_code for result in getattr(response, name, None) or ()]
    if hasattr(response, "error_code"):
        codes.append(response.error_code)
    return " ".join(ErrorCode(code).name for code in codes) or type(response).__name__


# --- one function for each kind of call


def _create_topics(
    world: World, node: SimulatedNode, principal: str, name: str, partitions: int, replicas: int
) -> None:
    topic = create_topics.CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
    _submit(world, node, principal, create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=5000))


def create_topic(world: World, node: SimulatedNode, name: str, partitions: int) -> None:
    """Create a topic whose partitions store data."""
    shape = world.shape
    in_sync = create_topics.CreatableTopicConfig(name="min.insync.replicas", value=str(shape.min_in_sync))
    topic = create_topics.CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=shape.data_replicas, configs=[in_sync]
    )
    _submit(world, node, "User:admin", create_topics.CreateTopicsRequest(topics=[topic], timeout_ms=5000))


def _delete_topics(world: World, node: SimulatedNode, principal: str, name: str) -> None:
    topics = [delete_topics.DeleteTopicState(name=name)]
    _submit(world, node, principal, delete_topics.DeleteTopicsRequest(topics=topics, timeout_ms=5000))


def _create_acls(world: World, node: SimulatedNode, principal: str, bindings: tuple[tuple[Any, ...], ...]) -> None:
    creations = [
        create_acls.AclCreation(
            resource_type=resource_type,
            resource_name=name,
            resource_pattern_type=pattern,
            principal=acl_principal,
            host=host,
            operation=operation,
            permission_type=permission,
        )
        for resource_type, name, pattern, acl_principal, host, operation, permission in bindings
    ]
    _submit(world, node, principal, create_acls.CreateAclsRequest(creations=creations))


def _delete_acls(world: World, node: SimulatedNode, principal: str, acl_filter: tuple[Any, ...]) -> None:
    resource_type, name, pattern, acl_principal, host, operation, permission = acl_filter
    to_delete = delete_acls.DeleteAclsFilter(
        resource_type_filter=resource_type,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=acl_principal,
        host_filter=host,
        operation=operation,
        permission_type=permission,
    )
    _submit(world, node, principal, delete_acls.DeleteAclsRequest(filters=[to_delete]))


def _alter_configs(world: World, node: SimulatedNode, principal: str, topic: str, value: int) -> None:
    """Set a config of a topic, or of all brokers if the topic is empty. Each call has its own value."""
    resource_type, name = (2, "retention.ms") if topic else (4, "log.retention.ms")
    config = alter_configs.AlterableConfig(name=name, config_operation=0, value=str(value))
    alter_config(world, node, resource_type, topic, config, principal)


def alter_config(
    world: World, node: SimulatedNode, resource_type: int, name: str, config: Any, principal: str = "User:admin"
) -> None:
    resource = alter_configs.AlterConfigsResource(resource_type=resource_type, resource_name=name, configs=[config])
    _submit(world, node, principal, alter_configs.IncrementalAlterConfigsRequest(resources=[resource]))


def _alter_quotas(world: World, node: SimulatedNode, principal: str, user: str, value: float, remove: bool) -> None:
    entry = quotas.AlterClientQuotasRequestEntryData(
        entity=[quotas.EntityData(entity_type="user", entity_name=user)],
        ops=[quotas.OpData(key="producer_byte_rate", value=value, remove=remove)],
    )
    _submit(world, node, principal, quotas.AlterClientQuotasRequest(entries=[entry]))


def _create_token(world: World, node: SimulatedNode, principal: str, number: int, lifetime_ms: int) -> None:
    renewer = create_delegation_token.CreatableRenewers(principal_type="User", principal_name=f"call-{number}-")
    request = create_delegation_token.CreateDelegationTokenRequest(
        owner_principal_type="", owner_principal_name="", renewers=[renewer], max_lifetime_ms=lifetime_ms
    )
    _submit(world, node, principal, request)


def _allocate(world: World, node: SimulatedNode, broker_id: int, is_stale: bool) -> None:
    epoch = _epoch_of(world.nodes[broker_id], is_stale=is_stale)
    if epoch is not None:
        _submit(world, node, "User:broker", AllocateProducerIdsRequest(broker_id=broker_id, broker_epoch=epoch))


def _stale_heartbeat(world: World, node: SimulatedNode, broker_id: int) -> None:
    """Deliver a heartbeat of an earlier life of the broker late."""
    epoch = _epoch_of(world.nodes[broker_id], is_stale=True)
    if epoch is None:
        return
    request = BrokerHeartbeatRequest(
        broker_id=broker_id, broker_epoch=epoch, current_metadata_offset=1 << 40, want_fence=False, want_shut_down=True
    )
    _submit(world, node, "User:broker", request)


def _epoch_of(broker: SimulatedNode, *, is_stale: bool) -> int | None:
    if len(broker.epochs) < (2 if is_stale else 1):
        return None
    return broker.epochs[-2 if is_stale else -1]


def _upgrade(world: World, node: SimulatedNode, principal: str) -> None:
    update = FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=int(LATEST_PRODUCTION), upgrade_type=1)
    _submit(world, node, principal, UpdateFeaturesRequest(timeout_ms=5000, feature_updates=[update]))


def _probe(
    world: World, node: SimulatedNode, user: str, host: str, operation: int, resource_type: int, name: str
) -> None:
    key = ApiKey.METADATA
    context = RequestContext(api_key=key, api_version=12, principal=parse_principal(user), client_host=host)
    node.act(lambda: world.checks.probe(node, context, AclOperation(operation), ResourceType(resource_type), name))


_CALLS: dict[str, Callable[..., None]] = {
    "create_topics": _create_topics,
    "delete_topics": _delete_topics,
    "create_acls": _create_acls,
    "delete_acls": _delete_acls,
    "alter_configs": _alter_configs,
    "alter_quotas": _alter_quotas,
    "create_token": _create_token,
    "allocate_producer_ids": _allocate,
    "stale_heartbeat": _stale_heartbeat,
    "upgrade": _upgrade,
    "probe": _probe,
}
