"""Show the progress of producer and connectors with rate and time left: bars on a terminal, otherwise lines."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn

__all__ = ["BarProgress", "LineProgress", "Pace", "RunProgress", "run_progress"]

_SECONDS_BETWEEN_LINES = 5.0
_SHARE_MIN = 0.1
"""Below this share no time is estimated: the first batch of a connector is small, and Spark is cold."""


class Pace:
    """The rate of a count that may grow in leaps, as a connector's does with each batch. Times are in seconds.

    Between two leaps the time left runs down, and the rate stays the same.
    """

    def __init__(self, total: int, now: float) -> None:
        self._total = total
        self._started = self._changed = now
        self._count = 0

    def note(self, count: int, now: float) -> None:
        if count != self._count:
            self._count, self._changed = count, now

    @property
    def rate(self) -> float | None:
        """Return the mean per second until the last change; None before the first one."""
        seconds = self._changed - self._started
        return self._count / seconds if self._count and seconds > 0 else None

    def seconds_left(self, now: float) -> float | None:
        """Return 0 when all is done; None while too little is done, and when it takes longer than estimated."""
        if self._count >= self._total:
            return 0.0
        rate = self.rate
        left = (
            0.0
            if rate is None or self._count < self._total * _SHARE_MIN
            else (self._total - self._count) / rate - (now - self._changed)
        )
        return left if left > 0 else None


class RunProgress(Protocol):
    def start(self) -> None: ...

    def update(self, *, produced: int, processed: Mapping[str, int]) -> None:
        """Show the counts of records. ``processed`` maps connectors to counts."""

    def stop(self) -> None: ...


class BarProgress:
    def __init__(self, console: Console, *, connectors: Sequence[str], total: int) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f}"),
            TextColumn("{task.fields[rate]}", style="progress.data.speed"),
            TextColumn("{task.fields[left]}", style="progress.remaining"),
            console=console,
        )
        now = time.monotonic()
        self._bars: dict[str, tuple[TaskID, Pace]] = {
            name: (self._progress.add_task(label, total=total, rate="", left=""), Pace(total, now))
            for name, label in {"": "produced", **{name: f"connector {name}" for name in connectors}}.items()
        }

    def start(self) -> None:
        self._progress.start()

    def update(self, *, produced: int, processed: Mapping[str, int]) -> None:
        now = time.monotonic()
        for name, (bar, pace) in self._bars.items():
            count = processed.get(name, 0) if name else produced
            pace.note(count, now)
            left = pace.seconds_left(now)
            self._progress.update(bar, completed=count, rate=_shown_rate(pace.rate), left=_shown_left(left))

    def stop(self) -> None:
        self._progress.stop()


class LineProgress:
    """Percentages of all flights, and rate and time left of the slowest connector."""

    def __init__(self, console: Console, *, connectors: Sequence[str], total: int) -> None:
        self._console = console
        self._connectors = connectors
        self._total = total
        self._started = self._last = time.monotonic()
        self._pace = Pace(total, self._started)
        self._said: tuple[int, ...] = ()

    def start(self) -> None:
        self._started = self._last = time.monotonic()
        self._pace = Pace(self._total, self._started)

    def update(self, *, produced: int, processed: Mapping[str, int]) -> None:
        now = time.monotonic()
        counts = [processed.get(name, 0) for name in self._connectors]
        slowest = min(counts, default=produced)
        self._pace.note(slowest, now)
        is_done = min(produced, slowest) >= self._total
        if (now - self._last < _SECONDS_BETWEEN_LINES and not is_done) or self._said == (produced, *counts):
            return
        self._last, self._said = now, (produced, *counts)
        shares = ", ".join(
            f"{name} {_percent(count, self._total)}" for name, count in zip(self._connectors, counts, strict=True)
        )
        text = f"produced {_percent(produced, self._total)}; {shares}"
        rest = [_shown_rate(self._pace.rate), "" if is_done else _shown_left(self._pace.seconds_left(now))]
        ending = ", ".join(filter(None, rest))
        self._console.print(
            f"  {now - self._started:4.0f} s  {text}{'; ' if ending else ''}{ending}", highlight=False, soft_wrap=True
        )

    def stop(self) -> None:
        """Do nothing: no bar has to be removed."""


def run_progress(console: Console, *, connectors: Sequence[str], total: int) -> RunProgress:
    if console.is_terminal:
        return BarProgress(console, connectors=connectors, total=total)
    return LineProgress(console, connectors=connectors, total=total)


def _percent(count: int, total: int) -> str:
    """Return whole percent, and 100% only for all."""
    return f"{count * 100 // total}%"


def _shown_rate(rate: float | None) -> str:
    return "" if rate is None else f"{rate:,.0f} flights/s"


def _shown_left(seconds: float | None) -> str:
    return "" if seconds is None else "done" if seconds == 0 else f"about {max(1, round(seconds))} s left"
