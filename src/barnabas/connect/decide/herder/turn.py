"""A fair lock: one coroutine at a time, in the order of their requests."""

from __future__ import annotations

from collections import deque

from barnabas.connect.decide.herder.outside import Outside

__all__ = ["Turn"]


class Turn:
    """``async with turn:``. A coroutine that is cancelled while it waits leaves the queue."""

    def __init__(self, outside: Outside) -> None:
        self._outside = outside
        self._queue: deque[object] = deque()

    async def __aenter__(self) -> None:
        ticket = object()
        self._queue.append(ticket)
        try:
            await self._outside.until(lambda: self._queue[0] is ticket)
        except BaseException:
            self._queue.remove(ticket)
            self._outside.state_changed()
            raise

    async def __aexit__(self, *_: object) -> None:
        self._queue.popleft()
        self._outside.state_changed()
