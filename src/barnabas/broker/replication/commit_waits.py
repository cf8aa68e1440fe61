"""Waits for an offset: until a partition's high watermark, or the log start of all its replicas, has passed it."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import TYPE_CHECKING

from barnabas.common.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CommitWait", "CommitWaits", "settled"]


class CommitWait:
    """A callback that runs once, or never if it is cancelled before."""

    __slots__ = ("_on_done",)

    def __init__(self, on_done: Callable[[ErrorCode], None]) -> None:
        self._on_done: Callable[[ErrorCode], None] | None = on_done

    def cancel(self) -> None:
        self._on_done = None

    def done(self, error: ErrorCode) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(error)


def settled(on_done: Callable[[ErrorCode], None], error: ErrorCode) -> CommitWait:
    """Return the wait of an append whose outcome is known: call ``on_done`` immediately."""
    wait = CommitWait(on_done)
    wait.done(error)
    return wait


class CommitWaits:
    __slots__ = ("_count", "_heap")

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, CommitWait]] = []
        self._count = 0

    def add(self, offset: int, on_done: Callable[[ErrorCode], None]) -> CommitWait:
        wait = CommitWait(on_done)
        self._count += 1
        heappush(self._heap, (offset, self._count, wait))
        return wait

    def reached(self, offset: int, error: ErrorCode = ErrorCode.NONE) -> None:
        """Run all waits up to ``offset``, in the order of their offsets."""
        heap = self._heap
        while heap and heap[0][0] <= offset:
            heappop(heap)[2].done(error)

    def fail(self, error: ErrorCode) -> None:
        waiting, self._heap = self._heap, []
        for _, _, wait in sorted(waiting, key=lambda entry: entry[:2]):
            wait.done(error)
