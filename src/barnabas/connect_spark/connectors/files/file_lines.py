"""Read the whole lines of a growing file, from one position in bytes to another.

An incomplete last line is left for later. A line ends where Java's readers end it: at ``\\n``, ``\\r\\n`` or ``\\r``.
Bytes that are not UTF-8 become U+FFFD, as in Java's readers.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyarrow import BinaryArray, StringArray, Table

__all__ = ["FileHasShrunk", "end_of_lines", "line_table"]

_CHUNK = 8 << 20


class FileHasShrunk(Exception):
    """The position is beyond the end: the file was replaced or truncated."""


def end_of_lines(path: Path, start: int, most: int) -> int:
    """Return the end of the last whole line, ``start`` if none is complete.

    It is at most ``most`` bytes further, except after a longer line. Raise FileHasShrunk.
    """
    try:
        size = path.stat().st_size
    except FileNotFoundError:
        return start
    if size < start:
        raise FileHasShrunk(
            f"{path} has {size} bytes, but {start} were read already: it was truncated or replaced. "
            "Reset the offsets of the connector to read it from its beginning."
        )
    end = min(size, start + most)
    if end == start:
        return start
    with path.open("rb") as file:
        while True:
            found = _last_end(file, start, end, is_at_end=end == size)
            if found is not None:
                return found
            if end == size:
                return start
            end = min(size, end + most)  # The line is longer than a batch.


def _last_end(file: Any, start: int, end: int, *, is_at_end: bool) -> int | None:
    """Search backwards. A ``\\r`` at the very end may be half of a ``\\r\\n`` that is being written."""
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


def line_table(path: Path, start: int, end: int) -> Table:
    """Return whole lines without their ends, in memory, as one column ``value``. ``start`` and ``end`` begin lines.

    Raise FileHasShrunk.
    """
    import pyarrow as pa

    with path.open("rb") as file:
        file.seek(start)
        data = file.read(end - start)
    _refuse_missing(path, end - start - len(data))
    return pa.table([_texts(_lines(data))], names=["value"])


def _refuse_missing(path: Path, count: int) -> None:
    if count > 0:
        raise FileHasShrunk(f"{path} ended {count} bytes before the offset that existed earlier")


def _lines(data: bytes) -> BinaryArray:
    """Split with Arrow, which creates no object for each line, but knows only one kind of line end."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if b"\r" in data or not data.endswith(b"\n"):
        return pa.array(data.splitlines(), type=pa.binary())
    bounds = pa.array([0, len(data) - 1], type=pa.int32()).buffers()[1]
    whole = pa.Array.from_buffers(pa.binary(), 1, [None, bounds, pa.py_buffer(data)])
    return pc.split_pattern(whole, pattern="\n").flatten()


def _texts(lines: BinaryArray) -> StringArray:
    import pyarrow as pa

    try:
        return lines.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([line.decode(errors="replace") for line in lines.to_pylist()], type=pa.string())
