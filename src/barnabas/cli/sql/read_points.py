"""Where a query begins and ends to read a topic: the settings ``start`` and ``end``.

earliest, latest         the first record, or the end that a partition has when the statement begins
-1h, 2026-01-31T12:00    the first record of that time or later; milliseconds since 1970 are a time, too
offset 42                the same offset in each partition
0:42, 1:17               an offset for each partition; others are not read
last 100                 so many offsets before the end of each partition (only ``start``)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.cli.arguments.cluster_options import UsageError
from barnabas.cli.records.times import parse_point

__all__ = ["EARLIEST", "LATEST", "ReadPoint", "bounds", "parse_read_point"]

EARLIEST, LATEST = -2, -1
"""Timestamps that a request for offsets understands."""
_WORDS = {"earliest": EARLIEST, "beginning": EARLIEST, "latest": LATEST, "end": LATEST}
_LAST = re.compile(r"last (\d{1,18})", re.IGNORECASE)
_OFFSET = re.compile(r"offset (\d{1,18})", re.IGNORECASE)
_OFFSETS = re.compile(r"\d{1,9}:\d{1,18}(\s*,\s*\d{1,9}:\d{1,18})*")
_FORMS = (
    "earliest, latest, a time such as -1h or 2026-01-31T12:30:00, 'offset 42', or offsets by partition: '0:42, 1:17'"
)


@dataclass(frozen=True, slots=True)
class ReadPoint:
    """One of: a timestamp in milliseconds since 1970 (or one of the two above), an offset, offsets, a count."""

    timestamp: int | None = None
    offset: int | None = None
    offsets: Mapping[int, int] | None = None
    last: int | None = None

    @property
    def needs_request(self) -> bool:
        return self.timestamp is not None and self.timestamp not in (EARLIEST, LATEST)


def parse_read_point(text: str, setting: str, now_ms: int) -> ReadPoint:
    """Parse the value of ``start`` or ``end``. Raise ValueError."""
    text = text.strip()
    if text.lower() in _WORDS:
        return ReadPoint(timestamp=_WORDS[text.lower()])
    if found := _OFFSET.fullmatch(text):
        return ReadPoint(offset=int(found[1]))
    if _OFFSETS.fullmatch(text):
        pairs = (pair.split(":") for pair in text.split(","))
        return ReadPoint(offsets={int(partition): int(offset) for partition, offset in pairs})
    if found := _LAST.fullmatch(text):
        if setting != "start":
            raise ValueError(f"{setting} {text}: 'last' is only for start; write {_FORMS}")
        return ReadPoint(last=int(found[1]))
    try:
        # A negative number would be one of the two above, or another that a request for offsets gives a meaning.
        return ReadPoint(timestamp=max(0, parse_point(text, setting, now_ms)))
    except UsageError:
        also = ", or 'last 100'" if setting == "start" else ""
        raise ValueError(f"{setting} {text or '(empty)'}: write {_FORMS}{also}") from None


def bounds(
    start: ReadPoint,
    end: ReadPoint,
    first: Mapping[int, int],
    last: Mapping[int, int],
    since: Mapping[int, int],
    until: Mapping[int, int],
) -> tuple[dict[int, int], dict[int, int]]:
    """Return where to begin and to end in each partition.

    ``first`` and ``last`` are the offsets of its first record and of its end, ``since`` and ``until`` those of the
    first records of the two times, or -1 if no record is that young. All ranges lie between first and last: nothing
    waits for records to come, or requests deleted ones.
    """
    starts, ends = {}, {}
    for partition, end_offset in last.items():
        begin = _place(start, partition, first[partition], end_offset, since, unnamed=end_offset)
        stop = _place(end, partition, first[partition], end_offset, until, unnamed=first[partition])
        starts[partition] = min(max(begin, first[partition]), end_offset)
        ends[partition] = min(max(stop, starts[partition]), end_offset)
    return starts, ends


def _place(point: ReadPoint, partition: int, first: int, last: int, of_time: Mapping[int, int], *, unnamed: int) -> int:
    """``unnamed`` is the place in a partition that the point's offsets do not name."""
    if point.offset is not None:
        return point.offset
    if point.offsets is not None:
        return point.offsets.get(partition, unnamed)
    if point.last is not None:
        return last - point.last
    if point.timestamp == EARLIEST:
        return first
    if point.timestamp == LATEST:
        return last
    found = of_time.get(partition, -1)
    return last if found < 0 else found
