"""Show how far both sides are: bars on a terminal, a line every few seconds anywhere else."""

from __future__ import annotations

import time
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn
from rich.text import Text

__all__ = ["BarProgress", "LineProgress", "RunProgress", "run_progress"]

_SECONDS_BETWEEN_LINES = 5.0


class RunProgress(Protocol):
    def start(self) -> None: ...

    def update(self, *, produced: int, processed: int) -> None: ...

    def stop(self) -> None: ...


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.0f}/s", style="progress.data.speed")


class BarProgress:
    def __init__(self, console: Console, *, topic: str, total: int) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            _Rate(),
            TimeElapsedColumn(),
            console=console,
        )
        self._produced = self._progress.add_task(f"produced to topic {topic}", total=total)
        self._processed = self._progress.add_task("processed by Spark", total=total)

    def start(self) -> None:
        self._progress.start()

    def update(self, *, produced: int, processed: int) -> None:
        self._progress.update(self._produced, completed=produced)
        self._progress.update(self._processed, completed=processed)

    def stop(self) -> None:
        self._progress.stop()


class LineProgress:
    def __init__(self, console: Console, *, topic: str, total: int) -> None:
        self._console = console
        self._topic = topic
        self._total = total
        self._started = self._last = time.monotonic()
        self._said = ""

    def start(self) -> None:
        self._started = self._last = time.monotonic()

    def update(self, *, produced: int, processed: int) -> None:
        now = time.monotonic()
        text = f"produced {produced:,} of {self._total:,} to {self._topic}, processed {processed:,}"
        is_done = produced >= self._total and processed >= self._total
        if (now - self._last >= _SECONDS_BETWEEN_LINES or is_done) and text != self._said:
            self._last, self._said = now, text
            self._console.print(f"  {now - self._started:4.0f} s  {text}", highlight=False)

    def stop(self) -> None:
        """Nothing is drawn that would have to be taken away."""


def run_progress(console: Console, *, topic: str, total: int) -> RunProgress:
    if console.is_terminal:
        return BarProgress(console, topic=topic, total=total)
    return LineProgress(console, topic=topic, total=total)
