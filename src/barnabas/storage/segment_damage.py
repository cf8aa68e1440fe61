"""Damaged ranges of a segment, which held records once: readers skip them.

A damaged range stays in the file. A reader of an offset in it receives an error; one that walks over
the segment continues after it.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.storage.batch_header import (
    BATCH_OVERHEAD,
    HEADER,
    HEADER_SIZE,
    Buffer,
    batch_is_valid,
    batch_size,
    header_problem,
)
from barnabas.storage.errors import CorruptSegmentError

__all__ = ["CheckedBytes", "DamagedRange", "DamagedRangeError", "read_header"]


class DamagedRange(NamedTuple):
    """Bytes [position, end) of a segment, which held the offsets [first_offset, next_offset).

    Empty (position = end) where the file ends early.
    """

    position: int
    end: int
    first_offset: int
    next_offset: int
    reason: str

    def __str__(self) -> str:
        last = self.next_offset - 1
        offsets = f"offset {last}" if last == self.first_offset else f"offsets {self.first_offset} to {last}"
        return f"at position {self.position}: {self.reason}; {offsets} cannot be read"


class DamagedRangeError(CorruptSegmentError):
    """A reader requested an offset in a known damaged range."""

    def __init__(self, path: str, damage: DamagedRange) -> None:
        super().__init__(path, damage.position, damage.reason)
        self.damage = damage


def read_header(path: str, view: Buffer, at: int, *, position: int | None = None) -> tuple[int, ...]:
    """The fields of the batch header at ``at``. Raises CorruptSegmentError for an invalid header.

    ``position``: where that is in the file, if the view is only a part of it.
    """
    place = at if position is None else position
    if at + HEADER_SIZE > len(view):
        raise CorruptSegmentError(path, place, "the file ends inside a batch header")
    header = HEADER.unpack_from(view, at)
    problem = header_problem(header[1], header[3], header[6], header[12])
    if problem is None and at + header[1] + BATCH_OVERHEAD > len(view):
        problem = "the file ends inside a batch"
    if problem is not None:
        raise CorruptSegmentError(path, place, problem)
    return header


def _base_offset_and_delta(view: memoryview, at: int) -> tuple[int, int]:
    fields = HEADER.unpack_from(view, at)
    return fields[0], fields[6]


_CHECKED_AT_ONCE = 4096
"""Batches per check; about five milliseconds."""


class CheckedBytes:
    """The bytes of a segment that were verified since its file was opened.

    They are the bytes that this process wrote, from some position on, and one range that was read and checked.
    """

    __slots__ = ("_end", "_start", "_written_from")

    def __init__(self, size: int) -> None:
        """The file has ``size`` bytes that another process wrote."""
        self._written_from = size
        self._start = self._end = 0

    def mark(self, end: int) -> None:
        """Record that every byte up to ``end`` was checked."""
        if end >= self._written_from:
            self._written_from = 0
        self._start, self._end = 0, end

    def cut(self, position: int) -> None:
        """Record that the file was truncated."""
        self._written_from = min(self._written_from, position)
        self._start, self._end = min(self._start, position), min(self._end, position)

    def end_of_valid(self, path: str, position: int, records: Buffer, end: int, file_size: int) -> int:
        """Return the end of the valid batches in [position, end), whose bytes are ``records``.

        An incomplete batch at the end is not checked. The result may be less than the input, because many small batches
        take long the first time. Raises CorruptSegmentError if the first batch is not valid.
        """
        if position >= self._written_from or self._start <= position <= end <= self._end:
            return end
        at, left, view, next_offset = position, _CHECKED_AT_ONCE, memoryview(records), -1
        while at < end and at < self._written_from:
            if self._start <= at < self._end:
                at = self._end
                continue
            if end - at < HEADER_SIZE:
                break
            size = batch_size(view, at - position)
            if size is not None and end < at + size <= file_size:
                break
            if not left:
                end = at
                break
            if size is None or at + size > end or not batch_is_valid(view[at - position : at - position + size]):
                if at == position:
                    raise CorruptSegmentError(path, position, "the checksum of the batch is wrong")
                end = at
                break
            offset, delta = _base_offset_and_delta(view, at - position)
            if offset < next_offset:
                raise CorruptSegmentError(path, at, f"offset {offset} after {next_offset - 1}")
            next_offset = offset + delta + 1
            at += size
            left -= 1
        self._add(position, min(at, end))
        return end

    def _add(self, start: int, end: int) -> None:
        if self._start <= start <= self._end:
            self._end = max(self._end, end)
        else:
            self._start, self._end = start, end
