"""Finds how much of a log of share state is obsolete.

Each snapshot replaces all earlier records of its share-partition. So the records before the oldest of the newest
snapshots can be deleted.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

from barnabas.coordinator.share.persister import SharePartitionKey

__all__ = ["RedundantOffsets"]

_STALE_FACTOR = 4
_STALE_MIN = 1_000


class RedundantOffsets:
    def __init__(self) -> None:
        self._offsets: dict[SharePartitionKey, int] = {}
        """The offset of the newest snapshot of each share-partition."""
        self._heap: list[tuple[int, SharePartitionKey]] = []
        """All of these offsets, and older ones, which are skipped."""
        self._first_needed: int | None = None

    @property
    def first_needed(self) -> int | None:
        """The offset before which all records are obsolete; None while that is unknown or the beginning of the log."""
        return self._first_needed or None

    def note_snapshot(self, key: SharePartitionKey, offset: int) -> None:
        self._offsets[key] = offset
        heappush(self._heap, (offset, key))
        if len(self._heap) > _STALE_MIN + _STALE_FACTOR * len(self._offsets):
            self._heap = [(newest, known) for known, newest in self._offsets.items()]
            heapify(self._heap)
        self._first_needed = self._lowest()

    def note_removal(self, key: SharePartitionKey, offset: int) -> None:
        """The removal itself is still needed until the next snapshot, as in Kafka."""
        self.note_snapshot(key, offset)
        del self._offsets[key]

    def _lowest(self) -> int:
        heap = self._heap
        while self._offsets.get(heap[0][1]) != heap[0][0]:
            heappop(heap)
        return heap[0][0]
