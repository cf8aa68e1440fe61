"""Checks the segments of a metadata log when it is opened, and classifies the first damage.

The checks at start:

- from the newest snapshot's end on: every batch, with checksum, offsets without a gap, and epochs that never go back
  and that begin with a control batch (LeaderChange, KIP-595);
- before it: that each segment ends where the next one begins. The snapshot holds their records, so the checksums of
  these batches are verified when a batch is read (``MetadataLog.read``).

Indexes are derived data: a missing or invalid one is rebuilt from the segment.

Damage is a torn tail only without evidence that the log continued after it. The evidence is: a valid batch anywhere
after it, a later segment, the recovery point, and the end offset of the last clean close. One exception: after a
restart of the machine, records above the recovery point were never acknowledged, and may be torn in any order.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from barnabas.protocol.record_batch import BatchView
from barnabas.protocol.records.voters_record import VotersRecord
from barnabas.raft.control_records import read_control_records
from barnabas.storage.batch_header import (
    BATCH_OVERHEAD,
    CONTROL_FLAG,
    HEADER,
    HEADER_SIZE,
    crc_matches,
    header_problem,
)
from barnabas.storage.batch_search import FoundBatch, find_batches
from barnabas.storage.damaged_files import LogDamage
from barnabas.storage.errors import StorageError
from barnabas.storage.leader_epoch_checkpoint import LeaderEpochCheckpoint
from barnabas.storage.recovery_point import RecoveryPoint
from barnabas.storage.segment import Segment
from barnabas.storage.time_index import NO_TIMESTAMP

__all__ = ["BadPlace", "BatchBehind", "LogCheck", "batches_behind", "inspect_batch", "judge"]


NO_EPOCH = -1
"""The state before the first batch."""
_RECORD_BYTES_MIN = 7
"""The epoch of the previous record."""


class BadPlace(NamedTuple):
    """The end of the log's readable prefix, and the reason."""

    segment_index: int
    path: str
    position: int
    offset: int
    """The first offset that is not in the prefix."""
    reason: str


