"""Finds the offset for a timestamp: ListOffsets, with its special timestamps.

A real timestamp selects the first record at or after it, in offset order. Both indexes narrow the search to a few
batches; inside a batch the records are read one by one, because only they have their timestamps.
"""

from __future__ import annotations

from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BatchView
from barnabas.storage.batch_header import BATCH_OVERHEAD, HEADER
from barnabas.storage.partition_log import PartitionLog
from barnabas.storage.segment import Segment

__all__ = [
    "EARLIEST_LOCAL_TIMESTAMP",
    "EARLIEST_PENDING_UPLOAD_TIMESTAMP",
    "EARLIEST_TIMESTAMP",
    "LATEST_TIERED_TIMESTAMP",
    "LATEST_TIMESTAMP",
    "MAX_TIMESTAMP",
    "TimestampAndOffset",
    "fetch_offset_for_timestamp",
]

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
EARLIEST_PENDING_UPLOAD_TIMESTAMP = -6

NO_TIMESTAMP = -1
NO_OFFSET = -1
NO_EPOCH = -1


class TimestampAndOffset(NamedTuple):
    timestamp: int
    offset: int
    leader_epoch: int


def fetch_offset_for_timestamp(
    log: PartitionLog, timestamp: int, *, last_fetchable_offset: int | None = None
) -> TimestampAndOffset | None:
    """Return the offset for a timestamp or one of the special ones; None if all records below the limit are earlier.

    ``last_fetchable_offset`` is where the caller may read up to (default: the log's end). Nothing is tiered here, so
    the earliest local offset is the earliest, and the two about uploads return -1.
    """
    limit = log.log_end_offset if last_fetchable_offset is None else last_fetchable_offset
    if timestamp == LATEST_TIMESTAMP:
        return TimestampAndOffset(NO_TIMESTAMP, limit, log.latest_epoch)
    if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
        return TimestampAndOffset(NO_TIMESTAMP, log.log_start_offset, _epoch_at_start(log))
    if timestamp in (LATEST_TIERED_TIMESTAMP, EARLIEST_PENDING_UPLOAD_TIMESTAMP):
        return TimestampAndOffset(NO_TIMESTAMP, NO_OFFSET, NO_EPOCH)
    try:
        found = _find_max_timestamp(log) if timestamp == MAX_TIMESTAMP else _find_timestamp(log, timestamp)
    except DecodeError as error:
        raise ApiException(ErrorCode.CORRUPT_MESSAGE, f"The log of {log.topic_partition} is damaged") from error
    return found if found is not None and found.offset < limit else None


def _epoch_at_start(log: PartitionLog) -> int:
    entries = log.epochs.entries
    return entries[0][0] if entries and entries[0][1] <= log.log_start_offset else NO_EPOCH


def _find_timestamp(log: PartitionLog, timestamp: int) -> TimestampAndOffset | None:
    for segment in log.segments:
        if segment.size and segment.max_timestamp >= timestamp:
            found = _find_in_segment(segment, timestamp, log.log_start_offset)
            if found is not None:
                return found
    return None


def _find_max_timestamp(log: PartitionLog) -> TimestampAndOffset | None:
    candidates = [segment for segment in log.segments if segment.size and segment.max_timestamp >= 0]
    if not candidates:
        return None
    latest = max(candidates, key=lambda segment: segment.max_timestamp)
    return _find_in_segment(latest, latest.max_timestamp, log.log_start_offset)


def _find_in_segment(segment: Segment, timestamp: int, start_offset: int) -> TimestampAndOffset | None:
    """Return the first record from ``start_offset`` on whose timestamp is at least ``timestamp``."""
    found = segment.find_timestamp(timestamp, start_offset)
    if found is None:
        return None
    position = found[0]
    with segment.map() as view:
        while position < len(view):
            header = HEADER.unpack_from(view, position)
            size = header[1] + BATCH_OVERHEAD
            if header[8] >= timestamp:
                for record in BatchView(bytes(view[position : position + size])).records():
                    if record.timestamp >= timestamp and record.offset >= start_offset:
                        return TimestampAndOffset(record.timestamp, record.offset, header[2])
            position += size
    return None
