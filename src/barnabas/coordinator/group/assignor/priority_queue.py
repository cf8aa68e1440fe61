"""Java's ``PriorityQueue``. Kafka's assignment of tasks depends on its order of equal items, which ``heapq`` lacks."""

from __future__ import annotations

from typing import Generic, TypeVar

__all__ = ["PriorityQueue"]

T = TypeVar("T")


class PriorityQueue(Generic[T]):
    """A binary heap of items, each with the priority that it had when it was added."""

    __slots__ = ("_heap",)

    def __init__(self) -> None:
        self._heap: list[tuple[float, T]] = []

    def add(self, priority: float, item: T) -> None:
        heap = self._heap
        entry = priority, item
        heap.append(entry)
        place = len(heap) - 1
        while place > 0:
            parent = (place - 1) >> 1
            if priority >= heap[parent][0]:
                break
            heap[place] = heap[parent]
            place = parent
        heap[place] = entry

    def __bool__(self) -> bool:
        return bool(self._heap)

    def poll(self) -> T:
        """Remove and return the item with the lowest priority."""
        heap = self._heap
        last = heap.pop()
        if not heap:
            return last[1]
        first = heap[0]
        self._sift_down(last)
        return first[1]

    def _sift_down(self, entry: tuple[float, T]) -> None:
        heap = self._heap
        size = len(heap)
        priority = entry[0]
        place, child = 0, 1
        while child < size:
            if child + 1 < size and heap[child][0] > heap[child + 1][0]:
                child += 1
            if priority <= heap[child][0]:
                break
            heap[place] = heap[child]
            place, child = child, 2 * child + 1
        heap[place] = entry
