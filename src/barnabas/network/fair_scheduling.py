"""Shares long work fairly between its owners: an owner with much work waits for its own work.

``FairThreads`` is for work that does not need the loop (decoding, checking batches). ``FairTurns`` is for work on the
loop: one at a time, each followed by a proportional pause if other clients have sent short requests meanwhile, so that
these are served. Both serve owners in turn. Work that was cancelled before its turn, because its client disconnected,
never begins.
"""

from __future__ import annotations

import asyncio
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter
from typing import TYPE_CHECKING, Generic, TypeVar

from barnabas.common.errors import ApiException
from barnabas.common.exception_frames import forget_frames
from barnabas.protocol.errors import DecodeError

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable
    from concurrent.futures import Executor
    from types import TracebackType

__all__ = ["FairQueue", "FairThreads", "FairTurns", "Turn", "pause_after"]

T = TypeVar("T")

_ANSWERS = (ApiException, DecodeError)
"""Errors that refuse a client's work; any other exception is a bug whose traceback is logged."""
_PAUSE_RATIO = 2.0
"""Long requests take at most a third of the loop's time."""
_PAUSE_S_MAX = 0.5


def pause_after(busy_s: float, ratio: float = _PAUSE_RATIO) -> float:
    """Return the seconds that are left to other work after long work, in proportion to its duration."""
    return min(busy_s * ratio, _PAUSE_S_MAX)


class FairQueue(Generic[T]):
    """A queue that is first in, first out for each owner, and serves the owners in turn."""

    __slots__ = ("_by_owner",)

    def __init__(self) -> None:
        self._by_owner: dict[Hashable, deque[T]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_owner)

    def put(self, owner: Hashable, item: T) -> None:
        items = self._by_owner.get(owner)
        if items is None:
            self._by_owner[owner] = items = deque()
        items.append(item)

    def pop(self) -> T:
        """Return the next item; its owner moves to the end of the queue."""
        owner = next(iter(self._by_owner))
        items = self._by_owner.pop(owner)
        item = items.popleft()
        if items:
            self._by_owner[owner] = items
        return item


class FairThreads:
    """A few threads. They start with the first work, and belong to the loop that submits it."""

    def __init__(self, count: int, name: str) -> None:
        self._count = count
        self._name = name
        self._running = 0
        self._waiting: FairQueue[tuple[asyncio.Future[object], Callable[[], object]]] = FairQueue()
        self._executor: Executor | None = None

    async def run(self, owner: Hashable, work: Callable[[], T]) -> T:
        """Run ``work`` on a thread in its owner's turn; return or raise its outcome."""
        loop = asyncio.get_running_loop()
        done: asyncio.Future[object] = loop.create_future()
        self._waiting.put(owner, (done, work))
        self._start_some(loop)
        try:
            return await done  # type: ignore[return-value]
        finally:
            del (
                done,
                work,
            )  # An exception refers to this frame: large objects must not wait for the garbage collector.

    def close(self) -> None:
        """End the threads; work that has not begun is dropped."""
        if self._executor is not None:
            self._executor.shutdown(wait=True, cancel_futures=True)
            self._executor = None

    def _start_some(self, loop: asyncio.AbstractEventLoop) -> None:
        while self._running < self._count and self._waiting:
            done, work = self._waiting.pop()
            if done.cancelled():
                continue
            if self._executor is None:
                self._executor = ThreadPoolExecutor(self._count, self._name)
            self._running += 1
            running = asyncio.ensure_future(loop.run_in_executor(self._executor, work))
            running.add_done_callback(lambda ended, done=done: self._ended(loop, ended, done))  # type: ignore[misc]

    def _ended(
        self, loop: asyncio.AbstractEventLoop, ended: asyncio.Future[object], done: asyncio.Future[object]
    ) -> None:
        self._running -= 1
        if ended.cancelled():
            done.cancel()
        else:
            failure = ended.exception()
            if done.cancelled():
                pass
            elif failure is not None:
                if isinstance(failure, _ANSWERS):
                    forget_frames(failure)
                done.set_exception(failure)
            else:
                done.set_result(ended.result())
        self._start_some(loop)


class Turn:
    """One turn: entered when it is due, left as soon as the loop has done its part."""

    __slots__ = ("_owner", "_turns", "busy_s")

    def __init__(self, turns: FairTurns, owner: Hashable) -> None:
        self._turns = turns
        self._owner = owner
        self.busy_s = 0.0
        """Add the time for which the turn held the loop."""

    async def __aenter__(self) -> Turn:
        await self._turns.enter(self._owner)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._turns.leave(self.busy_s)

    def held_since(self, began: float) -> float:
        """Return the seconds for which the loop was held: from ``began`` (``perf_counter``) until now."""
        held_s = perf_counter() - began
        self.busy_s += held_s
        return held_s

    def pause_s(self, held_s: float) -> float:
        """Return how long to leave the loop to others after a part of the turn."""
        return self._turns.pause_s(held_s)


class FairTurns:
    """Lets one long request at a time use the loop. With ``pause_ratio`` 0 no pause follows it."""

    def __init__(self, *, pause_ratio: float = _PAUSE_RATIO, short_requests: Callable[[], int] | None = None) -> None:
        """``short_requests`` counts the short requests so far: without new ones, a pause would serve no one."""
        self._pause_ratio = pause_ratio
        self._short_requests = short_requests
        self._seen = 0
        self._is_taken = False
        self._waiting: FairQueue[asyncio.Future[None]] = FairQueue()

    def turn(self, owner: Hashable) -> Turn:
        return Turn(self, owner)

    async def enter(self, owner: Hashable) -> None:
        if not self._is_taken:
            self._is_taken = True
            return
        called = asyncio.get_running_loop().create_future()
        self._waiting.put(owner, called)
        try:
            await called
        except asyncio.CancelledError:
            if called.done() and not called.cancelled():
                self.leave(0.0)  # It had just received its turn.
            raise

    def pause_s(self, busy_s: float) -> float:
        """Return how long to leave the loop to others after this much work."""
        if self._short_requests is not None:
            seen, self._seen = self._seen, self._short_requests()
            if self._seen == seen:
                return 0.0
        return pause_after(busy_s, self._pause_ratio)

    def leave(self, busy_s: float) -> None:
        pause_s = self.pause_s(busy_s)
        if pause_s > 0:
            asyncio.get_running_loop().call_later(pause_s, self._call_next)
        else:
            self._call_next()

    def _call_next(self) -> None:
        while self._waiting:
            called = self._waiting.pop()
            if not called.done():
                called.set_result(None)
                return
        self._is_taken = False
