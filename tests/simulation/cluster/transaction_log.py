"""The transactions of one partition, as its committed bytes tell them: no code of the product but the batch format.

A transaction is open from its first batch to its marker. A reader of committed records may see each record whose
transaction has a commit marker, and none at or above the first offset of the oldest open transaction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from barnabas.protocol.control_record import ControlRecordType, control_record_type
from barnabas.protocol.record_batch import BatchView

__all__ = ["Span", "TransactionLog"]


@dataclass(slots=True)
class Span:
    """The records of one transaction in the partition."""

    producer_id: int
    first_offset: int
    records: dict[int, bytes] = field(default_factory=dict)
    marker_offset: int | None = None
    is_commit: bool = False


class TransactionLog:
    def __init__(self) -> None:
        self.next_offset = 0
        self.visible: dict[int, bytes] = {}
        """What readers of committed records see, by offset."""
        self.open: dict[int, Span] = {}
        """The open transaction of each producer."""
        self._spans: list[Span] = []

    def follow(self, batches: Mapping[int, bytes]) -> Iterator[tuple[BatchView, Span | None]]:
        """Take the batches that follow; yield each with the transaction that it belongs to or ends, if any."""
        while (data := batches.get(self.next_offset)) is not None:
            batch = BatchView(data)
            self.next_offset = batch.next_offset
            yield batch, self._take(batch)

    def _take(self, batch: BatchView) -> Span | None:
        if batch.is_control:
            return self._end(batch)
        records = {record.offset: bytes(record.value or b"") for record in batch.records()}
        if not batch.is_transactional:
            self.visible.update(records)
            return None
        span = self.open.get(batch.producer_id)
        if span is None:
            span = self.open[batch.producer_id] = Span(batch.producer_id, batch.base_offset)
            self._spans.append(span)
        span.records.update(records)
        return span

    def _end(self, batch: BatchView) -> Span | None:
        span = self.open.pop(batch.producer_id, None)
        if span is not None:
            kind = control_record_type(next(iter(batch.records())).key)
            span.marker_offset, span.is_commit = batch.base_offset, kind is ControlRecordType.COMMIT
            if span.is_commit:
                self.visible.update(span.records)
        return span

    def last_stable_offset(self, high_watermark: int) -> int:
        """Return the last stable offset of a replica with this high watermark, not above ``next_offset``."""
        unstable = self.unstable(high_watermark)
        return min((span.first_offset for span in unstable), default=high_watermark)

    def unstable(self, high_watermark: int) -> list[Span]:
        """Return the transactions that begin below the high watermark and have no marker below it."""
        return [
            span
            for span in self._spans
            if span.first_offset < high_watermark
            and (span.marker_offset is None or span.marker_offset >= high_watermark)
        ]

    def seen(self, start: int, end: int) -> list[tuple[int, bytes]]:
        """Return the visible records from ``start`` to before ``end``."""
        return [(offset, self.visible[offset]) for offset in range(start, end) if offset in self.visible]
