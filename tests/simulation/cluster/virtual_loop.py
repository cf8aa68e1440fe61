"""An asyncio event loop whose time is a number: what is due next happens next, and nothing waits for real.

It has what the code of a node uses: calls now and later, futures, tasks, and work on a thread, which here is done at
once when its (virtual) duration is over. Everything that a node starts carries its ``Owner`` in the context, so that
a crash silences all of it, and a slow node can be made to do everything late.
"""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from typing import Any

__all__ = ["OWNER", "Owner", "VirtualLoop"]


class Owner:
    """One life of a process: from its start to its crash."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_alive = True
        self.paused_until_s = 0.0
        self.tasks: set[asyncio.Task[Any]] = set()
        self.at_death: dict[object, Callable[[], None]] = {}
        """Those who wait for an answer of this process: the machine resets their connections when it dies."""
        self.thread_s: Callable[[], float] = lambda: 0.0
        """Draws how long work on a thread takes."""
        self.on_error: Callable[[BaseException], None] = lambda error: None
        self.on_step: Callable[[], None] = lambda: None
        """Called when this process has done something."""

    def ended(self, task: asyncio.Task[Any]) -> None:
        """Somebody may wait for it or not: an error that is no answer is told in any case."""
        self.tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self.is_alive:
            self.on_error(error)

    def die(self) -> None:
        """Nothing that was begun in this life goes on."""
        self.is_alive = False
        for task in self.tasks:
            task._log_destroy_pending = False  # type: ignore[attr-defined]
        self.tasks.clear()
        for reset in self.at_death.values():
            reset()
        self.at_death.clear()


OWNER: ContextVar[Owner | None] = ContextVar("OWNER", default=None)


class _Handle:
    __slots__ = ("args", "callback", "context", "is_cancelled", "when_s")

    def __init__(self, when_s: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context) -> None:
        self.when_s = when_s
        self.callback = callback
        self.args = args
        self.context = context
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def when(self) -> float:
        return self.when_s


# For mypy the whole of it is abstract; what is not defined here raises NotImplementedError, as it should.
_EventLoop: Any = asyncio.AbstractEventLoop


class VirtualLoop(_EventLoop):
    def __init__(self) -> None:
        self.now_s = 0.0
        self.steps = 0
        self._heap: list[tuple[float, int, _Handle]] = []
        self._sequence = 0

    # --- what futures and tasks ask of a loop

    def time(self) -> float:
        return self.now_s

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        return self._at(self.now_s, callback, args, context)

    call_soon_threadsafe = call_soon

    def call_later(
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> Any:
        return self._at(self.now_s + max(delay, 0.0), callback, args, context)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        return self._at(max(when, self.now_s), callback, args, context)

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Coroutine[Any, Any, Any], **options: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(coro, loop=self, **options)
        owner = OWNER.get()
        if owner is not None:
            owner.tasks.add(task)
            task.add_done_callback(owner.ended)
        return task

    def run_in_executor(self, executor: object, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:
        """The work is done when its time is over: a crash before that finds it not done."""
        future = self.create_future()
        owner = OWNER.get()

        def work() -> None:
            try:
                result = func(*args)
            except Exception as error:
                if not future.done():
                    future.set_exception(error)
            else:
                if not future.done():
                    future.set_result(result)

        self.call_later(owner.thread_s() if owner is not None else 0.0, work)
        return future

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """What nobody waited for is told when memory is cleaned up, at no certain time: see ``Owner.ended`` instead."""

    # --- running

    @property
    def is_at_rest(self) -> bool:
        """Whether nothing more happens before time goes on."""
        return not self._heap or self._heap[0][0] > self.now_s

    def start_as(self, owner: Owner, callback: Callable[..., Any], *args: Any) -> Any:
        """Call at once, as a part of this life."""
        context = copy_context()
        context.run(OWNER.set, owner)
        return context.run(callback, *args)

    def run_until(self, end_s: float, after_each: Callable[[Owner | None], None] | None = None) -> None:
        """Let everything happen that is due up to then, in the order of its time, and of its coming where equal."""
        heap = self._heap
        asyncio._set_running_loop(self)
        try:
            while heap and heap[0][0] <= end_s:
                when_s, _, handle = heapq.heappop(heap)
                if handle.is_cancelled:
                    continue
                owner = handle.context.get(OWNER)
                if owner is not None:
                    if not owner.is_alive:
                        continue
                    if owner.paused_until_s > when_s:
                        self._push(owner.paused_until_s, handle)
                        continue
                self.now_s = when_s
                self.steps += 1
                handle.context.run(handle.callback, *handle.args)
                if after_each is not None:
                    after_each(owner)
            self.now_s = end_s
        finally:
            asyncio._set_running_loop(None)

    def _at(
        self, when_s: float, callback: Callable[..., object], args: tuple[Any, ...], context: Context | None
    ) -> _Handle:
        handle = _Handle(
            when_s, callback, args, copy_context() if context is None else context
        )  # An empty one is false.
        self._push(when_s, handle)
        return handle

    def _push(self, when_s: float, handle: _Handle) -> None:
        self._sequence += 1
        heapq.heappush(self._heap, (when_s, self._sequence, handle))
