"""Partitions: their offsets, and records to be deleted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeVar

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.admin.operations import Operations, RequestFor, refuse_unless
from barnabas.clients.admin.results import Results
from barnabas.clients.admin.retry import LEADER_MOVED, RETRIED, Deadline
from barnabas.clients.admin.routing import Target
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from barnabas.protocol.schema import Message

__all__ = [
    "IsolationLevel",
    "ListedOffset",
    "OffsetSpec",
    "PartitionOperations",
    "by_topic",
]

R = TypeVar("R", bound=Message)
V = TypeVar("V")


class IsolationLevel(IntEnum):
    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """The kind of offset requested; a timestamp of 0 or more is in milliseconds since 1970."""

    timestamp: int

    @classmethod
    def latest(cls) -> OffsetSpec:
        return cls(-1)

    @classmethod
    def earliest(cls) -> OffsetSpec:
        return cls(-2)

    @classmethod
    def max_timestamp(cls) -> OffsetSpec:
        """The offset of the record with the largest timestamp."""
        return cls(-3)

    @classmethod
    def earliest_local(cls) -> OffsetSpec:
        return cls(-4)

    @classmethod
    def latest_tiered(cls) -> OffsetSpec:
        return cls(-5)

    @classmethod
    def for_timestamp(cls, timestamp_ms: int) -> OffsetSpec:
        """The offset of the first record that is not older."""
        refuse_unless(timestamp_ms >= 0, f"a timestamp can't be negative: {timestamp_ms}")
        return cls(timestamp_ms)


_OLDEST_VERSION = {-3: 7, -4: 8, -5: 9}


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """``offset`` is -1 if no record is recent enough."""

    offset: int
    timestamp: int
    leader_epoch: int | None


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

        def build(left: Sequence[TopicPartition]) -> RequestFor[ListOffsetsResponse]:
            return lambda version: ListOffsetsRequest(
                replica_id=-1,
                isolation_level=isolation_level,
                topics=[
                    ListOffsetsTopic(
                        name=topic,
                        partitions=[
                            ListOffsetsPartition(
                                partition_index=partition.partition, timestamp=partitions[partition].timestamp
                            )
                            for partition in group
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
                (TopicPartition(topic.name, partition.partition_index), _listed_offset(topic.name, partition))
                for topic in response.topics
                for partition in topic.partitions
            ),
            deadline,
            api=ApiKey.LIST_OFFSETS,
            at_least=oldest,
        )

    async def delete_records(
        self, before: Mapping[TopicPartition, int], *, timeout_s: float | None = None
    ) -> Results[TopicPartition, int]:
        """Delete the records before an offset; -1 is the high watermark. The value is the new start of the log."""
        for partition, offset in before.items():
            refuse_unless(offset >= -1, f"{partition}: {offset} is not an offset")
        deadline = self._deadline(timeout_s)

        def build(left: Sequence[TopicPartition]) -> DeleteRecordsRequest:
            return DeleteRecordsRequest(
                topics=[
                    DeleteRecordsTopic(
                        name=topic,
                        partitions=[
                            DeleteRecordsPartition(partition_index=partition.partition, offset=before[partition])
                            for partition in group
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
                (TopicPartition(topic.name, partition.partition_index), _low_watermark(topic.name, partition))
                for topic in response.topics
                for partition in topic.partitions
            ),
            deadline,
            api=ApiKey.DELETE_RECORDS,
        )

    async def _at_leaders(
        self,
        partitions: Iterable[TopicPartition],
        build: Callable[[Sequence[TopicPartition]], RequestFor[R]],
        read: Callable[[R], Iterable[tuple[TopicPartition, V | AdminError]]],
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
                {TopicPartition(*partition): leader for partition, leader in leaders.items()},
                {TopicPartition(*partition): error for partition, error in problems.items()},
            )

        async def ask(part: Sequence[TopicPartition], target: Target) -> Results[TopicPartition, V]:
            return await self._items(
                part, build, read, deadline, api=api, target=target, at_least=at_least, retried=RETRIED - LEADER_MOVED
            )

        return await self._placed(partitions, place, ask, deadline, moved=LEADER_MOVED)


def by_topic(partitions: Iterable[TopicPartition]) -> Iterator[tuple[str, list[TopicPartition]]]:
    """Group partitions as in requests."""
    groups: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        groups.setdefault(partition.topic, []).append(partition)
    yield from groups.items()


def _listed_offset(topic: str, result: ListOffsetsPartitionResponse) -> ListedOffset | AdminError:
    if result.error_code:
        return admin_error(result.error_code, None, TopicPartition(topic, result.partition_index))
    return ListedOffset(result.offset, result.timestamp, result.leader_epoch if result.leader_epoch >= 0 else None)


def _low_watermark(topic: str, result: DeleteRecordsPartitionResult) -> int | AdminError:
    if result.error_code:
        return admin_error(result.error_code, None, TopicPartition(topic, result.partition_index))
    return result.low_watermark
