"""Deadlines without a clock: a heap that its owner drives.

Every heartbeat moves a timer to a later deadline, without a heap operation: the heap keeps the early entry, and when
that entry is due the timer is inserted again with its real deadline. So ``next_deadline_ms`` may be earlier than the
next timer that fires, never later; a tick that fires nothing is normal.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Generic, TypeVar

__all__ = ["Timer", "TimerQueue"]

A = TypeVar("A")


class Timer(Generic[A]):
    """One deadline that can be moved or cancelled; its owner runs ``action`` when it fires."""

    __slots__ = ("action", "deadline_ms", "queued_at_ms")

    def __init__(self, action: A) -> None:
        self.action = action
        self.deadline_ms: int | None = None
        self.queued_at_ms: int | None = None
        """The deadline of this timer's earliest heap entry, None while it has none."""

    @property
    def is_scheduled(self) -> bool:
        return self.deadline_ms is not None

    def cancel(self) -> None:
        self.deadline_ms = None


class TimerQueue(Generic[A]):
    """``on_earlier`` receives a new deadline that is before all others."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, Timer[A]]] = []
        self._sequence = 0
        self.on_earlier: Callable[[int], None] | None = None

    def __len__(self) -> int:
        return len(self._heap)

    def schedule(self, timer: Timer[A], deadline_ms: int) -> None:
        """Set or move the timer's only deadline."""
        timer.deadline_ms = deadline_ms
        queued_at_ms = timer.queued_at_ms
        if queued_at_ms is None or deadline_ms < queued_at_ms:
            self._push(timer, deadline_ms)

    def next_deadline_ms(self) -> int | None:
        return self._heap[0][0] if self._heap else None

    def pop_due(self, now_ms: int) -> Timer[A] | None:
        """Remove and return the next timer whose deadline has passed; None if none has."""
        heap = self._heap
        while heap and heap[0][0] <= now_ms:
            queued_at_ms, _, timer = heappop(heap)
            if timer.queued_at_ms == queued_at_ms:
                timer.queued_at_ms = None
            deadline_ms = timer.deadline_ms
            if deadline_ms is None:
                continue
            if deadline_ms <= now_ms:
                timer.deadline_ms = None
                return timer
            if timer.queued_at_ms is None:
                self._push(timer, deadline_ms)
        return None

    def _push(self, timer: Timer[A], deadline_ms: int) -> None:
        self._sequence += 1
        timer.queued_at_ms = deadline_ms
        heap = self._heap
        heappush(heap, (deadline_ms, self._sequence, timer))
        if self.on_earlier is not None and heap[0][2] is timer:
            self.on_earlier(deadline_ms)
