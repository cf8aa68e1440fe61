"""Run the herder's coroutines on an event loop: time, conditions, background tasks, and calls of the outside.

The loop may be asyncio's or a virtual one, so the worker, the simulator and the tests of the herder share this module.
All of it happens on that loop, so the herder needs no locks between threads.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import ClientError
from barnabas.common.clock import Clock
from barnabas.connect.errors import ConnectError

__all__ = ["HerderTasks"]

T = TypeVar("T")

log = logging.getLogger(__name__)


class _Waiter:
    """A coroutine that waits for a condition."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        self.condition = condition
        self.is_expired = False
        self.woken: asyncio.Future[None] | None = None

    def wake(self) -> None:
        if self.woken is not None and not self.woken.done():
            self.woken.set_result(None)

    def expire(self) -> None:
        self.is_expired = True
        self.wake()


class HerderTasks:
    """The half of ``Outside`` that is the same everywhere. ``fail`` receives errors that are bugs in the herder."""

    def __init__(self, loop: asyncio.AbstractEventLoop, clock: Clock, fail: Callable[[Exception], None]) -> None:
        self._loop = loop
        self._clock = clock
        self._fail = fail
        self._tasks: set[asyncio.Task[Any]] = set()
        self._waiters: dict[_Waiter, None] = {}
        """The waiters in the order of their calls."""
        self._is_evaluation_scheduled = False
        self._is_closed = False

    async def close(self) -> None:
        """Cancel everything that runs, and start nothing more."""
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- time

    def monotonic_ms(self) -> float:
        return self._clock.monotonic_ms()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    async def sleep(self, duration_ms: float) -> None:
        self.state_changed()
        await asyncio.sleep(max(0.0, duration_ms) / 1000)
        self.state_changed()

    # -- conditions

    async def until(self, condition: Callable[[], bool], timeout_ms: float | None = None) -> bool:
        self.state_changed()
        if condition():
            return True
        waiter = _Waiter(condition)
        self._waiters[waiter] = None
        timer = None if timeout_ms is None else self._loop.call_later(max(0.0, timeout_ms) / 1000, waiter.expire)
        try:
            while not (holds := condition()) and not waiter.is_expired:
                waiter.woken = self._loop.create_future()
                await waiter.woken
            return holds
        finally:
            del self._waiters[waiter]
            if timer is not None:
                timer.cancel()
            self.state_changed()

    def state_changed(self) -> None:
        if self._waiters and not self._is_evaluation_scheduled and not self._is_closed:
            self._is_evaluation_scheduled = True
            self._loop.call_soon(self._evaluate_conditions)

    def _evaluate_conditions(self) -> None:
        """Wake waiters. Each checks its condition again first, because an earlier one may have changed something."""
        self._is_evaluation_scheduled = False
        try:
            for waiter in self._waiters:
                if waiter.condition():
                    waiter.wake()
        except Exception as error:
            self._failed(error)

    # -- tasks

    def start(self, steps: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._task(steps)
        task.add_done_callback(self._ended)
        if self._is_closed:
            task.cancel()
        return task

    async def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run the implementation of a port's method to its end, even if the caller is cancelled.

        Errors of clients and unexpected ones become ConnectErrors.
        """
        self.state_changed()
        try:
            return await asyncio.shield(self._task(work))
        except (ConnectError, OSError):
            raise
        except (AdminError, ClientError) as error:
            raise ConnectError(str(error) or type(error).__name__) from error
        except Exception as error:
            log.exception("%s failed unexpectedly", getattr(work, "__qualname__", work))
            raise ConnectError(f"{type(error).__name__}: {error}") from error
        finally:
            self.state_changed()

    def _task(self, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        if isinstance(error, Exception):
            self._failed(error)
        self.state_changed()

    def _failed(self, error: Exception) -> None:
        log.error("the herder has failed, which is a bug: the worker stops", exc_info=error)
        self._fail(error)
