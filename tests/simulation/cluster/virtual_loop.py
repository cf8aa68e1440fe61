"""An asyncio event loop in virtual time: the next due event runs immediately, without any real waiting.

It supports what the code of a node uses: calls now and later, futures, tasks, and work on a thread, which runs here in
one step at the end of its virtual duration. Everything that a node starts carries its ``Owner`` in the context, so that
a crash ends all of it, and all of a slow node's work can be delayed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
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
        """Calls that reset the connections of peers that wait for an answer when this process dies."""
        self.thread_s: Callable[[], float] = lambda: 0.0
        """Draws the duration of work on a thread, in seconds."""
        self.on_error: Callable[[BaseException], None] = lambda error: None
        self.on_step: Callable[[], None] = lambda: None
        """Called after each step of this process."""

    def ended(self, task: asyncio.Task[Any]) -> None:
        """Report the error of a task, whether or not other code awaits the task."""
        self.tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self.is_alive:
            self.on_error(error)

    def die(self) -> None:
        """End all tasks of this life, and reset the connections of waiting peers."""
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


# mypy regards the whole class as abstract. Methods that are not defined here correctly raise NotImplementedError.
_EventLoop: Any = asyncio.AbstractEventLoop


class VirtualLoop(_EventLoop):
    def __init__(self) -> None:
        self.now_s = 0.0
        self.steps = 0
        self._heap: list[tuple[float, int, _Handle]] = []
        self._sequence = 0

    # --- the methods that futures and tasks call

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
        return self._at(self.now_s + delay if delay > 0.0 else self.now_s, callback, args, context)

    def call_at(self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None) -> Any:
        return self._at(when if when > self.now_s else self.now_s, callback, args, context)

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
        """Run the function at the end of its virtual duration. After an earlier crash it never runs."""
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
        """Ignore errors that no code awaited: garbage collection reports them at an arbitrary time.

        ``Owner.ended`` reports them instead.
        """

    # --- running

    @property
    def is_at_rest(self) -> bool:
        """Return whether all events of the current time have run."""
        return not self._heap or self._heap[0][0] > self.now_s

    def start_as(self, owner: Owner, callback: Callable[..., Any], *args: Any) -> Any:
        """Call immediately, as a part of this life."""
        context = copy_context()
        context.run(OWNER.set, owner)
        return context.run(callback, *args)

    def run_until(self, end_s: float, after_each: Callable[[Owner | None], None] | None = None) -> None:
        """Run all events that are due until ``end_s``, ordered by time and then by scheduling."""
        heap = self._heap
        asyncio._set_running_loop(self)
        try:
            while heap and heap[0][0] <= end_s:
                when_s, _, handle = heappop(heap)
                if handle.is_cancelled:
                    continue
                owner = handle.context.get(OWNER)
                if owner is not None:
                    if not owner.is_alive:
                        continue
                    if owner.paused_until_s > when_s:
                        self._sequence += 1
                        heappush(heap, (owner.paused_until_s, self._sequence, handle))
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
        # An empty context is false.
        handle = _Handle(when_s, callback, args, copy_context() if context is None else context)
        self._sequence += 1
        heappush(self._heap, (when_s, self._sequence, handle))
        return handle
