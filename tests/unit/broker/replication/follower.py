"""A follower's log in memory, and responses of a leader, for tests of a fetcher's decisions."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.broker.replication.replica_fetcher import FetcherConfig, ReplicaFetcher
from barnabas.broker.replication.replication_quota import ReplicationQuota
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from barnabas.protocol.schema import Message
from barnabas.storage.batch_header import Buffer

TOPIC_ID = Uuid.from_int(77)
FETCH_VERSION = 18
CONFIG = FetcherConfig(max_wait_ms=500, backoff_ms=1000)


class MemoryReplica:
    """``epochs`` contains the leader epoch of each record from ``start`` on. Fetched records are ``b"<epoch> ..."``."""

    def __init__(
        self, partition: int = 0, epochs: Sequence[int] = (), *, start: int = 0, topic_id: Uuid = TOPIC_ID
    ) -> None:
        self.topic_partition = TopicPartition("t", partition)
        self.topic_id = topic_id
        self.epochs = list(epochs)
        self.log_start_offset = start
        self.high_watermark = start
        self.fails_with: Exception | None = None

    @property
    def log_end_offset(self) -> int:
        return self.log_start_offset + len(self.epochs)

    @property
    def latest_epoch(self) -> int:
        return self.epochs[-1] if self.epochs else -1

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        """Return the end offset as ``LeaderEpochCheckpoint`` does."""
        known = [known_epoch for known_epoch in self.epochs if known_epoch <= epoch]
        if epoch > self.latest_epoch or epoch < 0:
            return -1, -1
        return known[-1] if known else epoch, self.log_start_offset + len(known)

    def append(self, records: Buffer, leader_epoch: int) -> int:
        if self.fails_with is not None:
            raise self.fails_with
        epochs = [int(word) for word in bytes(records).split()]
        if any(epoch > leader_epoch for epoch in epochs):
            raise ApiException(ErrorCode.CORRUPT_MESSAGE)
        self.epochs += epochs
        return len(records) if epochs else 0

    def follow_offsets(self, *, high_watermark: int, log_start_offset: int) -> None:
        self.high_watermark = max(self.high_watermark, min(high_watermark, self.log_end_offset))
        gone = max(0, min(log_start_offset, self.log_end_offset) - self.log_start_offset)
        del self.epochs[:gone]
        self.log_start_offset += gone

    def truncate_to(self, offset: int) -> None:
        if self.fails_with is not None:
            raise self.fails_with
        del self.epochs[max(0, offset - self.log_start_offset) :]
        self.high_watermark = min(self.high_watermark, self.log_end_offset)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        self.epochs = []
        self.log_start_offset = self.high_watermark = offset


def new_fetcher(quota: ReplicationQuota | None = None) -> ReplicaFetcher:
    return ReplicaFetcher(broker_id=2, config=CONFIG, broker_epoch=lambda: 41, quota=quota)


def fetch(fetcher: ReplicaFetcher, now_ms: int = 0) -> FetchRequest:
    """Return the next request, which must be a fetch."""
    request = fetcher.next_request(now_ms, fetch_version=FETCH_VERSION)
    assert isinstance(request, FetchRequest), request
    return request


def answer(fetcher: ReplicaFetcher, request: Message, response: Message, now_ms: int = 0) -> int:
    return sum(fetcher.receive(request, response, now_ms))


def response(*partitions: PartitionData, session_id: int = 9, topic_id: Uuid = TOPIC_ID) -> FetchResponse:
    topics = [FetchableTopicResponse(topic_id=topic_id, partitions=list(partitions))] if partitions else []
    return FetchResponse(session_id=session_id, responses=topics)


def data(
    partition: int = 0,
    epochs: Sequence[int] = (),
    *,
    high_watermark: int = 0,
    start: int = 0,
    error: ErrorCode = ErrorCode.NONE,
    diverging: tuple[int, int] | None = None,
) -> PartitionData:
    return PartitionData(
        partition_index=partition,
        error_code=error,
        high_watermark=high_watermark,
        log_start_offset=start,
        diverging_epoch=None if diverging is None else EpochEndOffset(epoch=diverging[0], end_offset=diverging[1]),
        records=b" ".join(b"%d" % epoch for epoch in epochs),
    )


def requested_partitions(request: FetchRequest) -> dict[int, tuple[int, int, int, int]]:
    """Return a map: partition -> (fetch offset, current leader epoch, last fetched epoch, log start)."""
    return {
        partition.partition: (
            partition.fetch_offset,
            partition.current_leader_epoch,
            partition.last_fetched_epoch,
            partition.log_start_offset,
        )
        for topic in request.topics
        for partition in topic.partitions
    }


def forgotten(request: FetchRequest) -> list[int]:
    return [partition for topic in request.forgotten_topics_data for partition in topic.partitions]
