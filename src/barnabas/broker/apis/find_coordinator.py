"""FindCoordinator: returns the broker that coordinates a group, a transaction or a share-partition. Version 4 takes
several keys.

That broker is the leader of the key's partition of ``__consumer_offsets``, ``__transaction_state`` or
``__share_group_state``. The first request creates this topic. While this broker does not serve share state, keys of
share-partitions are refused, so that other brokers do not wait for this missing feature.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_name import GROUP_METADATA_TOPIC, SHARE_STATE_TOPIC, TRANSACTION_STATE_TOPIC
from barnabas.coordinator.share.persister import SharePartitionKey
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker

_GROUP, _TRANSACTION, _SHARE = 0, 1, 2
_BATCH_SINCE = 4
_SHARE_SINCE = 6
_TOPICS = {_TRANSACTION: TRANSACTION_STATE_TOPIC, _SHARE: SHARE_STATE_TOPIC}
_NO_NODE = -1


def _error_response(request: FindCoordinatorRequest, error: ApiException) -> FindCoordinatorResponse:
    if request.coordinator_keys:  # Since version 4, in which the answer has no top-level error.
        return FindCoordinatorResponse(coordinators=[_failed(key, error) for key in request.coordinator_keys])
    return FindCoordinatorResponse(error_code=error.code, error_message=error.message, node_id=_NO_NODE, port=-1)


@handles(
    ApiKey.FIND_COORDINATOR,
    acl=(
        AclRule(ResourceType.GROUP, AclOperation.DESCRIBE),
        AclRule(ResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE),
        AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),
    ),
    on_error=_error_response,
)
def handle_find_coordinator(
    broker: Broker, request: FindCoordinatorRequest, access: Access
) -> FindCoordinatorResponse | Awaitable[FindCoordinatorResponse]:
    keys = request.coordinator_keys if access.context.api_version >= _BATCH_SINCE else [request.key]
    if keys and request.key_type == _SHARE and access.context.api_version >= _SHARE_SINCE:
        access.require_on_cluster(AclOperation.CLUSTER_ACTION)
    errors = {key: _key_error(broker, request.key_type, key, access) for key in keys}
    topic = _TOPICS.get(request.key_type, GROUP_METADATA_TOPIC)
    if broker.metadata.topic(topic) is None and any(error is None for error in errors.values()):
        return _create_and_respond(broker, topic, keys, errors, access)
    return _respond(broker, topic, keys, errors, access)


async def _create_and_respond(
    broker: Broker, topic: str, keys: list[str], errors: dict[str, ApiException | None], access: Access
) -> FindCoordinatorResponse:
    await broker.topic_creation.create_and_wait((topic,), None)
    return _respond(broker, topic, keys, errors, access)


def _respond(
    broker: Broker, topic: str, keys: list[str], errors: dict[str, ApiException | None], access: Access
) -> FindCoordinatorResponse:
    found = [_failed(key, error) if (error := errors[key]) else _find(broker, topic, key, access) for key in keys]
    if access.context.api_version >= _BATCH_SINCE:
        return FindCoordinatorResponse(coordinators=found)
    only = found[0]
    return FindCoordinatorResponse(
        error_code=only.error_code,
        error_message=only.error_message or "NONE",  # Kafka's text for success in these versions.
        node_id=only.node_id,
        host=only.host,
        port=only.port,
    )


def _key_error(broker: Broker, key_type: int, key: str, access: Access) -> ApiException | None:
    if key_type == _GROUP:
        if not access.allows(ResourceType.GROUP, AclOperation.DESCRIBE, key):
            return access.denied(AclOperation.DESCRIBE, ResourceType.GROUP, key)
        return None
    if key_type == _TRANSACTION:
        if not access.allows(ResourceType.TRANSACTIONAL_ID, AclOperation.DESCRIBE, key):
            return access.denied(AclOperation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, key)
        return None
    if key_type == _SHARE and access.context.api_version >= _SHARE_SINCE:
        return _share_key_error(key)
    return ApiException(ErrorCode.INVALID_REQUEST, f"Unknown coordinator type {key_type}.")


def _share_key_error(key: str) -> ApiException | None:
    try:
        SharePartitionKey.from_coordinator_key(key)
    except ValueError as error:
        return ApiException(ErrorCode.INVALID_REQUEST, f"{error}.")
    return None


def _partition_for(broker: Broker, topic: str, key: str) -> int:
    if topic == SHARE_STATE_TOPIC:
        return broker.share_state.coordinator.partition_for(SharePartitionKey.from_coordinator_key(key))
    coordinator = broker.transactions.coordinator if topic == TRANSACTION_STATE_TOPIC else broker.groups.coordinator
    return coordinator.partition_for(key)


def _find(broker: Broker, topic: str, key: str, access: Access) -> Coordinator:
    partition = broker.metadata.partition(topic, _partition_for(broker, topic, key))
    if partition is not None and partition.leader >= 0:
        endpoint = broker.metadata.endpoint(partition.leader, access.context.listener_name)
        if endpoint is not None:
            return Coordinator(key=key, node_id=partition.leader, host=endpoint.host, port=endpoint.port)
    return _failed(key, ApiException(ErrorCode.COORDINATOR_NOT_AVAILABLE, "The coordinator is not available."))


def _failed(key: str, error: ApiException) -> Coordinator:
    return Coordinator(key=key, node_id=_NO_NODE, port=-1, error_code=error.code, error_message=error.message)
