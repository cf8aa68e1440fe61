"""Points in time of the metadata log that ``read_metadata`` can show, and those that a directory still has.

Times are those in the batches: the clock of the controller that was active.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from barnabas.storage.errors import StorageError

__all__ = ["Moment", "MomentNotKnown", "Point"]


class Point(NamedTuple):
    offset: int
    time_ms: int

    def __str__(self) -> str:
        return f"offset {self.offset} ({_time_text(self.time_ms)})"


class Moment(NamedTuple):
    """The state after the record at ``offset``, or after everything until ``time_ms``; the other one is None."""

    offset: int | None = None
    time_ms: int | None = None

    def is_before(self, offset: int, time_ms: int) -> bool:
        """Whether a record of that offset and time is after this moment."""
        if self.offset is not None:
            return offset > self.offset
        return self.time_ms is not None and time_ms > self.time_ms

    def is_at(self, offset: int, time_ms: int) -> bool:
        return offset == self.offset if self.offset is not None else time_ms == self.time_ms

    def __str__(self) -> str:
        return f"offset {self.offset}" if self.offset is not None else _time_text(self.time_ms or 0)


class MomentNotKnown(StorageError):
    def __init__(self, source: str, moment: Moment, ranges: Sequence[tuple[Point, Point]]) -> None:
        known = ", and ".join(_range_text(first, last) for first, last in ranges) or "no moment"
        super().__init__(f"{source} can't show {moment}: it can show {known}")


def _range_text(first: Point, last: Point) -> str:
    if first == last:
        return str(first)
    times = f"{_time_text(first.time_ms)} to {_time_text(last.time_ms)}"
    return f"offsets {first.offset} to {last.offset} ({times})"


def _time_text(time_ms: int) -> str:
    try:
        when = datetime.fromtimestamp(time_ms // 1000, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"
    return f"{when:%Y-%m-%dT%H:%M:%S}.{time_ms % 1000:03d}Z"
