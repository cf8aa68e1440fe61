"""Steps that wait for something, without I/O and without a clock: the herder's own small scheduler.

What takes several steps (write a config, read it back, answer) is a coroutine, a *procedure*. It awaits effects
(``effects.py``), time (``Pause``), a condition (``Until``) or its turn (``Turn``), and nothing else. An effect leaves
as a ``Call`` that the worker makes; its result comes back by ``returned`` or ``raised``. So a test, a simulator and the
worker drive the same code, and the order of everything depends on the order of what came in alone.

Two clocks, both from outside: ``monotonic_ms`` measures, ``wall_ms`` is written into records.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from barnabas.connect.decide.herder.effects import Effect

__all__ = ["Call", "Now", "Pause", "Procedure", "ProcedureClosed", "Procedures", "Turn", "Until"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Now:
    monotonic_ms: float
    wall_ms: int


@dataclass(frozen=True, slots=True)
class Call:
    """An effect to be made. Its outcome is to be given back with ``call_id``, once."""

    call_id: int
    effect: Effect[Any]


class ProcedureClosed(Exception):
    """Raised inside a procedure that is given up, because the worker stops or its caller has gone."""


@dataclass(frozen=True, slots=True)
class Pause:
    """Go on after so long."""

    duration_ms: float

    def __await__(self) -> Generator[Pause, Any, None]:
        yield self


@dataclass(frozen=True, slots=True)
class Until:
    """Go on when the condition holds. False: it didn't in time."""

    condition: Callable[[], bool]
    timeout_ms: float | None = None

    def __await__(self) -> Generator[Until, Any, bool]:
        holds: bool = yield self
        return holds


class Turn:
    """One procedure at a time, in the order in which they came: ``async with turn:``."""

    def __init__(self) -> None:
        self._queue: deque[object] = deque()

    @property
    def is_taken(self) -> bool:
        return bool(self._queue)

    async def __aenter__(self) -> None:
        ticket = object()
        self._queue.append(ticket)
        try:
            await Until(lambda: self._queue[0] is ticket)
        except BaseException:
            self._queue.remove(ticket)
            raise

    async def __aexit__(self, *_: object) -> None:
        self._queue.popleft()


@dataclass(eq=False, slots=True)
class Procedure(Generic[T]):
    """One run of a coroutine. ``on_done`` hears of its value or its error, and of nothing if it was closed."""

    steps: Coroutine[Any, Any, T]
    on_done: Callable[[T | None, Exception | None], None] | None
    is_over: bool = False
    _waits_for: Until | None = field(default=None, repr=False)


