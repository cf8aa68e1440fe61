"""Measures how long the event loop is blocked: by one of its turns, and by each kind of decision of the controller.

During a turn the loop does not read sockets. So every client may have to wait for the longest turn, whatever it
requested. The longest turn of the last one to two minutes is reported, so that an operator who reacts to an alarm still
finds it.
"""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import perf_counter
from typing import Any, Final

__all__ = ["LONG_TURN_S", "LoopTurns", "TurnTimes", "measured_loop", "turns_of"]

LONG_TURN_S: Final = 0.02
_WINDOW_S: Final = 60.0


class _Longest:
    """The largest value of the current window and of the previous one."""

    __slots__ = ("_before", "_now", "_since")

    def __init__(self) -> None:
        self._since = 0.0
        self._now = self._before = 0.0

    def took(self, seconds: float, at: float) -> None:
        if at - self._since >= _WINDOW_S:
            self._turn_over(at)
        if seconds > self._now:
            self._now = seconds

    def longest(self, at: float) -> float:
        if at - self._since >= 2 * _WINDOW_S:
            return 0.0
        return self._now if at - self._since >= _WINDOW_S else max(self._now, self._before)

    def _turn_over(self, at: float) -> None:
        self._before = self._now if at - self._since < 2 * _WINDOW_S else 0.0
        self._now = 0.0
        self._since = at


class LoopTurns:
    """Turns of one event loop; written by its thread, read by others."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._longest = _Longest()
        self.long_turns = 0
        """Turns that were longer than ``LONG_TURN_S``."""

    def took(self, seconds: float, at: float) -> None:
        if seconds > LONG_TURN_S:
            self.long_turns += 1
        self._longest.took(seconds, at)

    @property
    def longest_s(self) -> float:
        return self._longest.longest(self._clock())


class TurnTimes:
    """Durations of the controller's decisions, by kind: an API's name, ``tick``, ``append`` or ``commit``."""

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock = clock
        self._longest: dict[str, _Longest] = {}

    @contextmanager
    def of(self, kind: str) -> Iterator[None]:
        began = self._clock()
        try:
            yield
        finally:
            now = self._clock()
            known = self._longest.get(kind)
            if known is None:
                known = self._longest[kind] = _Longest()
            known.took(now - began, now)

    def longest_s(self) -> dict[str, float]:
        now = self._clock()
        return {kind: longest.longest(now) for kind, longest in sorted(self._longest.items())}


class _MeasuringSelector(selectors.DefaultSelector):
    """Measures turns. A turn lasts from the end of one poll of the sockets to the beginning of the next."""

    def __init__(self, turns: LoopTurns) -> None:
        super().__init__()
        self._turns = turns
        self._resumed: float | None = None

    def select(self, timeout: float | None = None) -> Any:
        now = perf_counter()
        if self._resumed is not None:
            self._turns.took(now - self._resumed, now)
        ready = super().select(timeout)
        self._resumed = perf_counter()
        return ready


def measured_loop() -> asyncio.AbstractEventLoop:
    """Create an event loop that measures its turns; see ``turns_of``."""
    turns = LoopTurns()
    loop = asyncio.SelectorEventLoop(_MeasuringSelector(turns))
    loop.barnabas_turns = turns  # type: ignore[attr-defined]
    return loop


def turns_of(loop: asyncio.AbstractEventLoop) -> LoopTurns | None:
    """Return the turns of a loop, or None if it does not measure them, as in a test."""
    return getattr(loop, "barnabas_turns", None)
