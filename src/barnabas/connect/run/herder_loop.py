"""Runs the herder on the event loop: what comes in makes it run, its effects become tasks, their results come back.

All of it happens on one loop, so the herder needs no locks. An effect that fails in a way that nobody expected is
logged and reaches the herder as a ConnectError; a herder that fails is a mistake of ours, and ends the worker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import ClientError
from barnabas.common.clock import Clock
from barnabas.connect.decide.herder.effects import Effect
from barnabas.connect.decide.herder.herder import Herder
from barnabas.connect.decide.herder.procedures import Call, Now
from barnabas.connect.errors import ConnectError

__all__ = ["HerderLoop"]

T = TypeVar("T")

log = logging.getLogger(__name__)


class HerderLoop:
    """``make`` does what an effect wants. ``fail`` is told when the herder itself has failed."""

    def __init__(
        self,
        herder: Herder,
        clock: Clock,
        make: Callable[[Effect[Any]], Awaitable[object]],
        fail: Callable[[Exception], None],
    ) -> None:
        self._herder = herder
        self._clock = clock
        self._make = make
        self._fail = fail
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None
        self._effects: set[asyncio.Task[None]] = set()
        self._is_scheduled = False
        self._is_closed = False

    def wake(self) -> None:
        """Something has come in: let the herder go on, soon."""
        if not self._is_scheduled and not self._is_closed:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    async def ask(self, steps: Coroutine[Any, Any, T]) -> T:
        """Have the herder do something, and wait for what comes of it. Who is cancelled meanwhile gives it up."""
        answer: asyncio.Future[T] = self._loop.create_future()

        def done(value: T | None, error: Exception | None) -> None:
            if answer.done():
                return
            if error is not None:
                answer.set_exception(error)
            else:
                answer.set_result(value)  # type: ignore[arg-type]

        procedure = self._herder.submit(steps, done)
        self.wake()
        try:
            return await answer
        except asyncio.CancelledError:
            self._herder.procedures.close(procedure)
            self.wake()
            raise

    async def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in self._effects:
            task.cancel()
        await asyncio.gather(*self._effects, return_exceptions=True)
        self._herder.procedures.close_all()

    def _run(self) -> None:
        self._is_scheduled = False
        if self._is_closed:
            return
        try:
            calls = self._herder.run(Now(self._clock.monotonic_ms(), self._clock.now_ms()))
        except Exception as error:
            log.exception("the herder has failed, which is a mistake of this program: the worker stops")
            self._fail(error)
            return
        for call in calls:
            task = self._loop.create_task(self._do(call))
            self._effects.add(task)
            task.add_done_callback(self._effects.discard)
        self._set_timer()

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        due_ms = self._herder.next_due_ms
        if due_ms is not None:
            # A millisecond more, because the clock's are whole ones.
            self._timer = self._loop.call_later(max(0.0, due_ms - self._clock.monotonic_ms() + 1) / 1000, self._run)

    async def _do(self, call: Call) -> None:
        try:
            value = await self._make(call.effect)
        except (ConnectError, OSError) as error:
            self._herder.procedures.raised(call.call_id, error)
        except (AdminError, ClientError, TimeoutError) as error:
            self._herder.procedures.raised(call.call_id, ConnectError(str(error) or type(error).__name__))
        except Exception as error:
            log.exception("%s failed in a way that nobody expected", type(call.effect).__name__)
            self._herder.procedures.raised(call.call_id, ConnectError(f"{type(error).__name__}: {error}"))
        else:
            self._herder.procedures.returned(call.call_id, value)
        self.wake()
