"""StreamsGroupHeartbeat (KIP-1071): a member joins, follows and leaves a streams group.

A member must be allowed to describe every topic of its topology. Internal topics that do not exist are created in its
name: for that it needs CREATE on the cluster or on each of them. While they are missing, the answer says why.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.coordinator.group.streams.heartbeat import DecidedHeartbeat
from barnabas.coordinator.group.streams.heartbeat_checks import named_topics, validate_topics
from barnabas.coordinator.group.streams.heartbeat_status import HeartbeatStatus
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.streams_group_heartbeat import (
    StreamsGroupHeartbeatRequest,
    StreamsGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterable, Mapping

    from barnabas.broker.broker import Broker
    from barnabas.broker.streams_topic_creation import StreamsTopicCreation
    from barnabas.protocol.messages.create_topics import CreatableTopic

_ADVICE = "set group.protocol=classic in the application"
_HEARTBEATS_WITH_FAILURE = 2
_FAILURES_SHOWN_MAX = 3


@handles(
    ApiKey.STREAMS_GROUP_HEARTBEAT,
    acl=(
        AclRule(ResourceType.GROUP, AclOperation.READ),
        AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),
        AclRule(ResourceType.CLUSTER, AclOperation.CREATE),
        AclRule(ResourceType.TOPIC, AclOperation.CREATE),
    ),
)
def handle_streams_group_heartbeat(
    broker: Broker, request: StreamsGroupHeartbeatRequest, access: Access
) -> StreamsGroupHeartbeatResponse | Awaitable[StreamsGroupHeartbeatResponse]:
    groups = broker.groups
    if not groups.serves_streams_groups:
        raise broker.missing_features.refusal("streams groups", _ADVICE, access.context)
    if not access.allows(ResourceType.GROUP, AclOperation.READ, request.group_id):
        raise access.denied(AclOperation.READ, ResourceType.GROUP, request.group_id)
    if request.topology is not None:
        names = named_topics(request.topology)
        validate_topics(names)
        allowed = access.allowed(ResourceType.TOPIC, AclOperation.DESCRIBE, names)
        denied = next((name for name in names if name not in allowed), None)
        if denied is not None:
            raise access.denied(AclOperation.DESCRIBE, ResourceType.TOPIC, denied)
    context = GroupRequestContext.of(access.context)
    decided = groups.answer(groups.coordinator.streams.heartbeat(context, request, groups.now_ms()))
    if isinstance(decided, DecidedHeartbeat):
        return _answer(broker, decided, access)
    return _answer_later(broker, decided, access)


async def _answer_later(
    broker: Broker, decided: Awaitable[DecidedHeartbeat], access: Access
) -> StreamsGroupHeartbeatResponse:
    return _answer(broker, await decided, access)


def _answer(broker: Broker, decided: DecidedHeartbeat, access: Access) -> StreamsGroupHeartbeatResponse:
    """Return the decided answer, and start to create the topics that are missing."""
    response, topics = decided
    if topics:
        forbidden = _not_creatable(topics, access)
        if forbidden:
            _add_to_status(response, f"Unauthorized to CREATE on topics {', '.join(forbidden)}.")
        else:
            _create(broker.topic_creation.of_streams, topics, response, access)
    return response


def _not_creatable(topics: Iterable[str], access: Access) -> list[str]:
    if access.allows_on_cluster(AclOperation.CREATE, log_if_denied=False):
        return []
    allowed = access.allowed(ResourceType.TOPIC, AclOperation.CREATE, topics)
    return [name for name in topics if name not in allowed]


def _create(
    creation: StreamsTopicCreation,
    topics: Mapping[str, CreatableTopic],
    response: StreamsGroupHeartbeatResponse,
    access: Access,
) -> None:
    keep_failures_ms = response.heartbeat_interval_ms * _HEARTBEATS_WITH_FAILURE
    creation.create(topics, access.context, keep_failures_ms=keep_failures_ms)
    failures = creation.failures_of(topics)
    if failures:
        shown = [f"{name} ({reason})" for name, reason in failures.items()][:_FAILURES_SHOWN_MAX]
        left_out = len(failures) - len(shown)
        more = f" and {left_out} more" if left_out else ""
        _add_to_status(response, f"Creation failed: {', '.join(shown)}{more}.")


def _add_to_status(response: StreamsGroupHeartbeatResponse, detail: str) -> None:
    """Say more about missing internal topics."""
    for status in response.status or ():
        if status.status_code == HeartbeatStatus.MISSING_INTERNAL_TOPICS:
            status.status_detail = f"{status.status_detail}; {detail}"
