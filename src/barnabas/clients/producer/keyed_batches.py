"""Waiting records with keys, each for a call that waits for its offset.

Records of one call for one partition are in one batch if they fit. Records that wait together are sent together:
while a batch is in flight, the next one fills.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NamedTuple

from barnabas.clients.producer.batch import Batch
from barnabas.clients.producer.batch_queues import BatchQueues
from barnabas.protocol.record_batch import BATCH_HEADER_SIZE
from barnabas.protocol.record_batch_builder import encode_record

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barnabas.clients.producer.config import ProducerConfig

__all__ = ["KeyedAccumulator", "KeyedBatch", "KeyedRecord", "ProduceCall"]

_RECORD_OVERHEAD_MAX = 26
"""Length, attributes, both deltas, two lengths and the number of headers, in a batch of less than a million records."""


class ProduceCall:
    """``offsets`` fill up as batches are acknowledged; ``done`` ends with the last one, or with the first failure."""

    __slots__ = ("_left", "done", "offsets")

    def __init__(self, count: int) -> None:
        self.offsets = [-1] * count
        self._left = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def delivered(self, place: int, offset: int) -> None:
        self.offsets[place] = offset
        self._left -= 1
        if not self._left and not self.done.done():
            self.done.set_result(None)

    def fail(self, error: Exception) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class KeyedRecord(NamedTuple):
    """``place`` is the record's place in its call."""

    call: ProduceCall
    place: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int

    @property
    def size_max(self) -> int:
        return len(self.key or b"") + len(self.value or b"") + _RECORD_OVERHEAD_MAX


class KeyedBatch(Batch):
    __slots__ = ("records",)

    def __init__(self, partition: int, created_s: float, records: Sequence[KeyedRecord]) -> None:
        super().__init__(partition, created_s, records[0].timestamp_ms)
        self.records: list[KeyedRecord] = []
        self.extend(records, sum(record.size_max for record in records))

    def extend(self, records: Sequence[KeyedRecord], size: int) -> None:
        self.records += records
        self.count += len(records)
        self.size += size

    def is_wanted(self) -> bool:
        return any(not record.call.done.done() for record in self.records)

    def leave_out_ended(self) -> None:
        """Remove the records of calls that no longer wait."""
        self.records = [record for record in self.records if not record.call.done.done()]
        self.count = len(self.records)
        self.size = BATCH_HEADER_SIZE + sum(record.size_max for record in self.records)

    def delivered(self) -> None:
        for step, record in enumerate(self.records):
            record.call.delivered(record.place, self.base_offset + step if self.base_offset >= 0 else -1)

    def fail(self, error: Exception) -> None:
        for record in self.records:
            record.call.fail(error)

    def halves(self) -> tuple[KeyedBatch, KeyedBatch]:
        """Split a batch of several records into two, whose sequences replace that of this one."""
        middle = self.count // 2
        first, second = (
            KeyedBatch(self.partition, self.created_s, records)
            for records in (self.records[:middle], self.records[middle:])
        )
        self._replace_by(first, second)
        return first, second

    def _take_records(self) -> bytes:
        self._base_timestamp = self.records[0].timestamp_ms
        self._max_timestamp = max(record.timestamp_ms for record in self.records)
        return b"".join(
            encode_record(step, record.timestamp_ms - self._base_timestamp, record.key, record.value)
            for step, record in enumerate(self.records)
        )


class KeyedAccumulator(BatchQueues[KeyedBatch]):
    """Never delays batches: callers wait for the result, which limits the number of waiting records."""

    def __init__(self, partitions: Iterable[int], config: ProducerConfig) -> None:
        super().__init__(partitions, config, producer=None)
        self._ended: set[int] = set()
        """Partitions with records of calls that have ended."""
        self._limits: dict[int, int] = {}
        """The maximum bytes of a batch, for partitions that refused larger ones."""

    def append(self, partition: int, records: Sequence[KeyedRecord], now: float) -> None:
        """Add the records of one call for the partition."""
        queue = self._queues[partition]
        limit = self._limits.get(partition, self._batch_limit)
        self._leave_out_ended((partition,))
        for group, size in _groups(records, limit):
            batch = queue.batches[-1] if queue.batches else None
            if batch is not None and not batch.attempts and not batch.is_full and batch.size + size <= limit:
                batch.extend(group, size)
            else:
                batch = KeyedBatch(partition, now, group)
                queue.batches.append(batch)
                size = batch.size
            self._add(queue, size, len(group))

    def divide(self, batch: KeyedBatch) -> None:
        """Split a batch that the cluster refused as too large. Later ones of its partition are no larger."""
        self._limits[batch.partition] = min(self._limits.get(batch.partition, batch.size), max(1, batch.size // 2))
        self._replace(batch, batch.halves())

    def drain(self, partitions: Iterable[int], now: float) -> list[KeyedBatch]:
        self._leave_out_ended(partitions)
        return super().drain(partitions, now)

    def withdraw(self, partitions: Iterable[int]) -> None:
        """Note that a call with records for these partitions no longer waits.

        Unsent records are removed. A sent batch that no other call waits for is given up.
        """
        self._ended.update(partitions)

    def _leave_out_ended(self, partitions: Iterable[int]) -> None:
        """Remove the records of all calls that have ended since: thousands may end at the same time."""
        if not self._ended:
            return
        for partition in self._ended.intersection(partitions):
            self._ended.discard(partition)
            queue = self._queues[partition]
            for batch in list(queue.batches):
                if batch.attempts:
                    if not batch.is_wanted():
                        self._remove(queue, batch)
                        self.forget_producer(partition)
                    continue
                size, count = batch.size, batch.count
                batch.leave_out_ended()
                if not batch.count:
                    queue.batches.remove(batch)
                    batch.size = 0
                self._add(queue, batch.size - size, batch.count - count)


def _groups(records: Sequence[KeyedRecord], limit: int) -> list[tuple[list[KeyedRecord], int]]:
    """Return pieces that fit a batch of so many bytes, each with its size; a larger record is alone."""
    groups: list[tuple[list[KeyedRecord], int]] = []
    group: list[KeyedRecord] = []
    size = 0
    for record in records:
        added = record.size_max
        if group and BATCH_HEADER_SIZE + size + added > limit:
            groups.append((group, size))
            group, size = [], 0
        group.append(record)
        size += added
    groups.append((group, size))
    return groups
