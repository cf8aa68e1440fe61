"""Show a progress bar on the terminal for many items. Without a terminal, no bar appears."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

__all__ = ["in_steps", "showing"]

T = TypeVar("T")


def in_steps(items: Sequence[T], size: int, what: str) -> Iterator[Sequence[T]]:
    """Yield the items in parts. The bar appears with the second part, and disappears when all are done."""
    if len(items) <= size or not sys.stderr.isatty():
        for start in range(0, len(items), size):
            yield items[start : start + size]
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=len(items))
        for start in range(0, len(items), size):
            part = items[start : start + size]
            yield part
            progress.advance(task, len(part))


@contextmanager
def showing(total: int, what: str) -> Iterator[Callable[[int], None]]:
    """Show a progress bar for work outside this process. The caller sets how many of ``total`` are done."""
    if not sys.stderr.isatty():
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task(what, total=total)
        yield lambda done: progress.update(task, completed=done)
