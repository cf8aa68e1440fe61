"""Collects the leader's records into batches until it is time to write them.

Offsets are fixed when records arrive: the layer above needs them before the records are durable. A set that must
be atomic never spans two batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from barnabas.protocol.record_batch_builder import RecordBatchBuilder
from barnabas.raft.control_records import QuorumRecord, build_control_batch
from barnabas.raft.errors import RecordBatchTooLargeException
from barnabas.raft.ports import RecordSerde
from barnabas.raft.ready import AppendedBatch

__all__ = ["BatchAccumulator"]

_BATCH_OVERHEAD = 61
_RECORD_OVERHEAD_MAX = 21
"""Upper bound of a record's bytes besides its value: lengths, deltas, null key, no headers."""


class _OpenBatch:
    __slots__ = ("base_offset", "records", "size", "timestamp_ms", "values")

    def __init__(self, base_offset: int, timestamp_ms: int) -> None:
        self.base_offset = base_offset
        self.timestamp_ms = timestamp_ms
        self.records: list[object] = []
        self.values: list[bytes] = []
        self.size = _BATCH_OVERHEAD


class BatchAccumulator:
    def __init__(
        self, *, epoch: int, base_offset: int, serde: RecordSerde, batch_max_bytes: int, batch_max_records: int
    ) -> None:
        self.next_offset = base_offset
        """The offset of the next record."""
        self._epoch = epoch
        self._serde = serde
        self._batch_max_bytes = batch_max_bytes
        self._batch_max_records = batch_max_records
        self._open: _OpenBatch | None = None
        self._complete: list[AppendedBatch] = []
        self.first_append_ms: int | None = None

    @property
    def is_empty(self) -> bool:
        return self._open is None and not self._complete

    @property
    def has_complete_batch(self) -> bool:
        return bool(self._complete)

    def append(
        self, records: Sequence[object], now_ms: int, *, is_atomic: bool, values: Sequence[bytes] | None = None
    ) -> int:
        """Add the records and return the offset of the last; nothing is added if they don't fit.

        ``values`` are the encoded records, for a caller that has encoded them.
        """
        if values is None:
            values = [self._serde.encode(record) for record in records]
        sizes = [len(value) + _RECORD_OVERHEAD_MAX for value in values]
        self._check_size(sum(sizes) if is_atomic else max(sizes, default=0))
        if is_atomic:
            self._append_together(records, values, sum(sizes), now_ms)
        else:
            for start, end in self._runs(sizes):
                self._append_together(records[start:end], values[start:end], sum(sizes[start:end]), now_ms)
        return self.next_offset - 1

    def _runs(self, sizes: Sequence[int]) -> Iterator[tuple[int, int]]:
        """Cut the records into runs that each fit a batch by size and by count; the first one fits the open batch."""
        used, count = (self._open.size, len(self._open.values)) if self._open is not None else (_BATCH_OVERHEAD, 0)
        start = 0
        for index, size in enumerate(sizes):
            if count and (used + size > self._batch_max_bytes or count >= self._batch_max_records):
                if index > start:
                    yield start, index
                self._complete_open_batch()
                start, used, count = index, _BATCH_OVERHEAD, 0
            used += size
            count += 1
        if start < len(sizes):
            yield start, len(sizes)

    def append_control(self, records: Sequence[QuorumRecord], now_ms: int) -> AppendedBatch:
        """Close the open batch and add a control batch after it."""
        self._complete_open_batch()
        base_offset = self.next_offset
        self.next_offset += len(records)
        batch = AppendedBatch(
            base_offset=base_offset,
            last_offset=self.next_offset - 1,
            epoch=self._epoch,
            timestamp_ms=now_ms,
            data=build_control_batch(records, base_offset=base_offset, leader_epoch=self._epoch, timestamp_ms=now_ms),
            is_control=True,
        )
        self._complete.append(batch)
        return batch

    def drain_complete(self) -> list[AppendedBatch]:
        """Remove and return the batches that can't grow any further; the open batch stays."""
        batches, self._complete = self._complete, []
        return batches

    def drain(self) -> list[AppendedBatch]:
        self._complete_open_batch()
        batches, self._complete = self._complete, []
        self.first_append_ms = None
        return batches

    def _check_size(self, needed: int) -> None:
        if needed + _BATCH_OVERHEAD > self._batch_max_bytes:
            raise RecordBatchTooLargeException(
                f"The total record(s) size of {needed} exceeds the maximum allowed batch size of "
                f"{self._batch_max_bytes}"
            )

    def _append_together(self, records: Sequence[object], values: Sequence[bytes], size: int, now_ms: int) -> None:
        if self._open is not None and self._open.size + size > self._batch_max_bytes:
            self._complete_open_batch()
        if self._open is None:
            self._open = _OpenBatch(self.next_offset, now_ms)
            if self.first_append_ms is None:
                self.first_append_ms = now_ms
        self._open.records.extend(records)
        self._open.values.extend(values)
        self._open.size += size
        self.next_offset += len(records)

    def _complete_open_batch(self) -> None:
        opened, self._open = self._open, None
        if opened is None:
            return
        builder = RecordBatchBuilder(base_offset=opened.base_offset, leader_epoch=self._epoch)
        builder.append_values(opened.timestamp_ms, opened.values)
        data = builder.build()
        self._complete.append(
            AppendedBatch(
                base_offset=opened.base_offset,
                last_offset=opened.base_offset + len(opened.values) - 1,
                epoch=self._epoch,
                timestamp_ms=opened.timestamp_ms,
                data=data,
                is_control=False,
                records=opened.records,
            )
        )
