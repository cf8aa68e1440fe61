"""Show the progress of producer and connectors: bars on a terminal, otherwise a line every few seconds."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

__all__ = ["BarProgress", "LineProgress", "RunProgress", "run_progress"]

_SECONDS_BETWEEN_LINES = 5.0


class RunProgress(Protocol):
    def start(self) -> None: ...

    def update(self, *, produced: int, processed: Mapping[str, int]) -> None:
        """Show the counts of records. ``processed`` maps connectors to counts."""

    def stop(self) -> None: ...


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")


class BarProgress:
    def __init__(self, console: Console, *, connectors: Sequence[str], total: int) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            console=console,
        )
        self._produced = self._progress.add_task("produced", total=total)
        self._processed = {name: self._progress.add_task(f"connector {name}", total=total) for name in connectors}

    def start(self) -> None:
        self._progress.start()

    def update(self, *, produced: int, processed: Mapping[str, int]) -> None:
        self._progress.update(self._produced, completed=produced)
        for name, task in self._processed.items():
            self._progress.update(task, completed=processed.get(name, 0))

    def stop(self) -> None:
        self._progress.stop()


class LineProgress:
    def __init__(self, console: Console, *, connectors: Sequence[str], total: int) -> None:
        self._console = console
        self._connectors = connectors
        self._total = total
        self._started = self._last = time.monotonic()
        self._said = ""

    def start(self) -> None:
        self._started = self._last = time.monotonic()

    def update(self, *, produced: int, processed: Mapping[str, int]) -> None:
        now = time.monotonic()
        counts = ", ".join(f"{name} {processed.get(name, 0):,}" for name in self._connectors)
        text = f"produced {produced:,} of {self._total:,}; {counts}"
        is_done = min(produced, *(processed.get(name, 0) for name in self._connectors)) >= self._total
        if (now - self._last >= _SECONDS_BETWEEN_LINES or is_done) and text != self._said:
            self._last, self._said = now, text
            self._console.print(f"  {now - self._started:4.0f} s  {text}", highlight=False, soft_wrap=True)

    def stop(self) -> None:
        """Do nothing: no bar has to be removed."""


def run_progress(console: Console, *, connectors: Sequence[str], total: int) -> RunProgress:
    if console.is_terminal:
        return BarProgress(console, connectors=connectors, total=total)
    return LineProgress(console, connectors=connectors, total=total)