class Procedures:
    """Runs procedures as far as they go. ``calls`` gathers the effects until the worker takes them."""

    def __init__(self, now: Now) -> None:
        self.now = now
        self.calls: list[Call] = []
        self._next_id = 0
        self._called: dict[int, Procedure[Any]] = {}
        self._timers: list[tuple[float, int, Procedure[Any], Until | None]] = []
        self._waiting: dict[Procedure[Any], Until] = {}
        self._ready: deque[tuple[Procedure[Any], Any, BaseException | None]] = deque()
        self._is_running = False

    # -- for the herder

    def start(
        self,
        steps: Coroutine[Any, Any, T],
        on_done: Callable[[T | None, Exception | None], None] | None = None,
    ) -> Procedure[T]:
        procedure = Procedure(steps, on_done)
        self._ready.append((procedure, None, None))
        return procedure

    def close(self, procedure: Procedure[Any]) -> None:
        """Give a procedure up. What it has in hand it lets go of; its call, if there is one, has no reader."""
        if procedure.is_over:
            return
        self._waiting.pop(procedure, None)
        self._ready = deque(entry for entry in self._ready if entry[0] is not procedure)
        self._step(procedure, None, ProcedureClosed())
        if not procedure.is_over:  # It waits for something else on its way out, which nobody will give it.
            procedure.is_over = True
            procedure.steps.close()

    def close_all(self) -> None:
        everything = {entry[0]: None for entry in self._ready} | dict.fromkeys(self._waiting)
        everything |= dict.fromkeys(self._called.values()) | {timer[2]: None for timer in self._timers}
        for procedure in everything:
            if not procedure.is_over:
                procedure.is_over = True
                procedure.steps.close()
        self._ready.clear()
        self._waiting.clear()
        self._called.clear()
        self._timers.clear()

    # -- for the worker

    def returned(self, call_id: int, value: object) -> None:
        procedure = self._called.pop(call_id, None)
        if procedure is not None:
            self._ready.append((procedure, value, None))

    def raised(self, call_id: int, error: Exception) -> None:
        procedure = self._called.pop(call_id, None)
        if procedure is not None:
            self._ready.append((procedure, None, error))

    def run(self, now: Now) -> list[Call]:
        """Let everything go on that can, and take what is to be done."""
        self.now = now
        while True:
            self._fire_timers()
            if self._ready:
                while self._ready:
                    self._step(*self._ready.popleft())
            elif not self._wake_one():
                break
        calls, self.calls = self.calls, []
        return calls

    @property
    def next_due_ms(self) -> float | None:
        """When to call ``run`` again at the latest, on the monotonic clock."""
        while self._timers and self._is_stale(self._timers[0]):
            heapq.heappop(self._timers)
        return self._timers[0][0] if self._timers else None

    # -- inside

    def _is_stale(self, timer: tuple[float, int, Procedure[Any], Until | None]) -> bool:
        _, _, procedure, until = timer
        return procedure.is_over or (until is not None and self._waiting.get(procedure) is not until)

    def _fire_timers(self) -> None:
        while self._timers and self._timers[0][0] <= self.now.monotonic_ms:
            timer = heapq.heappop(self._timers)
            if self._is_stale(timer):
                continue
            _, _, procedure, until = timer
            if until is None:
                self._ready.append((procedure, None, None))
            else:
                del self._waiting[procedure]
                self._ready.append((procedure, until.condition(), None))

    def _wake_one(self) -> bool:
        """Only one, because what it does may make another's condition untrue again."""
        for procedure, until in self._waiting.items():
            if until.condition():
                del self._waiting[procedure]
                self._ready.append((procedure, True, None))
                return True
        return False

    def _step(self, procedure: Procedure[Any], value: object, error: BaseException | None) -> None:
        if procedure.is_over:
            return
        try:
            wish = procedure.steps.throw(error) if error is not None else procedure.steps.send(value)
        except StopIteration as end:
            self._end(procedure, end.value, None)
        except ProcedureClosed:
            procedure.is_over = True
        except Exception as failure:
            self._end(procedure, None, failure)
        else:
            self._grant(procedure, wish)

    def _grant(self, procedure: Procedure[Any], wish: object) -> None:
        self._next_id += 1
        if isinstance(wish, Pause):
            due_ms = self.now.monotonic_ms + max(0.0, wish.duration_ms)
            heapq.heappush(self._timers, (due_ms, self._next_id, procedure, None))
        elif isinstance(wish, Until):
            self._waiting[procedure] = wish
            if wish.timeout_ms is not None:
                due_ms = self.now.monotonic_ms + max(0.0, wish.timeout_ms)
                heapq.heappush(self._timers, (due_ms, self._next_id, procedure, wish))
        elif isinstance(wish, Effect):
            self._called[self._next_id] = procedure
            self.calls.append(Call(self._next_id, wish))
        else:
            raise TypeError(f"a procedure waits for {wish!r}, which is no effect, pause or condition")

    def _end(self, procedure: Procedure[Any], value: object, error: Exception | None) -> None:
        procedure.is_over = True
        if procedure.on_done is not None:
            procedure.on_done(value, error)
        elif error is not None:
            raise error