class LogCheck:
    """One pass over the segments. It changes no file: indexes and epochs are corrected in memory."""

    def __init__(
        self,
        segments: Sequence[Segment],
        epochs: LeaderEpochCheckpoint,
        *,
        check_from: int,
        index_interval_bytes: int,
    ) -> None:
        """``check_from``: the end offset of the newest snapshot, 0 without one."""
        self._segments = segments
        self._epochs = epochs
        self._check_from = check_from
        self._index_interval_bytes = index_interval_bytes
        self._epoch_run = _EpochRun(NO_EPOCH, 0, 0, 0, 2)
        self.end_offset = segments[0].base_offset
        self.control_batch_offsets: list[int] = []
        """Offsets of the control batches at or after ``check_from``."""
        self.names_voters = False
        """Whether one of them names the voters of the quorum."""
        self.covered: BadPlace | None = None
        """Damage wholly before the snapshot's end: its records are in the snapshot."""

    def run(self) -> BadPlace | None:
        """Return the first relevant damage, or None if the log is valid to its end."""
        first = self._segments[0]
        if first.base_offset > self._check_from:
            what = "no snapshot holds the records before it" if not self._check_from else "the snapshot ends before it"
            return BadPlace(0, first.path, 0, self._check_from, f"the log begins at {first.base_offset} and {what}")
        for index, segment in enumerate(self._segments):
            following = self._segments[index + 1].base_offset if index + 1 < len(self._segments) else None
            if following is not None and following <= self._check_from:
                self._check_older(index, segment, following)
                continue
            if segment.base_offset != self.end_offset:
                reason = f"the segment begins at offset {segment.base_offset} where {self.end_offset} was expected"
                return BadPlace(index, segment.path, 0, self.end_offset, reason)
            bad = self._check_segment(index, segment)
            if bad is not None:
                return bad
        return None

    def _check_older(self, index: int, segment: Segment, following: int) -> None:
        """Check only whether a segment that the snapshot covers ends where the next one begins."""
        self.end_offset = following
        try:
            if not _has_sound_indexes(segment):
                _index_again(segment, self._index_interval_bytes)
            end = segment.read_next_offset()
            reason = f"the segment ends at offset {end} and the next one begins at {following}"
        except (StorageError, FileNotFoundError) as error:
            end, reason = -1, str(error)
        if end != following and self.covered is None:
            self.covered = BadPlace(index, segment.path, segment.size, min(end, following), reason)

    def _check_segment(self, index: int, segment: Segment) -> BadPlace | None:
        """Check the batches from the snapshot's end on and rebuild their index."""
        start = self._checked_start(segment)
        # The entry that led to ``start`` stays: the batches before it may be damaged, and must not be walked through.
        segment.offset_index.truncate_to_position(start + 1 if start else 0)
        next_offset, position = segment.base_offset, start
        newest = NO_TIMESTAMP, segment.base_offset
        bad: BadPlace | None = None
        with segment.map() as data:
            while position < segment.size:
                batch = inspect_batch(data, position)
                problem = batch.problem or _misplaced(batch, next_offset, is_first=0 < start == position)
                if problem is not None:
                    bad = BadPlace(index, segment.path, position, next_offset, problem)
                    break
                if self._has_wrong_epoch(batch):
                    bad = self._wrong_epoch(index, segment, position, batch)
                    break
                self._epoch_run = self._epoch_run.extended(batch, index, position)
                if batch.timestamp > newest[0]:
                    newest = batch.timestamp, batch.last_offset
                _add_to_index(segment, position, batch, newest, self._index_interval_bytes)
                if batch.last_offset >= self._check_from:
                    self._epochs.assign(batch.epoch, batch.base_offset)
                    if batch.is_control:
                        self._note_control_batch(BatchView(data, position))
                next_offset, position = batch.last_offset + 1, position + batch.size
        segment.time_index.truncate_to_offset(next_offset)
        if newest[0] >= 0:
            segment.time_index.maybe_append(*newest)
        self.end_offset = next_offset if bad is None else bad.offset
        return bad

    def _note_control_batch(self, batch: BatchView) -> None:
        self.control_batch_offsets.append(batch.base_offset)
        if any(isinstance(record, VotersRecord) for _, record in read_control_records(batch)):
            self.names_voters = True

    def _has_wrong_epoch(self, batch: InspectedBatch) -> bool:
        """Check the epoch: epochs never decrease, and a leader begins its epoch with a control batch. No checksum
        covers the epoch."""
        before = self._epoch_run.epoch
        return batch.epoch < before or (before < batch.epoch and not batch.is_control and before != NO_EPOCH)

    def _wrong_epoch(self, index: int, segment: Segment, position: int, batch: InspectedBatch) -> BadPlace:
        """Choose the wrong batch: a single batch of the epoch before, else this one."""
        run = self._epoch_run
        if run.length == 1:
            path = self._segments[run.segment_index].path
            reason = f"the leader epoch {run.epoch} is followed by {batch.epoch}"
            return BadPlace(run.segment_index, path, run.position, run.offset, reason)
        reason = f"the leader epoch {batch.epoch} follows {run.epoch}"
        return BadPlace(index, segment.path, position, batch.base_offset, reason)

    def _checked_start(self, segment: Segment) -> int:
        """Return a position at or before the batch that holds ``check_from``, as far as the indexes can be trusted."""
        check_from = self._check_from
        if not _has_sound_indexes(segment):
            _clear_indexes(segment)
            return 0
        start = segment.offset_index.lookup(check_from) if check_from > segment.base_offset else 0
        if not 0 < start < segment.size:
            return 0
        with segment.map() as data:
            batch = inspect_batch(data, start)
        if batch.problem is None and segment.base_offset < batch.base_offset <= batch.last_offset <= check_from:
            return start
        # An index that was not synced may describe a log that was truncated since: its position may hold another batch,
        # or none.
        _clear_indexes(segment)
        return 0


# --- classifying damage


def judge(segments: Sequence[Segment], bad: BadPlace, *, point: RecoveryPoint, closed_at: int) -> LogDamage | None:
    """Return None if ``bad`` is a torn tail that may be truncated; else the loss. ``closed_at``: the end at a clean
    close."""
    if point.offset is not None and bad.offset >= point.offset and point.is_after_restart:
        return None
    known: list[tuple[int, str]] = []
    if point.offset is not None:
        known.append((point.offset, f"according to {point.path} the log was flushed up to offset {point.offset}"))
    known.append((closed_at, f"the log was closed with the end offset {closed_at}"))
    found = list(batches_behind(segments, bad))
    if found:
        end = found[-1].found.last_offset + 1
        known.append((end, f"{len(found)} valid batches after it extend to offset {end - 1}"))
    elif bad.segment_index + 1 < len(segments):
        last = segments[-1]
        known.append((last.base_offset, f"the segment {last.path} follows"))
    known_end, evidence = max(known, key=lambda item: item[0])
    if known_end <= bad.offset:
        return None
    return LogDamage(bad.path, bad.position, bad.offset, known_end, bad.reason, evidence)


class BatchBehind(NamedTuple):
    """A valid batch at or after the damage. ``found`` has its true offsets."""

    segment: Segment
    found: FoundBatch
    is_misplaced: bool
    """Whether the batch's header has other offsets: no checksum covers its base offset."""


