"""The requests of a member of the classic protocol with the embedded protocol of consumers, and their errors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages import heartbeat as heartbeats
from barnabas.protocol.messages import join_group, leave_group, sync_group
from barnabas.protocol.record_serde import encode_versioned
from barnabas.protocol.records import consumer_protocol_assignment, consumer_protocol_subscription
from tests.simulation.cluster.consumer_group_shape import Protocols

if TYPE_CHECKING:
    from tests.simulation.cluster.consumer_group_checks import Membership

__all__ = ["PROTOCOLS", "RETRIED", "Joined", "assigned", "assignment", "heartbeat", "is_join", "join", "leave", "read"]

PROTOCOLS = {Protocols.EAGER: "range", Protocols.COOPERATIVE: "cooperative-sticky"}
RETRIED = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.REBALANCE_IN_PROGRESS,
        ErrorCode.REQUEST_TIMED_OUT,
    }
)
VERSION = 3
VERSION_BYTES = 2


class Joined(NamedTuple):
    """What a member of a generation has written."""

    topics: list[str]
    owned: list[tuple[str, int]]


def join(me: Membership, protocol: str, owned: Iterable[tuple[str, int]], session_ms: int, rebalance_ms: int) -> Any:
    assert me.told is not None
    metadata = consumer_protocol_subscription.ConsumerProtocolSubscription(
        topics=sorted(me.told.names),
        owned_partitions=[
            consumer_protocol_subscription.TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in _by_topic(owned).items()
        ],
        generation_id=me.epoch if me.joined_s >= 0 else -1,
    )
    offered = join_group.JoinGroupRequestProtocol(name=protocol, metadata=encode_versioned(metadata, VERSION))
    return join_group.JoinGroupRequest(
        group_id=me.group,
        session_timeout_ms=session_ms,
        rebalance_timeout_ms=rebalance_ms,
        member_id=me.member_id,
        group_instance_id=me.instance_id,
        protocol_type="consumer",
        protocols=[offered],
    )


def is_join(request: Any) -> bool:
    """Return whether a request is the first JoinGroup of a process, which may take the place of another one."""
    return isinstance(request, join_group.JoinGroupRequest) and not request.member_id


def read(metadata: bytes) -> Joined:
    found = consumer_protocol_subscription.ConsumerProtocolSubscription.decode(metadata, VERSION, VERSION_BYTES)
    owned = [(topic.topic, index) for topic in found.owned_partitions for index in topic.partitions]
    return Joined(found.topics, owned)


def sync(me: Membership, generation: int, protocol: str, assignments: list[Any]) -> Any:
    return sync_group.SyncGroupRequest(
        group_id=me.group,
        generation_id=generation,
        member_id=me.member_id,
        group_instance_id=me.instance_id,
        protocol_type="consumer",
        protocol_name=protocol,
        assignments=assignments,
    )


def assignment(member_id: str, partitions: Iterable[tuple[str, int]]) -> Any:
    found = consumer_protocol_assignment.ConsumerProtocolAssignment(
        assigned_partitions=[
            consumer_protocol_assignment.TopicPartition(topic=topic, partitions=indexes)
            for topic, indexes in _by_topic(partitions).items()
        ]
    )
    return sync_group.SyncGroupRequestAssignment(member_id=member_id, assignment=encode_versioned(found, VERSION))


def assigned(data: bytes) -> list[tuple[str, int]]:
    if not data:
        return []
    found = consumer_protocol_assignment.ConsumerProtocolAssignment.decode(data, VERSION, VERSION_BYTES)
    return [(topic.topic, index) for topic in found.assigned_partitions for index in topic.partitions]


def heartbeat(me: Membership) -> Any:
    return heartbeats.HeartbeatRequest(
        group_id=me.group, generation_id=me.epoch, member_id=me.member_id, group_instance_id=me.instance_id
    )


def leave(group: str, member_id: str) -> Any:
    return leave_group.LeaveGroupRequest(group_id=group, members=[leave_group.MemberIdentity(member_id=member_id)])


def _by_topic(partitions: Iterable[tuple[str, int]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for topic, index in sorted(partitions):
        found.setdefault(topic, []).append(index)
    return found
