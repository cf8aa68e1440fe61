"""Retires a log's oldest segments that are too old, exceed its size, or are below its start.

Whole segments are retired, oldest first, up to the first one that stays, but never unreplicated records.
The active segment is retired too if all of it is too old; the log then continues in an empty one.
Compacted-only logs lose only records below their start; those with ``compact,delete`` are treated like deleted ones.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

from barnabas.storage.errors import CorruptIndexError, CorruptSegmentError
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.segment import Segment

__all__ = ["apply_retention", "count_expired_segments"]

_log = logging.getLogger(__name__)


def apply_retention(log: PartitionLog, now_ms: int) -> int:
    """Retire the segments that retention does not keep; return their number."""
    count = count_expired_segments(log, now_ms)
    log.delete_oldest_segments(count, now_ms=now_ms)
    return count


def count_expired_segments(log: PartitionLog, now_ms: int) -> int:
    """Return how many segments, from the oldest on, are below the log's start, beyond its size or beyond its age."""
    config = log.config
    candidates = list(_replicated_segments(log))
    count = 0
    while count < len(candidates) and candidates[count][1] <= log.log_start_offset:
        count += 1
    if not config.delete:
        return count
    if config.retention_bytes >= 0:
        excess = sum(segment.size for segment in log.segments[count:]) - config.retention_bytes
        while count < len(candidates) and excess >= candidates[count][0].size:
            excess -= candidates[count][0].size
            count += 1
    if config.retention_ms >= 0:
        while count < len(candidates) and _is_expired(candidates[count][0], now_ms, config.retention_ms):
            count += 1
    return count


def _is_expired(segment: Segment, now_ms: int, retention_ms: int) -> bool:
    """Check the time index: a damaged one must not expire young records."""
    if now_ms - segment.largest_timestamp <= retention_ms:
        return False
    if segment.max_timestamp >= 0:
        try:
            segment.confirm_max_timestamp()
        except (CorruptSegmentError, CorruptIndexError) as error:
            _log.error("%s may be expired but is kept, because it cannot be read: %s", segment.path, error)
            return False
    return now_ms - segment.largest_timestamp > retention_ms


def _replicated_segments(log: PartitionLog) -> Iterator[tuple[Segment, int]]:
    """Yield each segment with its end offset, up to the high watermark, without an empty active one."""
    segments = log.segments
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        end_offset = log.log_end_offset if is_last else segments[index + 1].base_offset
        if end_offset > log.high_watermark or (is_last and segment.size == 0):
            return
        yield segment, end_offset
