"""Whole lines of a file that grows, from one position in bytes to another.

What has no end yet is left for later. Lines end as Java's readers see it: at ``\\n``, ``\\r\\n`` or ``\\r``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyarrow import Table

__all__ = ["FileHasShrunk", "end_of_lines", "line_table", "lines_between"]

_CHUNK = 8 << 20
_BATCH_BYTES_MAX = 32 << 20
"""Of one batch: it is held in memory, and read anew after a crash."""


class FileHasShrunk(Exception):
    """The position is beyond the end: the file is another one, or was cut."""


def end_of_lines(path: Path, start: int) -> int:
    """Where the last whole line ends, ``start`` if there is none; at most a batch further. Raises FileHasShrunk."""
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return start
    if size < start:
        raise FileHasShrunk(
            f"{path} has {size} bytes, and {start} of it were read already: it was cut or replaced. "
            "Reset the offsets of the connector to read it from its beginning."
        )
    end = min(size, start + _BATCH_BYTES_MAX)
    if end == start:
        return start
    with path.open("rb") as file:
        while True:
            found = _last_end(file, start, end, is_at_end=end == size)
            if found is not None:
                return found
            if end == size:
                return start
            end = min(size, end + _BATCH_BYTES_MAX)  # One line that is longer than a batch.


def _last_end(file: Any, start: int, end: int, *, is_at_end: bool) -> int | None:
    """Searched backwards. A ``\\r`` at the very end may be half of a ``\\r\\n`` that is being written."""
    high = end
    while high > start:
        low = max(start, high - _CHUNK)
        file.seek(low)
        chunk = file.read(high - low)
        if high == end and chunk.endswith(b"\r"):
            chunk = chunk[:-1]
        place: int = max(chunk.rfind(b"\n"), chunk.rfind(b"\r"))
        if place >= 0:
            return low + place + 1
        high = low
    return None


def lines_between(path: Path, start: int, end: int) -> Iterator[list[bytes]]:
    """Whole lines without their ends, some at a time. ``start`` and ``end`` are where lines begin."""
    with path.open("rb") as file:
        file.seek(start)
        left, rest = end - start, b""
        while left > 0:
            chunk = file.read(min(_CHUNK, left))
            if not chunk:
                raise FileHasShrunk(f"{path} ended {left} bytes before the offset that had been there")
            left -= len(chunk)
            whole = rest + chunk
            cut = len(whole) if left == 0 else whole.rfind(b"\n") + 1
            rest = whole[cut:]
            if cut:
                yield whole[:cut].splitlines()
        if rest:
            yield rest.splitlines()


def line_table(lines: list[bytes]) -> Table:
    """One column, ``value``. Bytes that are no UTF-8 become U+FFFD, as Java's readers make them."""
    import pyarrow as pa

    values = pa.array(lines, type=pa.binary())
    try:
        values = values.cast(pa.string())
    except pa.ArrowInvalid:
        values = pa.array([line.decode(errors="replace") for line in lines], type=pa.string())
    return pa.table([values], names=["value"])
