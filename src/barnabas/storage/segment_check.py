"""Reads a segment whole: checks every batch, rebuilds both indexes, and records damage.

Invalid bytes are damage if a valid batch follows them: the later write proves that they were whole once. The caller
decides about invalid bytes at the end, because it knows up to where the log was durable.

The checksum of a batch covers neither its base offset nor its leader epoch. A change of one of these is detected at the
next batch: offsets or epochs go back there, and the batch before it is the damaged one.
"""

from __future__ import annotations

import logging
from typing import NamedTuple

from barnabas.common.crc32c import crc32c
from barnabas.storage.batch_header import ATTRIBUTES_OFFSET, BATCH_OVERHEAD, HEADER, HEADER_SIZE, header_problem
from barnabas.storage.batch_search import find_batches
from barnabas.storage.leader_epoch_checkpoint import LeaderEpochCheckpoint
from barnabas.storage.segment import RELATIVE_OFFSET_MAX, Segment
from barnabas.storage.segment_damage import DamagedRange

__all__ = ["InvalidTail", "check_segment", "missing_end", "report_damage"]

_log = logging.getLogger(__name__)

_LENGTH_MIN = HEADER_SIZE - BATCH_OVERHEAD


class InvalidTail(NamedTuple):
    """Bytes from ``position`` to the end of the segment that no valid batch follows; ``offset`` was expected there."""

    position: int
    offset: int
    reason: str
    is_cut_short: bool
    """Whether the file ends inside of a batch, which then was never written whole."""


def check_segment(
    segment: Segment, epochs: LeaderEpochCheckpoint | None, index_interval_bytes: int
) -> InvalidTail | None:
    """Fill the indexes and ``segment.damaged``; with ``epochs``, add the leader epochs of the batches to it.

    The file is not changed. Returns None if it ends with a valid batch.
    """
    segment.offset_index.clear()
    segment.time_index.clear()
    segment.set_damaged(())
    with segment.map() as view:
        tail = _scan(view, segment, epochs, index_interval_bytes)
    segment.checked.mark(segment.size if tail is None else tail.position)
    return tail


def missing_end(segment: Segment, following: int) -> DamagedRange | None:
    """Return the gap between the end of a segment that ends with a valid batch and the base offset of the next one.

    Only for logs that are not compacted: a cleaned segment may end before the next one begins.
    """
    end = segment.read_next_offset()
    if end >= following:
        return None
    reason = f"the file ends before offset {following}, where the next segment begins"
    return DamagedRange(segment.size, segment.size, end, following, reason)


def report_damage(segment: Segment, damage: DamagedRange) -> None:
    _log.error("%s is damaged %s; nothing was truncated", segment.path, damage)


def _scan(
    view: memoryview, segment: Segment, epochs: LeaderEpochCheckpoint | None, interval: int
) -> InvalidTail | None:
    """Checks batches fast: a killed node is not ready before it has read every batch that may not be durable."""
    unpack, checksum, total = HEADER.unpack_from, crc32c, len(view)
    offset_index, time_index = segment.offset_index, segment.time_index
    position = since_entry = 0
    next_offset, max_timestamp, max_timestamp_offset = segment.base_offset, -1, segment.base_offset
    end_offset = segment.base_offset + RELATIVE_OFFSET_MAX + 1
    latest_epoch = epochs.latest_epoch if epochs is not None else 2**31
    damaged: list[DamagedRange] = []
    suspect: tuple[int, int, int, int] | None = None
    """A batch before this one that skipped offsets or epochs: position, expected offset and epoch, offset count."""
    tail = None
    while position < total:
        reason = None
        is_cut_short = False
        if position + HEADER_SIZE > total:
            reason, is_cut_short = "the file ends inside a batch header", True
        else:
            base_offset, length, epoch, magic, crc, _, delta, _, timestamp, _, _, _, count = unpack(view, position)
            end = position + length + BATCH_OVERHEAD
            last_offset = base_offset + delta
            if magic != 2 or length < _LENGTH_MIN or not 0 <= count <= delta + 1:
                reason = header_problem(length, magic, delta, count)
            elif end > total:
                reason, is_cut_short = "the file ends inside a batch", True
            elif checksum(view[position + ATTRIBUTES_OFFSET : end]) != crc:
                reason = f"the checksum of the batch at offset {next_offset} is wrong"
            elif not next_offset <= base_offset <= last_offset < end_offset or epoch < latest_epoch < 2**31:
                if (
                    suspect is not None
                    and base_offset in (suspect[1] + suspect[3], next_offset)
                    and epoch >= suspect[2]
                    and delta >= 0
                ):
                    damaged.append(DamagedRange(suspect[0], position, suspect[1], base_offset, _SKIPPED))
                    offset_index.truncate_to_position(suspect[0])
                    next_offset, latest_epoch = base_offset, suspect[2]
                    if epochs is not None:
                        epochs.truncate_from_end(suspect[1])
                    suspect = None
                    continue
                if not next_offset <= base_offset <= last_offset < end_offset:
                    reason = f"offset {base_offset} after {next_offset - 1}"
        if reason is not None:
            found = next(find_batches(view, position + 1, first_offset=next_offset), None)
            if found is None or found.base_offset >= end_offset:
                tail = InvalidTail(position, next_offset, reason, is_cut_short)
                break
            damaged.append(DamagedRange(position, found.position, next_offset, found.base_offset, reason))
            position, next_offset, suspect = found.position, found.base_offset, None
            continue
        skips = base_offset > next_offset or epoch > latest_epoch
        known_epoch = latest_epoch if epochs is not None else -1
        suspect = (position, next_offset, known_epoch, delta + 1) if skips else None
        if timestamp > max_timestamp:
            max_timestamp, max_timestamp_offset = timestamp, last_offset
        if since_entry > interval:
            offset_index.append(last_offset, position)
            time_index.maybe_append(max_timestamp, max_timestamp_offset)
            since_entry = 0
        if epoch > latest_epoch and epochs is not None:
            epochs.assign(epoch, base_offset)
            latest_epoch = epoch
        next_offset = last_offset + 1
        since_entry += end - position
        position = end
    if tail is None and total < segment.size:
        tail = InvalidTail(total, next_offset, f"the file ends there, not at {segment.size}", True)
    segment.restore_timestamps(max_timestamp, max_timestamp_offset)
    segment.bytes_since_index_entry = since_entry
    segment.set_damaged(damaged)
    return tail


_SKIPPED = "its base offset or leader epoch does not fit between those of the batches around it"
