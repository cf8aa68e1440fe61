"""Read lines of large files in bounded memory, with the position of each, and parts of files without a line twice."""

from __future__ import annotations

import bz2
import gzip
import lzma
import zlib
from collections.abc import Iterator
from typing import BinaryIO, Final

__all__ = ["COMPRESSED", "LINE_MAX", "decompressed_lines", "lines_between", "whole_lines", "whole_lines_end"]

COMPRESSED: Final = (".gz", ".bz2", ".xz", ".zst", ".lz4")
LINE_MAX: Final = 1 << 20
"""A longer line is cut into parts of this size, each of which is a line that can't be read."""

_CHUNK: Final = 1 << 18


def lines_between(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines that begin in [start, end), so that adjacent ranges have each line once. The last may be cut."""
    file.seek(max(start - 1, 0))
    lines = _lines(file, max(start - 1, 0))
    if start > 0:
        next(lines, None)  # It belongs to the range before, or is the line break that ends it.
    yield from _until(lines, end)


def whole_lines(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield the lines in [start, end). Both are the ends of lines."""
    file.seek(start)
    yield from _until(_lines(file, start), end)


def whole_lines_end(file: BinaryIO, size: int) -> int:
    """Return the position after the last line break before ``size``; 0 without one."""
    end = size
    while end > 0:
        start = max(0, end - _CHUNK)
        file.seek(start)
        found = file.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def decompressed_lines(file: BinaryIO, name: str) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a compressed file, with positions in its content. Damage raises OSError or EOFError."""
    try:
        yield from _lines(_decompressed(file, name), 0)
    except (zlib.error, lzma.LZMAError) as error:  # The modules raise these too, which are not OSErrors.
        raise OSError(str(error)) from error


def _until(lines: Iterator[tuple[int, bytes]], end: int) -> Iterator[tuple[int, bytes]]:
    for position, line in lines:
        if position >= end:
            return
        yield position, line


def _lines(file: BinaryIO, position: int) -> Iterator[tuple[int, bytes]]:
    """Yield each line with its line break, from the file's current place, which is ``position``."""
    held = b""
    while chunk := file.read(_CHUNK):
        held += chunk
        lines = held.split(b"\n")
        held = lines.pop()
        for line in lines:
            yield position, line + b"\n"
            position += len(line) + 1
        while len(held) > LINE_MAX:
            yield position, held[:LINE_MAX]
            held, position = held[LINE_MAX:], position + LINE_MAX
    if held:
        yield position, held


def _decompressed(file: BinaryIO, name: str) -> BinaryIO:
    if name.endswith(".gz"):
        return gzip.open(file)  # type: ignore[return-value]
    if name.endswith(".bz2"):
        return bz2.open(file)  # type: ignore[return-value]
    if name.endswith(".xz"):
        return lzma.open(file)  # type: ignore[return-value]
    import pyarrow as pa

    codec = "zstd" if name.endswith(".zst") else "lz4"
    return pa.CompressedInputStream(file, codec)  # type: ignore[no-any-return]
