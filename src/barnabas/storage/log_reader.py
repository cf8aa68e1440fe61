"""Finds the bytes that answer a fetch: from the batch that holds an offset, up to a limit, never beyond an offset.

The first batch is whole, or nothing is returned. The last one may be incomplete, as consumers expect.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.storage.aborted_transactions import aborted_transactions
from barnabas.storage.segment import Segment
from barnabas.storage.segment_damage import DamagedRangeError
from barnabas.storage.transaction_index import AbortedTransaction

__all__ = ["FetchedRecords", "read_segments"]


class FetchedRecords(NamedTuple):
    """Batches as they are in the file. They stay valid when the log changes."""

    records: bytes | memoryview
    aborted_transactions: list[AbortedTransaction] | None = None
    """Only for committed readers: the aborted transactions that overlap the records."""


def read_segments(
    segments: tuple[Segment, ...],
    index: int,
    fetch_offset: int,
    *,
    max_bytes: int,
    max_offset: int,
    is_whole_log: bool,
    min_one_message: bool,
    committed_only: bool,
) -> FetchedRecords:
    """Read from ``segments[index]`` on; ``is_whole_log`` says that ``max_offset`` is the log's end."""
    for at in range(index, len(segments)):
        segment = segments[at]
        found = segment.find(fetch_offset)
        if found is None:
            continue  # A compacted segment whose last records were removed.
        position, size, base_offset, _ = found
        if base_offset >= max_offset:
            break
        end = segment.size
        for damage in segment.damaged:
            if position < damage.position < end:
                end = damage.position
        if not is_whole_log and (at + 1 == len(segments) or segments[at + 1].base_offset > max_offset):
            end = min(end, _position_of(segment, max_offset))
        length = min(max_bytes, end - position)
        if length < size:
            if not min_one_message:
                break
            length = size
        records = segment.read(position, length)
        length = segment.end_of_valid(position, records, position + length) - position
        aborted = None
        if committed_only:
            valid = memoryview(records)[:length]
            aborted, length = aborted_transactions(segments, at, position, valid, fetch_offset, max_offset)
        return FetchedRecords(records if length == len(records) else memoryview(records)[:length], aborted)
    return FetchedRecords(b"", [] if committed_only else None)


def _position_of(segment: Segment, offset: int) -> int:
    """Return the position of the first batch at or beyond ``offset``; the segment's end if none follows."""
    try:
        found = segment.find(offset)
    except DamagedRangeError as error:
        return error.position
    return segment.size if found is None else found[0]
