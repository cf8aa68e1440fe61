"""Partitions: their offsets, records to be deleted, leaders to be elected, replicas to be moved."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, TypeVar

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import Operations, Request, refuse_unless
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.retry import LEADER_MOVED, RETRIED, Deadline
from barnabas.clients.admin.routing import Target
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages import alter_partition_reassignments as reassigning
from barnabas.protocol.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from barnabas.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)

__all__ = [
    "ElectionType",
    "IsolationLevel",
    "ListedOffset",
    "OffsetSpec",
    "PartitionOperations",
    "PartitionReassignment",
    "by_topic",
]

_REASSIGNED_PER_REQUEST = 1000
V = TypeVar("V")


class ElectionType(IntEnum):
    PREFERRED = 0
    UNCLEAN = 1


class IsolationLevel(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """Which offset is asked for; a timestamp of 0 or more is a moment in milliseconds since 1970."""

    timestamp: int

    @classmethod
    def latest(cls) -> OffsetSpec:
        return cls(-1)

    @classmethod
    def earliest(cls) -> OffsetSpec:
        return cls(-2)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """That of the record with the largest timestamp."""
        return cls(-3)

    @classmethod
    def earliest_local(cls) -> OffsetSpec:
        return cls(-4)

    @classmethod
    def latest_tiered(cls) -> OffsetSpec:
        return cls(-5)

    @classmethod
    def for_timestamp(cls, timestamp_ms: int) -> OffsetSpec:
        """The first record that is not older."""
        refuse_unless(timestamp_ms >= 0, f"a timestamp can't be negative: {timestamp_ms}")
        return cls(timestamp_ms)


_OLDEST_VERSION = {-3: 7, -4: 8, -5: 9}


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """``offset`` is -1 where no record is young enough."""

    offset: int
    timestamp: int
    leader_epoch: int | None


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A move that is under way."""

    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class PartitionOperations(Operations):
    async def list_offsets(
        self,
        partitions: Mapping[TopicPartition, OffsetSpec],
        *,
        isolation_level: IsolationLevel = IsolationLevel.READ_UNCOMMITTED,
        timeout_s: float | None = None,
    ) -> Results[TopicPartition, ListedOffset]:
        deadline = self._deadline(timeout_s)
        oldest = max((_OLDEST_VERSION.get(spec.timestamp, 1) for spec in partitions.values()), default=1)

        def build(left: Sequence[TopicPartition]) -> Request:
            return lambda version: ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation_level,
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsPartition(partition_index=each.partition, timestamp=partitions[each].timestamp)
                            for each in group
                        ],
                    )
                    for topic, group in by_topic(left)
                ],
                timeout_ms=self._timeout_ms(deadline),
            )

        return await self._at_leaders(
            partitions,
            build,
            lambda response: (
                (TopicPartition(topic.name, each.partition_index), _listed_offset(topic.name, each))
                for topic in response.topics
                for each in topic.partitions
            ),
            deadline,
            api=ApiKey.LIST_OFFSETS,
            at_least=oldest,
        )

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> Results[TopicPartition, int]:
        """Delete the records before an offset; -1 is the high watermark. The value is where the log starts then."""
        for partition, offset in before.items():
            refuse_unless(offset >= -1, f"{partition}: there is no offset {offset}")
        deadline = self._deadline(timeout_s)

        def build(left: Sequence[TopicPartition]) -> Request:
            return DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(partition_index=each.partition, offset=before[each])
                            for each in group
                        ],
                    )
                    for topic, group in by_topic(left)
                ],
                timeout_ms=self._timeout_ms(deadline),
            )

        return await self._at_leaders(
            before,
            build,
            lambda response: (
                (TopicPartition(topic.name, each.partition_index), _low_watermark(topic.name, each))
                for topic in response.topics
                for each in topic.partitions
            ),
            deadline,
            api=ApiKey.DELETE_RECORDS,
        )

    async def elect_leaders(
        self,
        election_type: ElectionType,
        partitions: Iterable[TopicPartition] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Results[TopicPartition, bool]:
        """Elect leaders; without partitions, of all that could have a better one.

        The value is False where the wanted leader was in office already.
        """
        wanted = None if partitions is None else list(dict.fromkeys(partitions))
        deadline = self._deadline(timeout_s)
        values: dict[TopicPartition, bool] = {}
        errors: dict[TopicPartition, AdminError] = {}
        response = await self._call(
            lambda version: ElectLeadersRequest(
                election_type=election_type,
                topic_partitions=None
                if wanted is None
                else [
                    TopicPartitions(topic=topic, partitions=[each.partition for each in group])
                    for topic, group in by_topic(wanted)
                ],
                timeout_ms=self._timeout_ms(deadline),
            ),
            deadline,
            api=ApiKey.ELECT_LEADERS,
            at_least=1 if election_type == ElectionType.UNCLEAN else 0,
        )
        for topic in response.replica_election_results:
            for each in topic.partition_result:
                partition = TopicPartition(topic.topic, each.partition_id)
                if each.error_code in (ErrorCode.NONE, ErrorCode.ELECTION_NOT_NEEDED):
                    values[partition] = not each.error_code
                else:
                    errors[partition] = admin_error(each.error_code, each.error_message, partition)
        return Results(values, errors)

    async def alter_partition_reassignments(
        self,
        reassignments: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
        timeout_s: float | None = None,
    ) -> Results[TopicPartition, None]:
        """Move partitions to brokers, the preferred leader first; None cancels a move that is under way."""
        for partition, replicas in reassignments.items():
            refuse_unless(replicas is None or replicas, f"{partition}: a partition needs a broker")
        deadline = self._deadline(timeout_s)

        async def alter(part: Sequence[TopicPartition]) -> Results[TopicPartition, None]:
            return await self._items(
                part,
                lambda left: reassigning.AlterPartitionReassignmentsRequest(
                    timeout_ms=self._timeout_ms(deadline),
                    allow_replication_factor_change=allow_replication_factor_change,
                    topics=[_reassignment(topic, group, reassignments) for topic, group in by_topic(left)],
                ),
                lambda response: (
                    (TopicPartition(topic.name, each.partition_index), _done(topic.name, each))
                    for topic in response.responses
                    for each in topic.partitions
                ),
                deadline,
                api=ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            )

        return await self._in_chunks(list(reassignments), _REASSIGNED_PER_REQUEST, alter)

    async def list_partition_reassignments(
        self, partitions: Iterable[TopicPartition] | None = None, *, timeout_s: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """The moves that are under way; without partitions, all."""
        deadline = self._deadline(timeout_s)
        topics = (
            None
            if partitions is None
            else [
                ListPartitionReassignmentsTopics(name=topic, partition_indexes=[each.partition for each in group])
                for topic, group in by_topic(dict.fromkeys(partitions))
            ]
        )
        response = await self._call(
            ListPartitionReassignmentsRequest(timeout_ms=self._timeout_ms(deadline), topics=topics),
            deadline,
            api=ApiKey.LIST_PARTITION_REASSIGNMENTS,
        )
        return {
            TopicPartition(topic.name, each.partition_index): PartitionReassignment(
                tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
            )
            for topic in response.topics
            for each in topic.partitions
        }

    async def _at_leaders(
        self,
        partitions: Iterable[TopicPartition],
        build: Callable[[Sequence[TopicPartition]], Request],
        read: Callable[[Any], Iterable[tuple[TopicPartition, V | AdminError]]],
        deadline: Deadline,
        *,
        api: ApiKey,
        at_least: int = 0,
    ) -> Results[TopicPartition, V]:
        async def place(
            left: list[TopicPartition],
        ) -> tuple[dict[TopicPartition, int], dict[TopicPartition, AdminError]]:
            leaders, problems = await self._router.leaders(left)
            return (
                {TopicPartition(*each): leader for each, leader in leaders.items()},
                {TopicPartition(*each): error for each, error in problems.items()},
            )

        async def ask(part: Sequence[TopicPartition], target: Target) -> Results[TopicPartition, V]:
            return await self._items(
                part, build, read, deadline, api=api, target=target, at_least=at_least, retried=RETRIED - LEADER_MOVED
            )

        return await self._placed(partitions, place, ask, deadline, moved=LEADER_MOVED)


def by_topic(partitions: Iterable[TopicPartition]) -> Iterator[tuple[str, list[TopicPartition]]]:
    """Partitions as requests carry them."""
    groups: dict[str, list[TopicPartition]] = {}
    for each in partitions:
        groups.setdefault(each.topic, []).append(each)
    yield from groups.items()


def _listed_offset(topic: str, each: Any) -> ListedOffset | AdminError:
    if each.error_code:
        return admin_error(each.error_code, None, TopicPartition(topic, each.partition_index))
    return ListedOffset(each.offset, each.timestamp, each.leader_epoch if each.leader_epoch >= 0 else None)


def _low_watermark(topic: str, each: Any) -> int | AdminError:
    if each.error_code:
        return admin_error(each.error_code, None, TopicPartition(topic, each.partition_index))
    return int(each.low_watermark)


def _reassignment(
    topic: str, partitions: Sequence[TopicPartition], wanted: Mapping[TopicPartition, Sequence[int] | None]
) -> reassigning.ReassignableTopic:
    return reassigning.ReassignableTopic(
        name=topic,
        partitions=[
            reassigning.ReassignablePartition(
                partition_index=each.partition,
                replicas=None if (brokers := wanted[each]) is None else list(brokers),
            )
            for each in partitions
        ],
    )


def _done(topic: str, each: Any) -> AdminError | None:
    if not each.error_code:
        return None
    return admin_error(each.error_code, each.error_message, TopicPartition(topic, each.partition_index))
