"""Bars on the terminal while replicas are copied: one for all of it, and one for each broker that gets some."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

__all__ = ["is_watched", "showing_moves"]

Told = Callable[[Mapping[int, int], str], None]


def is_watched() -> bool:
    return sys.stderr.isatty()


@contextmanager
def showing_moves(expected: Mapping[int, int]) -> Iterator[Told]:
    """``expected`` are the bytes that each broker gets. The bars are told how many it has, and words for the first bar.

    They go away at the end. Where nobody watches there are none.
    """
    if not is_watched():
        yield lambda have, said: None
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

        def told(have: Mapping[int, int], said: str) -> None:
            bars.update(every, completed=sum(have.get(each, 0) for each in tasks), description=said)
            for broker, task in tasks.items():
                bars.update(task, completed=have.get(broker, 0))

        yield told
