"""Batches sorted by their first offset. They do not overlap, and offsets between them may be missing."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.coordinator.share_partition.in_flight_batch import InFlightBatch

__all__ = ["InFlightBatches"]


class InFlightBatches:
    __slots__ = ("_batches", "_first_offsets")

    def __init__(self) -> None:
        self._first_offsets: list[int] = []
        self._batches: list[InFlightBatch] = []

    def __len__(self) -> int:
        return len(self._batches)

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    @property
    def first(self) -> InFlightBatch:
        return self._batches[0]

    @property
    def last(self) -> InFlightBatch:
        return self._batches[-1]

    def add(self, batch: InFlightBatch) -> None:
        if not self._batches or batch.first_offset > self._first_offsets[-1]:
            self._first_offsets.append(batch.first_offset)
            self._batches.append(batch)
            return
        index = bisect_left(self._first_offsets, batch.first_offset)
        self._first_offsets.insert(index, batch.first_offset)
        self._batches.insert(index, batch)

    def floor(self, offset: int) -> InFlightBatch | None:
        """Return the last batch that begins at or before ``offset``. It may end before it."""
        index = bisect_right(self._first_offsets, offset)
        return self._batches[index - 1] if index else None

    def beginning_in(self, first_offset: int, last_offset: int) -> Sequence[InFlightBatch]:
        """Return the batches whose first offset is one of these."""
        start = bisect_left(self._first_offsets, first_offset)
        return self._batches[start : bisect_right(self._first_offsets, last_offset)]

    def first_offset_after(self, offset: int) -> int | None:
        """Return the first offset of the next batch that begins after ``offset``."""
        index = bisect_right(self._first_offsets, offset)
        return self._first_offsets[index] if index < len(self._first_offsets) else None

    def remove_until(self, offset: int) -> None:
        """Remove the batches that end before ``offset``. Their records need no state any more."""
        count = 0
        for batch in self._batches:
            if batch.last_offset >= offset:
                break
            count += 1
        del self._first_offsets[:count], self._batches[:count]

    def clear(self) -> None:
        self._first_offsets.clear()
        self._batches.clear()
