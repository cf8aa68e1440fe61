"""Show the progress and the current rate of a measurement on a terminal. Without a terminal, show nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import NamedTuple

from barnabas.cli.bench.measurements import megabytes, number

__all__ = ["Progress", "live"]

_EVERY_S = 0.25
_WINDOW = 8
"""The current rate covers the last two seconds."""


class Progress(NamedTuple):
    """The progress of a measurement. ``note`` is further text to show."""

    done: int
    size: int = 0
    note: str = ""


@asynccontextmanager
async def live(
    what: str, total: int | None, look: Callable[[], Progress], unit: str = "records"
) -> AsyncIterator[None]:
    """Show a bar, only on a terminal. It disappears at the end."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    with Bars(*columns, console=Console(stderr=True), transient=True, auto_refresh=False) as bars:
        task = bars.add_task(what, total=total)
        loop = asyncio.get_running_loop()
        seen = [(loop.time(), look())]

        async def refresh() -> None:
            while True:
                await asyncio.sleep(_EVERY_S)
                seen.append((loop.time(), look()))
                del seen[:-_WINDOW]
                bars.update(task, completed=seen[-1][1].done, description=f"{what}  {described(seen, unit)}")
                bars.refresh()

        refreshing = asyncio.ensure_future(refresh())
        try:
            yield
        finally:
            refreshing.cancel()
            await asyncio.gather(refreshing, return_exceptions=True)


def described(seen: list[tuple[float, Progress]], unit: str) -> str:
    """Format the rates between the first and the last sample."""
    (began_at, first), (now, last) = seen[0], seen[-1]
    elapsed = max(now - began_at, 1e-9)
    parts = [f"{number((last.done - first.done) / elapsed)} {unit}/s"]
    if last.size:
        parts.append(f"{number(megabytes(last.size - first.size) / elapsed)} MB/s")
    if last.note:
        parts.append(last.note)
    return ", ".join(parts)
