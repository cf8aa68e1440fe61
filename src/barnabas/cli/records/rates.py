"""Counts and rates on standard error: a line that changes on a terminal, and a summary at the end."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

from barnabas.cli.output.table import size_of

__all__ = ["Volume", "live", "summary"]

_EVERY_S = 1.0
_FEW = 100
_SHORT_S = 0.1
"""A rate of fewer records, or in a shorter time, says nothing."""
_ERASE_LINE = "\r\x1b[K"


@dataclass(slots=True)
class Volume:
    """``payload_bytes`` are those of keys and values."""

    began_at: float
    records: int = 0
    payload_bytes: int = 0
    ended_at: float = 0.0

    @property
    def elapsed_s(self) -> float:
        return max(0.0, self.ended_at - self.began_at)

    def add(self, records: int, payload_bytes: int, now: float) -> None:
        self.records += records
        self.payload_bytes += payload_bytes
        self.ended_at = now

    def document(self) -> dict[str, object]:
        return {"records": self.records, "bytes": self.payload_bytes, "elapsed_s": round(self.elapsed_s, 3)}


def summary(volume: Volume) -> str:
    """Return the text ``1,000 records, 97.7 KiB in 0.52 s (1,923 records/s, 187.8 KiB/s)``."""
    count, elapsed_s = volume.records, volume.elapsed_s
    text = f"{count:,} record{'' if count == 1 else 's'}, {size_of(volume.payload_bytes)}"
    if count < _FEW or elapsed_s < _SHORT_S:
        return text
    per_s = f"{count / elapsed_s:,.0f} records/s, {size_of(int(volume.payload_bytes / elapsed_s))}/s"
    return f"{text} in {elapsed_s:.2f} s ({per_s})"


@asynccontextmanager
async def live(volume: Volume, *, is_shown: bool, now: Callable[[], float]) -> AsyncIterator[None]:
    """Show the volume every second, if standard error is a terminal that shows nothing else meanwhile."""
    if not is_shown or not sys.stderr.isatty():
        yield
        return

    async def show() -> None:
        while True:
            await asyncio.sleep(_EVERY_S)
            so_far = Volume(volume.began_at, volume.records, volume.payload_bytes, now())
            sys.stderr.write(f"{_ERASE_LINE}{summary(so_far)}")
            sys.stderr.flush()

    task = asyncio.get_running_loop().create_task(show())
    try:
        yield
    finally:
        task.cancel()
        sys.stderr.write(_ERASE_LINE)
        sys.stderr.flush()