def batches_behind(segments: Sequence[Segment], bad: BadPlace) -> Iterator[BatchBehind]:
    """Yield the valid batches that hold offsets from ``bad.offset`` on, in order.

    A batch with a greater offset than is possible counts as the next one.
    """
    first_offset, position = bad.offset, bad.position
    for segment in segments[bad.segment_index :]:
        with segment.map() as data:
            while (found := next(find_batches(data, position, first_offset=first_offset), None)) is not None:
                is_misplaced = found.base_offset > _offset_max(segment, found, bad)
                if is_misplaced:
                    excess = found.base_offset - first_offset
                    found = found._replace(base_offset=first_offset, last_offset=found.last_offset - excess)
                yield BatchBehind(segment, found, is_misplaced)
                first_offset, position = found.last_offset + 1, found.position + found.size
        position = 0


def _offset_max(segment: Segment, batch: FoundBatch, bad: BadPlace) -> int:
    """Return the greatest possible base offset of the batch: offsets are contiguous, so the bytes before it bound
    it."""
    follows_prefix = bad.position > 0 or segment.base_offset == bad.offset
    if segment.path == bad.path and batch.position == bad.position and follows_prefix:
        return bad.offset
    return segment.base_offset + batch.position // _RECORD_BYTES_MIN


# --- single batches


class InspectedBatch(NamedTuple):
    size: int
    epoch: int
    base_offset: int
    last_offset: int
    timestamp: int
    is_control: bool
    problem: str | None


def inspect_batch(data: memoryview, position: int) -> InspectedBatch:
    """Return the batch at this position, and its problem."""
    if position + HEADER_SIZE > len(data):
        return InspectedBatch(0, 0, 0, 0, 0, False, "the segment ends inside a batch header")
    fields = HEADER.unpack_from(data, position)
    base_offset, length, epoch, magic, crc, attributes, last_offset_delta = fields[:7]
    size = length + BATCH_OVERHEAD
    problem = header_problem(length, magic, last_offset_delta, fields[12])
    if problem is None and epoch < 0:
        problem = f"the leader epoch {epoch} is negative"
    if problem is None and position + size > len(data):
        problem = "the segment ends inside a batch"
    if problem is None and not crc_matches(data[position : position + size], crc):
        problem = "the checksum is wrong"
    last_offset = base_offset + last_offset_delta
    return InspectedBatch(size, epoch, base_offset, last_offset, fields[8], bool(attributes & CONTROL_FLAG), problem)


class _EpochRun(NamedTuple):
    """The batches with the newest epoch: their start and number."""

    epoch: int
    segment_index: int
    position: int
    offset: int
    length: int

    def extended(self, batch: InspectedBatch, segment_index: int, position: int) -> _EpochRun:
        if batch.epoch == self.epoch:
            return self._replace(length=self.length + 1)
        return _EpochRun(batch.epoch, segment_index, position, batch.base_offset, 1)


def _misplaced(batch: InspectedBatch, next_offset: int, *, is_first: bool) -> str | None:
    """Check that batches are contiguous; the first one found by an index may be anywhere in its segment."""
    if batch.base_offset == next_offset or (is_first and batch.base_offset > next_offset):
        return None
    return f"offset {batch.base_offset} found where {next_offset} was expected"


# --- indexes


def _has_sound_indexes(segment: Segment) -> bool:
    try:
        segment.offset_index.sanity_check()
        segment.time_index.sanity_check()
    except (StorageError, OSError):
        return False
    return True


def _clear_indexes(segment: Segment) -> None:
    segment.offset_index.clear()
    segment.time_index.clear()


def _index_again(segment: Segment, interval_bytes: int) -> None:
    """Rebuild the indexes of a whole segment. Raises StorageError if its batches cannot be read."""
    _clear_indexes(segment)
    newest = NO_TIMESTAMP, segment.base_offset
    with segment.map() as data:
        for position, _, _, _ in segment.walk():
            batch = inspect_batch(data, position)
            if batch.timestamp > newest[0]:
                newest = batch.timestamp, batch.last_offset
            _add_to_index(segment, position, batch, newest, interval_bytes)
    if newest[0] >= 0:
        segment.time_index.maybe_append(*newest)


def _add_to_index(
    segment: Segment, position: int, batch: InspectedBatch, newest: tuple[int, int], interval_bytes: int
) -> None:
    if segment.bytes_since_index_entry > interval_bytes:
        segment.offset_index.append(batch.last_offset, position)
        segment.time_index.maybe_append(*newest)
        segment.bytes_since_index_entry = 0
    segment.bytes_since_index_entry += batch.size
