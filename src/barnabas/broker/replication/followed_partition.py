"""A partition of this broker as its fetcher sees it: implements ``FollowerReplica`` on the partition's log.

A partition that was never written has no log. Its log is created with the first batch.
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from barnabas.storage.errors import StorageError
from barnabas.storage.leader_epoch_checkpoint import UNDEFINED_EPOCH, UNDEFINED_OFFSET

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from barnabas.broker.partition import Partition
    from barnabas.common.clock import Clock
    from barnabas.common.topic_partition import TopicPartition
    from barnabas.common.uuid import Uuid
    from barnabas.storage.batch_header import Buffer
    from barnabas.storage.partition_log import PartitionLog

__all__ = ["FollowedPartition", "FollowerLogs"]


class FollowerLogs(NamedTuple):
    """The parts that all followed partitions of a broker share."""

    clock: Clock
    report_failure: Callable[[PartitionLog, Exception], object]
    """Called with a disk error, before it is raised."""
    on_truncated: Callable[[PartitionLog], None]
    """Called when a log was truncated below its checkpoints."""


class FollowedPartition:
    __slots__ = ("_hidden_bytes", "_logs", "_partition", "topic_id", "topic_partition")

    def __init__(self, partition: Partition, logs: FollowerLogs) -> None:
        self.topic_partition: TopicPartition = partition.topic_partition
        self.topic_id: Uuid = partition.topic_id
        self._partition = partition
        self._logs = logs
        self._hidden_bytes = 0
        """Bytes appended since the high watermark moved."""

    @property
    def log_start_offset(self) -> int:
        log = self._partition.log_or_none
        return 0 if log is None else log.log_start_offset

    @property
    def log_end_offset(self) -> int:
        log = self._partition.log_or_none
        return 0 if log is None else log.log_end_offset

    @property
    def high_watermark(self) -> int:
        log = self._partition.log_or_none
        return 0 if log is None else log.high_watermark

    @property
    def latest_epoch(self) -> int:
        log = self._partition.log_or_none
        return UNDEFINED_EPOCH if log is None else log.latest_epoch

    def end_offset_for_epoch(self, epoch: int) -> tuple[int, int]:
        log = self._partition.log_or_none
        return (UNDEFINED_EPOCH, UNDEFINED_OFFSET) if log is None else log.end_offset_for_epoch(epoch)

    def append(self, records: Buffer, leader_epoch: int) -> int:
        log = self._partition.log
        with self._reporting(log):
            written = log.append_as_follower(records, now_ms=self._logs.clock.now_ms(), leader_epoch=leader_epoch)
        self._hidden_bytes += written
        return written

    def follow_offsets(self, *, high_watermark: int, log_start_offset: int) -> None:
        log = self._partition.log_or_none
        if log is None:
            return
        has_moved = log.maybe_advance_high_watermark(high_watermark)
        log.maybe_increment_log_start(min(log_start_offset, log.log_end_offset))
        if has_moved:
            # Consumers may read from followers too (KIP-392).
            self._partition.notify(max(1, self._hidden_bytes))
            self._hidden_bytes = 0

    def truncate_to(self, offset: int) -> None:
        log = self._partition.log_or_none
        if log is None:
            return
        was_cut = offset < log.log_end_offset
        with self._reporting(log):
            log.truncate_to(offset, now_ms=self._logs.clock.now_ms())
        if was_cut:
            self._logs.on_truncated(log)

    def truncate_fully_and_start_at(self, offset: int) -> None:
        log = self._partition.log
        with self._reporting(log):
            log.truncate_fully_and_start_at(offset, now_ms=self._logs.clock.now_ms())
        self._logs.on_truncated(log)

    @contextmanager
    def _reporting(self, log: PartitionLog) -> Iterator[None]:
        try:
            yield
        except (OSError, StorageError) as error:
            self._logs.report_failure(log, error)
            raise
