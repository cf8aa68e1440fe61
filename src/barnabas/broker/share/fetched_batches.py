"""The record batches of a read: their offsets, and the bytes of those that a member has acquired."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.coordinator.share_partition.aborted_batches import aborted_batches
from barnabas.coordinator.share_partition.state_batch import FetchedBatch
from barnabas.protocol.record_batch import iter_batches

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.coordinator.share_partition.state_batch import AcquiredRecords
    from barnabas.protocol.record_batch import BatchView
    from barnabas.storage.log_reader import FetchedRecords

__all__ = ["FetchedBatches"]


class FetchedBatches:
    """The complete batches of a read that begin at ``last_offset`` or before. The others are not looked at."""

    __slots__ = ("_read", "_views", "batches")

    def __init__(self, read: FetchedRecords, last_offset: int) -> None:
        self._read = read
        self._views = _batches_until(read.records, last_offset)
        self.batches = [FetchedBatch(view.base_offset, view.last_offset) for view in self._views]

    @property
    def size(self) -> int:
        """All bytes that were read."""
        return len(self._read.records)

    def aborted(self) -> list[FetchedBatch]:
        """Return the batches of aborted transactions, for a read of committed records."""
        transactions = self._read.aborted_transactions
        if not transactions:
            return []
        return aborted_batches(self._views, ((aborted.producer_id, aborted.first_offset) for aborted in transactions))

    def records_of(self, acquired: Sequence[AcquiredRecords]) -> bytes | memoryview:
        """Return the batches from the one with the first acquired record to the one with the last, unchanged."""
        first_offset, last_offset = acquired[0].first_offset, acquired[-1].last_offset
        start, end = 0, 0
        for view in self._views:
            if view.base_offset > last_offset and end:
                break
            if view.base_offset <= first_offset:
                start = view.position
            end = view.position + view.size
        records = self._read.records
        return records if not start and end == len(records) else memoryview(records)[start:end]


def _batches_until(records: bytes | memoryview, last_offset: int) -> list[BatchView]:
    views: list[BatchView] = []
    for view in iter_batches(records):
        if views and view.base_offset > last_offset:
            break
        views.append(view)
    return views
