"""A member of a group, in either protocol."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment

if TYPE_CHECKING:
    from barnabas.protocol.messages.consumer_group_describe import Assignment, Member
    from barnabas.protocol.messages.describe_groups import DescribedGroupMember

__all__ = ["MemberDescription", "classic_member", "consumer_member"]

_CONSUMER = "consumer"


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """``assignment`` is None where the group's protocol is not that of consumers and can't be parsed.

    The last three are set only for groups of the new protocol.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] | None
    target_assignment: tuple[TopicPartition, ...] | None = None
    member_epoch: int | None = None
    rack_id: str | None = None


def classic_member(member: DescribedGroupMember, protocol_type: str) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        _assignment(member.member_assignment) if protocol_type == _CONSUMER else None,
    )


def consumer_member(member: Member) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        _partitions(member.target_assignment),
        member.member_epoch,
        member.rack_id,
    )


def _assignment(data: bytes) -> tuple[TopicPartition, ...] | None:
    if not data:
        return ()  # The leader has not assigned anything yet.
    try:
        # Fields of later versions follow at the end and are ignored.
        read = ConsumerProtocolAssignment.decode(data, 0, 2)
    except DecodeError:
        return None
    return tuple(
        sorted(
            TopicPartition(topic.topic, partition)
            for topic in read.assigned_partitions
            for partition in topic.partitions
        )
    )


def _partitions(assignment: Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )
