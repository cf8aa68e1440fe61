"""A member of a group, of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment

if TYPE_CHECKING:
    from barnabas.protocol.messages import consumer_group_describe, share_group_describe, streams_group_describe
    from barnabas.protocol.messages.describe_groups import DescribedGroupMember

__all__ = [
    "MemberDescription",
    "StreamsTasks",
    "TaskId",
    "classic_member",
    "consumer_member",
    "share_member",
    "streams_member",
]

_CONSUMER = "consumer"
_MEMBER_PROTOCOLS = {0: "classic", 1: "consumer"}
"""The member types of ConsumerGroupDescribe; the first version has none."""


class TaskId(NamedTuple):
    """A task of a streams application, which is written as Kafka Streams does: subtopology and partition."""

    subtopology_id: str
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology_id}_{self.partition}"


@dataclass(frozen=True, slots=True)
class StreamsTasks:
    active: tuple[TaskId, ...]
    standby: tuple[TaskId, ...]
    warmup: tuple[TaskId, ...]


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """``assignment`` is None where the group's protocol is not that of consumers and can't be parsed.

    The others are set only for groups whose coordinator assigns: ``protocol`` (``classic`` or ``consumer``) and
    ``target_assignment`` in consumer groups, ``tasks`` and what follows in streams groups.
    """

    member_id: str
    group_instance_id: str | None
    client_id: str
    host: str
    assignment: tuple[TopicPartition, ...] | None
    target_assignment: tuple[TopicPartition, ...] | None = None
    member_epoch: int | None = None
    rack_id: str | None = None
    protocol: str | None = None
    subscribed_topics: tuple[str, ...] | None = None
    subscribed_pattern: str | None = None
    tasks: StreamsTasks | None = None
    target_tasks: StreamsTasks | None = None
    topology_epoch: int | None = None
    process_id: str | None = None

    def is_reconciled(self, assignment_epoch: int | None) -> bool:
        """Return whether the member has what the group last assigned to it. Of classic members it is not known."""
        if self.member_epoch is None or assignment_epoch is None:
            return True
        has_target = self.target_assignment in (None, self.assignment) and self.target_tasks in (None, self.tasks)
        return self.member_epoch == assignment_epoch and has_target


def classic_member(member: DescribedGroupMember, protocol_type: str) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.group_instance_id,
        member.client_id,
        member.client_host,
        _assignment(member.member_assignment) if protocol_type == _CONSUMER else None,
    )


def consumer_member(member: consumer_group_describe.Member) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        _partitions(member.target_assignment),
        member.member_epoch,
        member.rack_id,
        _MEMBER_PROTOCOLS.get(member.member_type),
        tuple(sorted(member.subscribed_topic_names)),
        member.subscribed_topic_regex or None,
    )


def share_member(member: share_group_describe.Member) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        None,
        member.client_id,
        member.client_host,
        _partitions(member.assignment),
        member_epoch=member.member_epoch,
        rack_id=member.rack_id,
        subscribed_topics=tuple(sorted(member.subscribed_topic_names)),
    )


def streams_member(member: streams_group_describe.Member) -> MemberDescription:
    return MemberDescription(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.client_host,
        None,
        member_epoch=member.member_epoch,
        rack_id=member.rack_id,
        protocol="classic" if member.is_classic else "streams",
        tasks=_tasks(member.assignment),
        target_tasks=_tasks(member.target_assignment),
        topology_epoch=member.topology_epoch,
        process_id=member.process_id,
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


class _TopicPartitions(Protocol):
    topic_name: str
    partitions: list[int]


class _Assignment(Protocol):
    @property
    def topic_partitions(self) -> Sequence[_TopicPartitions]: ...


def _partitions(assignment: _Assignment) -> tuple[TopicPartition, ...]:
    return tuple(
        sorted(
            TopicPartition(topic.topic_name, partition)
            for topic in assignment.topic_partitions
            for partition in topic.partitions
        )
    )


def _tasks(assignment: streams_group_describe.Assignment) -> StreamsTasks:
    return StreamsTasks(
        _task_ids(assignment.active_tasks), _task_ids(assignment.standby_tasks), _task_ids(assignment.warmup_tasks)
    )


def _task_ids(tasks: Sequence[streams_group_describe.TaskIds]) -> tuple[TaskId, ...]:
    return tuple(sorted(TaskId(task.subtopology_id, partition) for task in tasks for partition in task.partitions))
