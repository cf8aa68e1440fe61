"""Appends to the metadata log that wait for their commit."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

__all__ = ["PendingAppend", "PendingAppends"]


class PendingAppend:
    """Appended records: their offsets in the log, and a future for their commit.

    ``committed`` is done after every listener has handled the records. It fails with NotLeaderException if this node
    loses its leadership first; the records may or may not survive then.
    """

    __slots__ = ("base_offset", "committed", "last_offset")

    def __init__(self, base_offset: int, last_offset: int, committed: asyncio.Future[None]) -> None:
        self.base_offset = base_offset
        self.last_offset = last_offset
        self.committed = committed

    def __await__(self) -> Generator[object, None, None]:
        return self.committed.__await__()


class PendingAppends:
    """Appends that are not committed yet, in the order of the log."""

    def __init__(self) -> None:
        self._waiting: deque[PendingAppend] = deque()

    def add(self, base_offset: int, last_offset: int) -> PendingAppend:
        pending = PendingAppend(base_offset, last_offset, asyncio.get_running_loop().create_future())
        self._waiting.append(pending)
        return pending

    def complete(self, high_watermark: int) -> None:
        while self._waiting and self._waiting[0].last_offset < high_watermark:
            pending = self._waiting.popleft()
            if not pending.committed.done():
                pending.committed.set_result(None)

    def fail(self, error: Exception) -> None:
        waiting, self._waiting = self._waiting, deque()
        for pending in waiting:
            if not pending.committed.done():
                pending.committed.set_exception(error)
                pending.committed.exception()  # The caller may have stopped waiting; this prevents asyncio's warning.
