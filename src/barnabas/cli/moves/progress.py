"""Show progress bars on the terminal while brokers copy replicas: a total, and one for each receiving broker."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

__all__ = ["is_watched", "showing_moves"]

ShowProgress = Callable[[Mapping[int, int], str], None]


def is_watched() -> bool:
    return sys.stderr.isatty()


@contextmanager
def showing_moves(expected: Mapping[int, int]) -> Iterator[ShowProgress]:
    """Yield a function that updates the bars with the bytes that each broker has, and the text of the first bar.

    ``expected`` are the bytes that each broker will receive. The bars disappear at the end. Without a terminal, no bars
    appear.
    """
    if not is_watched():
        yield lambda have, description: None
        return
    columns = (
        TextColumn("{task.description}"), BarColumn(), DownloadColumn(binary_units=True), TransferSpeedColumn(),
        TimeRemainingColumn(),
    )  # fmt: skip
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        every = bars.add_task("moving", total=sum(expected.values()))
        tasks = {
            broker: bars.add_task(f"to broker {broker}", total=total) for broker, total in sorted(expected.items())
        }

        def show_progress(have: Mapping[int, int], description: str) -> None:
            bars.update(every, completed=sum(have.get(broker, 0) for broker in tasks), description=description)
            for broker, task in tasks.items():
                bars.update(task, completed=have.get(broker, 0))

        yield show_progress
