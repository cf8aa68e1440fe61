"""Read a coordinator's partition from its first record to its end, in steps, so that other work can run.

A batch of a transaction carries its producer's id, so that the shard can hold its records back until the marker.
Tombstones are replayed like all records: the log may not have been compacted yet.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from barnabas.common.errors import ApiException, InvariantViolated
from barnabas.coordinator.coordinator_runtime import CoordinatorRuntime, CoordinatorShard
from barnabas.protocol.control_record import ControlRecordType, control_record_type
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import NO_PRODUCER_ID, BatchView, iter_batches

__all__ = ["CoordinatorLoader", "LogReader"]

STEP_BYTES = 262_144
"""How much is read at once."""
_STEP_WORK = 65_536
"""The work of one step: some milliseconds, during which no other request is served. A byte is one unit of work."""
_RECORD_WORK = 150
"""What a record takes in addition to its bytes."""
_DONE = object()

log = logging.getLogger(__name__)

S = TypeVar("S", bound=CoordinatorShard)


class LogReader(Protocol):
    """A partition's log, as read by its leader."""

    @property
    def log_start_offset(self) -> int: ...

    @property
    def log_end_offset(self) -> int: ...

    @property
    def high_watermark(self) -> int: ...

    def read_batches(self, offset: int, max_bytes: int) -> bytes | memoryview:
        """Return whole batches from the one that holds ``offset``; at least one, or nothing at the end of the log."""
        ...


class CoordinatorLoader(Generic[S]):
    """Call ``step`` until it is done, but not before the high watermark has reached ``awaited_offset``, if set.

    Records of an earlier leader may not be committed yet. No client may see them before their commit.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime[S],
        partition: int,
        shard: S,
        reader: LogReader,
        *,
        buffer_size: int = STEP_BYTES,
    ) -> None:
        self._runtime = runtime
        self.partition = partition
        self._shard = shard
        self._reader = reader
        self._buffer_size = buffer_size
        self._offset = reader.log_start_offset
        self._steps: Iterator[None] | None = None
        """The rest of the batches that were read."""
        self._now_ms = 0
        self.record_count = 0
        self.awaited_offset: int | None = None

    def step(self, now_ms: int) -> bool:
        """Replay some records; return True if the partition is loaded, loading failed, or this broker has lost it."""
        self._now_ms = now_ms
        self.awaited_offset = None
        if not self._runtime.is_loading_into(self.partition, self._shard):
            return True
        try:
            if self._offset < self._reader.log_end_offset and self._replay():
                return False
            if self._reader.high_watermark < self._offset:
                self.awaited_offset = self._offset
                return False
        except (DecodeError, ApiException, InvariantViolated) as error:
            log.error(
                "Coordinator partition %d can't be loaded, its record at or after offset %d can't be read: %s",
                self.partition,
                self._offset,
                error,
            )
            self._runtime.fail_loading(self.partition, self._shard)
            return True
        if self._runtime.finish_loading(self.partition, self._shard, self._reader.high_watermark, now_ms):
            if self.record_count:
                log.info("Loaded coordinator partition %d: %d records", self.partition, self.record_count)
        return True

    def run(self, now_ms: int) -> None:
        """Replay up to the high watermark."""
        while not self.step(now_ms) and self.awaited_offset is None:
            pass

    def _replay(self) -> bool:
        """Take a step; return False if the log has no further batch."""
        start = self._offset
        if self._steps is None:
            self._steps = self._replay_in_steps()
        if next(self._steps, _DONE) is not _DONE:
            return True
        self._steps = None
        return self._offset > start

    def _replay_in_steps(self) -> Iterator[None]:
        """Replay one buffer of batches."""
        work = 0
        # A copy: the log may change between the steps.
        for batch in iter_batches(bytes(self._reader.read_batches(self._offset, self._buffer_size))):
            if batch.next_offset <= self._offset:
                continue
            if batch.is_control:
                self._replay_control(batch)
            else:
                for record_work in self._replay_records(batch):
                    work += record_work
                    if work >= _STEP_WORK:
                        work = 0
                        yield
            self._offset = batch.next_offset

    def _replay_control(self, batch: BatchView) -> None:
        for record in batch.records():
            kind = control_record_type(record.key)
            if kind in (ControlRecordType.COMMIT, ControlRecordType.ABORT):
                self._shard.replay_end_transaction_marker(
                    batch.producer_id, committed=kind is ControlRecordType.COMMIT, now_ms=self._now_ms
                )

    def _replay_records(self, batch: BatchView) -> Iterator[int]:
        """Replay the records of a batch; yield the work that each was."""
        shard = self._shard
        producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER_ID
        for record in batch.records():
            if record.key is None:
                continue
            decoded = shard.decode(record.key, record.value)
            if decoded is not None:
                shard.replay(decoded, record.offset, producer_id, self._now_ms)
            self.record_count += 1
            yield _RECORD_WORK + len(record.key) + len(record.value or b"")
