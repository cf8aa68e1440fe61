"""Two brokers with a share group in memory: sessions, locks and deliveries, as far as a consumer sees them."""

from __future__ import annotations

from collections import deque
from typing import Any

from barnabas.clients.client_config import Address, client_config
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages import share_acknowledge, share_fetch
from barnabas.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from barnabas.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
from barnabas.protocol.messages.share_fetch import ShareFetchResponse
from barnabas.protocol.messages.share_group_heartbeat import (
    Assignment,
    ShareGroupHeartbeatResponse,
    TopicPartitions,
)
from barnabas.protocol.record_batch import BatchView
from tests.unit.clients.memory_cluster import TOPIC_ID, MemoryCluster, MemoryConnection

__all__ = ["MemoryQueue"]

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


class OwnConnection(MemoryConnection):
    """A connection of one session, which ends with it."""

    async def request(self, message: Any, *, version: int | None = None, **options: Any) -> Any:
        return await super().request(message, version=version or self.version_of(message.API_KEY), **options)

    async def close(self) -> None:
        self.is_open = False


class MemoryQueue(MemoryCluster):
    """``available`` are the offsets of each partition that can be delivered, ``acquired`` those that are locked.

    ``errors`` are returned by the next requests of an API: for the whole, or with ``part_errors`` for each partition.
    """

    def __init__(self, partitions: int = 1) -> None:
        super().__init__(partitions)
        self.config = client_config({"bootstrap.servers": "a:1", "retry.backoff.ms": "1", "retry.backoff.max.ms": "5"})
        self.errors: dict[ApiKey, deque[ErrorCode]] = {key: deque() for key in ApiKey}
        self.part_errors: dict[ApiKey, deque[ErrorCode]] = {key: deque() for key in ApiKey}
        self.available: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
        self.acquired: dict[int, set[int]] = {partition: set() for partition in range(partitions)}
        self.deliveries: dict[tuple[int, int], int] = {}
        self.settled: list[tuple[int, int, int]] = []
        """Partition, offset and type of each acknowledgement."""
        self.epochs: dict[int, int] = {}
        """The next epoch of the session at each node."""
        self.wanted: dict[int, set[int]] = {1: set(), 2: set()}
        self.asked: list[Any] = []
        self.opened: list[MemoryConnection] = []

    async def open(self, address: Address) -> MemoryConnection:
        connection = OwnConnection(self, address)
        self.opened.append(connection)
        return connection

    def fill(self, partition: int, offsets: list[int]) -> None:
        self.available[partition] += offsets

    def lose_sessions(self) -> None:
        """End all connections: what is locked becomes available."""
        for connection in self.opened:
            connection.is_open = False
        self.epochs.clear()
        for partition, locked in self.acquired.items():
            self.available[partition] = sorted({*self.available[partition], *locked})
            locked.clear()

    def answer(self, node: int, message: Any) -> Any:
        key = ApiKey(message.API_KEY)
        self.asked.append(message)
        code = self.errors[key].popleft() if self.errors[key] else ErrorCode.NONE
        match key:
            case ApiKey.FIND_COORDINATOR:
                found = Coordinator(key="g", node_id=1, host="node-1", port=9092, error_code=code)
                return FindCoordinatorResponse(coordinators=[found])
            case ApiKey.SHARE_GROUP_HEARTBEAT:
                assigned = [TopicPartitions(topic_id=TOPIC_ID, partitions=list(self.leaders))]
                return ShareGroupHeartbeatResponse(
                    member_id=message.member_id, member_epoch=2, heartbeat_interval_ms=5, error_code=code,
                    assignment=Assignment(topic_partitions=assigned) if message.member_epoch == 0 else None,
                )  # fmt: skip
            case ApiKey.SHARE_FETCH:
                return self._share_fetch(node, message, code or self._epoch_error(node, message))
            case ApiKey.SHARE_ACKNOWLEDGE:
                return self._acknowledge(node, message, code or self._epoch_error(node, message))
        return super().answer(node, message)

    def _epoch_error(self, node: int, message: Any) -> ErrorCode:
        epoch = message.share_session_epoch
        if epoch == 0:
            self.epochs[node] = 1
            self.wanted[node] = set()
            return ErrorCode.NONE
        if node not in self.epochs:
            return ErrorCode.SHARE_SESSION_NOT_FOUND
        if epoch == -1:
            del self.epochs[node]
            return ErrorCode.NONE
        if epoch != self.epochs[node]:
            return ErrorCode.INVALID_SHARE_SESSION_EPOCH
        self.epochs[node] += 1
        return ErrorCode.NONE

    def _share_fetch(self, node: int, message: Any, code: ErrorCode) -> ShareFetchResponse:
        if code:
            return ShareFetchResponse(error_code=code)
        wanted = self.wanted[node]
        wanted |= {part.partition_index for topic in message.topics for part in topic.partitions}
        wanted -= {part for topic in message.forgotten_topics_data for part in topic.partitions}
        left = message.max_records
        parts = []
        part_errors = self.part_errors[ApiKey.SHARE_FETCH]
        for partition in sorted(wanted):
            error = part_errors.popleft() if part_errors else ErrorCode.NONE
            if self.leaders[partition] != node:
                error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            offsets = [] if error else self.available[partition][:left]
            left -= len(offsets)
            if offsets or error:
                parts.append(self._acquire(partition, offsets, error))
        topics = [share_fetch.ShareFetchableTopicResponse(topic_id=TOPIC_ID, partitions=parts)] if parts else []
        return ShareFetchResponse(acquisition_lock_timeout_ms=30_000, responses=topics)

    def _acquire(self, partition: int, offsets: list[int], error: ErrorCode) -> share_fetch.PartitionData:
        del self.available[partition][: len(offsets)]
        self.acquired[partition] |= set(offsets)
        ranges = []
        for offset in offsets:
            count = self.deliveries[partition, offset] = self.deliveries.get((partition, offset), 0) + 1
            ranges.append(share_fetch.AcquiredRecords(first_offset=offset, last_offset=offset, delivery_count=count))
        wanted = [
            batch
            for batch in self.logs[partition]
            if any(BatchView(batch).base_offset <= offset <= BatchView(batch).last_offset for offset in offsets)
        ]
        return share_fetch.PartitionData(
            partition_index=partition, error_code=error, records=b"".join(wanted), acquired_records=ranges
        )

    def _acknowledge(self, node: int, message: Any, code: ErrorCode) -> ShareAcknowledgeResponse:
        if code:
            return ShareAcknowledgeResponse(error_code=code)
        parts = []
        part_errors = self.part_errors[ApiKey.SHARE_ACKNOWLEDGE]
        for topic in message.topics:
            for part in topic.partitions:
                error = part_errors.popleft() if part_errors else ErrorCode.NONE
                for batch in () if error else part.acknowledgement_batches:
                    for offset in range(batch.first_offset, batch.last_offset + 1):
                        self._settle(part.partition_index, offset, batch.acknowledge_types[0])
                parts.append(share_acknowledge.PartitionData(partition_index=part.partition_index, error_code=error))
        if message.share_session_epoch == -1:
            for partition, locked in self.acquired.items():
                self.available[partition] = sorted({*self.available[partition], *locked})
                locked.clear()
        topics = [share_acknowledge.ShareAcknowledgeTopicResponse(topic_id=TOPIC_ID, partitions=parts)]
        return ShareAcknowledgeResponse(acquisition_lock_timeout_ms=30_000, responses=topics)

    def _settle(self, partition: int, offset: int, type_: int) -> None:
        self.settled.append((partition, offset, type_))
        if type_ != RENEW:
            self.acquired[partition].discard(offset)
        if type_ == RELEASE:
            self.available[partition] = sorted([*self.available[partition], offset])
