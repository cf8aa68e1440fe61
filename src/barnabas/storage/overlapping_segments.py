"""Batches of a segment at or after the beginning of the next one, when a log is opened.

No write leaves such batches. They come from an operator: the end of a segment was damaged, the log continued in a new
segment, and then the file of the damaged one was restored from a backup with all its batches. A reader reads a segment
to its end, so it would return two batches for one offset.

- If the new segment is still empty, the restored batches are those of the log: the empty segment is removed.
- If it has batches, those are newer and were acknowledged to clients since: the restored ones are set aside.

A batch that begins *after* the next segment does, with a gap before it, proves nothing: its header may have changed.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from itertools import pairwise

from barnabas.storage.damaged_files import copy_aside
from barnabas.storage.errors import CorruptIndexError, CorruptSegmentError
from barnabas.storage.producer_snapshot import delete_snapshot, list_snapshots
from barnabas.storage.segment import Segment
from barnabas.storage.segment_check import check_segment
from barnabas.storage.segment_damage import DamagedRange

__all__ = ["cut_overlap", "header_changed_at_end", "remove_overlaps", "replace_empty_segment"]

_log = logging.getLogger(__name__)


def remove_overlaps(segments: Sequence[Segment], index_interval_bytes: int, *, is_clean: bool) -> set[Segment]:
    """Set batches aside that lie at or after the next segment's beginning. Return the segments that are not as they
    were written, and must be read whole.

    After a clean shutdown only files that changed later than the file after them are examined. A restored file is one
    of them, whatever its time of modification; other files of a log are written one after the other.
    """
    changed: set[Segment] = set()
    for segment, following in pairwise(segments):
        if not segment.size or (is_clean and _changed_ns(segment) < _changed_ns(following)):
            continue
        try:
            is_intact = not cut_overlap(segment, following.base_offset) and segment.find(following.base_offset) is None
        except (CorruptSegmentError, CorruptIndexError):
            check_segment(segment, None, index_interval_bytes)
            is_intact = False
        if not is_intact:
            changed.add(segment)
    return changed


def cut_overlap(segment: Segment, following: int) -> bool:
    """Set the batches at or after offset ``following`` aside, and return whether there were any.

    Raise CorruptSegmentError, CorruptIndexError.
    """
    damage = _damage_at(segment, following)
    if damage is not None:
        position = damage.position
    else:
        found = segment.find(following)
        if found is None or found[2] > following:
            return False
        position = found[0]
    removed = segment.size - position
    kept = copy_aside(segment.path, position)
    segment.truncate_to(following)
    segment.flush()
    _log.error(
        "%s holds batches from offset %d on, where the next segment begins: the file is older than that segment, or is "
        "of another log; cut %d bytes; they are kept as %s",
        segment.path, following, removed, kept,
    )  # fmt: skip
    return True


def header_changed_at_end(segment: Segment, following: int) -> DamagedRange | None:
    """Return the end of a checked segment as damage if a batch there begins after offset ``following``, at which the
    next segment begins."""
    expected = segment.base_offset
    for position, _, base_offset, last_offset in segment.walk(segment.offset_index.lookup(following)):
        if base_offset > following:
            reason = f"a batch has the offset {base_offset}, and the next segment begins at {following}"
            return DamagedRange(position, segment.size, expected, following, reason)
        expected = last_offset + 1
    return None


def replace_empty_segment(directory: str, segments: list[Segment], index_interval_bytes: int) -> Segment | None:
    """Remove an empty segment at the end if the one before it goes on behind its beginning, and return that one."""
    if len(segments) < 2 or segments[-1].size or not segments[-2].size:
        return None
    before, empty = segments[-2:]
    try:
        is_continued = _is_continued(before, empty.base_offset)
    except (CorruptSegmentError, CorruptIndexError):
        check_segment(before, None, index_interval_bytes)
        try:
            is_continued = _is_continued(before, empty.base_offset)
        except CorruptSegmentError:
            return None  # The end of the segment is still damaged.
    if not is_continued:
        return None
    for offset in list_snapshots(directory):
        if offset >= empty.base_offset:
            delete_snapshot(directory, offset)
    segments.pop().delete()
    before.flush()
    _log.warning(
        "%s holds batches from offset %d on, where an empty segment began: it was restored, and the log goes on in it",
        before.path, empty.base_offset,
    )  # fmt: skip
    return before


def _changed_ns(segment: Segment) -> int:
    return os.stat(segment.path).st_ctime_ns


def _is_continued(segment: Segment, following: int) -> bool:
    damage = _damage_at(segment, following)
    found = None if damage is not None else segment.find(following)
    return damage is not None or (found is not None and found[2] <= following)


def _damage_at(segment: Segment, offset: int) -> DamagedRange | None:
    return next((damage for damage in segment.damaged if damage.first_offset <= offset < damage.next_offset), None)
