"""Finds the end of partitions for consumers: of those that this broker leads, and of others through their leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.error_code import error_of
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from barnabas.storage.offset_lookup import LATEST_TIMESTAMP

if TYPE_CHECKING:
    from barnabas.broker.metadata_cache import MetadataCache
    from barnabas.broker.ports import OtherBrokers
    from barnabas.broker.replica_manager import ReplicaManager

__all__ = ["LatestOffset", "LatestOffsets"]

_RETRIES_S = (0.1, 0.5, 1.0)
_TIMEOUT_S = 10.0
_RETRIABLE = frozenset({ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NETWORK_EXCEPTION})


class LatestOffset(NamedTuple):
    """The high watermark, or an error."""

    offset: int
    error: ErrorCode = ErrorCode.NONE

    @classmethod
    def failed(cls, error: ErrorCode) -> LatestOffset:
        return cls(-1, error)


class LatestOffsets:
    def __init__(
        self,
        *,
        broker_id: int,
        replicas: ReplicaManager,
        metadata: MetadataCache,
        others: OtherBrokers,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._broker_id = broker_id
        self._replicas = replicas
        self._metadata = metadata
        self._others = others
        self._pause = pause

    async def of(self, partitions: Iterable[TopicPartition]) -> Mapping[TopicPartition, LatestOffset]:
        """Return the latest offset of each partition. Errors that may pass are retried for a short time."""
        found = await self._find(partitions)
        for retry_s in _RETRIES_S:
            again = [partition for partition, latest in found.items() if latest.error in _RETRIABLE]
            if not again:
                break
            await self._pause(retry_s)
            found |= await self._find(again)
        return found

    async def _find(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, LatestOffset]:
        found: dict[TopicPartition, LatestOffset] = {}
        by_leader: dict[int, list[TopicPartition]] = {}
        for partition in partitions:
            registration = self._metadata.partition(partition.topic, partition.partition)
            if registration is None or registration.leader < 0:
                found[partition] = LatestOffset.failed(ErrorCode.LEADER_NOT_AVAILABLE)
            elif registration.leader == self._broker_id:
                found[partition] = self._own(partition)
            else:
                by_leader.setdefault(registration.leader, []).append(partition)
        for answers in await asyncio.gather(*(self._ask(leader, wanted) for leader, wanted in by_leader.items())):
            found |= answers
        return found

    def _own(self, partition: TopicPartition) -> LatestOffset:
        try:
            led = self._replicas.leader_of(partition)
        except ApiException as error:
            return LatestOffset.failed(error.code)
        if led.leader_replica is not None and led.leader_replica.is_catching_up:
            return LatestOffset.failed(ErrorCode.OFFSET_NOT_AVAILABLE)
        return LatestOffset(led.log.high_watermark)

    async def _ask(self, leader: int, wanted: list[TopicPartition]) -> dict[TopicPartition, LatestOffset]:
        by_topic: dict[str, list[ListOffsetsPartition]] = {}
        for partition in wanted:
            by_topic.setdefault(partition.topic, []).append(
                ListOffsetsPartition(partition_index=partition.partition, timestamp=LATEST_TIMESTAMP)
            )
        request = ListOffsetsRequest(
            topics=[ListOffsetsTopic(name=topic, partitions=of_topic) for topic, of_topic in by_topic.items()],
            replica_id=-1,
        )
        found = dict.fromkeys(wanted, LatestOffset.failed(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION))
        try:
            response = await self._others.ask(leader, request, timeout_s=_TIMEOUT_S)
        except ApiException:
            return dict.fromkeys(wanted, LatestOffset.failed(ErrorCode.NETWORK_EXCEPTION))
        for topic in response.topics:
            for answer in topic.partitions:
                partition = TopicPartition(topic.name, answer.partition_index)
                found[partition] = LatestOffset(answer.offset, error_of(answer.error_code))
        return found
