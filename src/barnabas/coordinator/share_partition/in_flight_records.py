"""The records of a share-partition that are in flight: fetched at least once, and not all finished yet.

They are between the start offset (SPSO) and the end offset (SPEO). Records before the start offset are finished, those
after the end offset were never acquired. Without batches both offsets are the next one to fetch.

A new leader knows only what the persister stored. Offsets missing there may have been acquired, or may not exist:
``unknown`` covers them until they were fetched again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from barnabas.coordinator.share_partition.in_flight_batch import InFlightBatch, InFlightRange
from barnabas.coordinator.share_partition.in_flight_batches import InFlightBatches
from barnabas.coordinator.share_partition.record_state import RecordState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.coordinator.share.persister import StateBatch

__all__ = ["InFlightRecords", "InvalidState"]


class InvalidState(Exception):
    """The persister returned batches that contradict each other or the start offset."""


class _Unknown(NamedTuple):
    """Offsets from ``first_offset`` on that are in no batch may have to be fetched, up to ``end_offset``."""

    first_offset: int
    end_offset: int


class _Finished(NamedTuple):
    """The finished records at the beginning: the last offset, and how many of them are in flight."""

    last_offset: int
    in_flight_count: int


class InFlightRecords:
    __slots__ = (
        "_unknown",
        "batches",
        "delivery_complete_count",
        "earliest_deadline_ms",
        "end_offset",
        "has_available",
        "start_offset",
    )

    def __init__(self, start_offset: int) -> None:
        self.batches = InFlightBatches()
        self.start_offset = start_offset
        self.end_offset = start_offset
        self.has_available = False
        """False if certainly no record in flight is available."""
        self.delivery_complete_count = 0
        """The number of finished records between start and end offset. The persister stores it to compute lags."""
        self.earliest_deadline_ms: int | None = None
        """No lock ends before this time. Locks may have ended or moved since it was set."""
        self._unknown: _Unknown | None = None

    def load(self, batches: Iterable[StateBatch]) -> None:
        """Take over the batches that the persister returned. Raise InvalidState."""
        expected, first_missing = self.start_offset, -1
        for batch in batches:
            if batch.first_offset < self.start_offset:
                raise InvalidState(f"{batch} begins before the start offset {self.start_offset}")
            if batch.last_offset < batch.first_offset or batch.first_offset < expected:
                raise InvalidState(f"{batch} ends before it begins, or overlaps the batch before it")
            if first_missing < 0 and batch.first_offset > expected:
                first_missing = expected
            expected = batch.last_offset + 1
            self._load_batch(batch)
        if not self.batches:
            return
        self.has_available = True
        self.end_offset = self.batches.last.last_offset
        if first_missing >= 0:
            self._unknown = _Unknown(first_missing, self.end_offset)
        self.move_start_offset()

    def _load_batch(self, batch: StateBatch) -> None:
        try:
            state = RecordState(batch.delivery_state)
        except ValueError:
            raise InvalidState(f"{batch} has an unknown state") from None
        if state is RecordState.ACQUIRED:
            state = RecordState.AVAILABLE  # The locks of an earlier leader have ended.
        loaded = InFlightRange(batch.first_offset, batch.last_offset, state, batch.delivery_count)
        self.batches.add(InFlightBatch(loaded))
        if state.is_terminal:
            self.delivery_complete_count += loaded.count

    # --- the next offset

    @property
    def count(self) -> int:
        return self.end_offset - self.start_offset + 1 if self.batches else 0

    @property
    def has_unknown(self) -> bool:
        """Whether offsets between batches may have to be fetched: until a record after all of them is acquired."""
        return self._unknown is not None and self._unknown.end_offset == self.end_offset

    def next_fetch_offset(self) -> int:
        """Return the first offset that may be acquired."""
        batches = self.batches
        if not batches or self.start_offset > batches.last.last_offset:
            self.has_available = False
            return self.end_offset
        if self.has_available:
            available = self._first_available()
            if available is not None:
                return available
            self.has_available = False
        return self.end_offset + 1

    def _first_available(self) -> int | None:
        unknown = self._unknown.first_offset if self._unknown is not None and self.has_unknown else None
        for batch in self.batches:
            if unknown is not None:
                if batch.first_offset > unknown:
                    return unknown
                unknown = max(batch.last_offset + 1, unknown)
            for part in batch.ranges:
                if part.is_available:
                    return part.first_offset
        return None

    def note_acquired_until(self, next_offset: int) -> None:
        """Note that no offset before ``next_offset`` is unknown any more."""
        if self._unknown is None:
            return
        if self.has_unknown and next_offset <= self._unknown.end_offset:
            self._skip_unknown(next_offset)
        else:
            self._unknown = None

    def note_missing(self, first_offset: int, next_offset: int) -> bool:
        """Note that the log has no record at these offsets. Return whether some of them were unknown."""
        if self._unknown is None or not first_offset <= self._unknown.first_offset < next_offset:
            return False
        self._skip_unknown(next_offset)
        return True

    def _skip_unknown(self, next_offset: int) -> None:
        """Note that no offset before ``next_offset`` may have to be fetched."""
        if self._unknown is not None and self._unknown.first_offset < next_offset:
            self._unknown = self._unknown._replace(first_offset=next_offset)

    def note_deadline(self, deadline_ms: int) -> None:
        if self.earliest_deadline_ms is None or deadline_ms < self.earliest_deadline_ms:
            self.earliest_deadline_ms = deadline_ms

    def in_flight_count(self, first_offset: int, last_offset: int) -> int:
        """Return how many of these offsets are not before the start offset."""
        return max(0, last_offset - max(self.start_offset, first_offset) + 1)

    # --- archiving

    def archive(
        self, first_offset: int, last_offset: int, batches: Iterable[InFlightBatch], from_state: RecordState
    ) -> int:
        """Archive the records of these offsets that are in ``from_state``, and return their number.

        A transition that is under way loses them: they stay archived, whatever the persister answers.
        """
        count = 0
        for batch in batches:
            if batch.last_offset < first_offset or batch.first_offset > last_offset:
                continue
            if not batch.is_tracked_by_offset:
                if batch.whole.state is not from_state:
                    continue
                if not batch.is_within(first_offset, last_offset):
                    batch.track_by_offset()
            for part in batch.ranges_within(first_offset, last_offset):
                if part.state is from_state:
                    part.settle(RecordState.ARCHIVED)
                    count += part.count
        return count

    # --- the start offset

    def move_start_offset(self) -> bool:
        """Move the start offset after the finished records at the beginning; return whether it moved."""
        finished = self._finished() if self._is_start_finished() else None
        if finished is None:
            return False
        batches, last_offset = self.batches, finished.last_offset
        if last_offset == batches.last.last_offset:
            batches.clear()
            self.start_offset = self.end_offset = max(self.start_offset, last_offset + 1)
            self.delivery_complete_count = 0
            return True
        self.start_offset = max(self.start_offset, self._start_after(last_offset))
        self._skip_unknown(self.start_offset)
        self.delivery_complete_count -= finished.in_flight_count
        batches.remove_until(last_offset + 1)
        return True

    def _start_after(self, last_offset: int) -> int:
        """Return the start offset after a finished record: missing offsets between batches are skipped if they are
        known not to exist."""
        batch = self.batches.floor(last_offset)
        following = self.batches.first_offset_after(last_offset)
        if batch is None or following is None or batch.last_offset != last_offset:
            return last_offset + 1
        if self._unknown is not None and self.has_unknown:
            return min(max(self._unknown.first_offset, last_offset + 1), following)
        return following

    def _is_start_finished(self) -> bool:
        batch = self.batches.floor(self.start_offset)
        if batch is not None:
            return batch.range_at(self.start_offset).is_finished
        return bool(self.batches) and self._is_missing(self.start_offset) and self.batches.first.ranges[0].is_finished

    def _is_missing(self, offset: int) -> bool:
        """Return whether the log has no record at this offset, which is in no batch."""
        return self._unknown is None or not self.has_unknown or offset < self._unknown.first_offset

    def _finished(self) -> _Finished | None:
        last_offset, count = -1, 0
        unknown = self._unknown.first_offset if self._unknown is not None and self.has_unknown else None
        for batch in self.batches:
            if unknown is not None:
                if batch.first_offset > unknown:
                    break
                unknown = max(batch.last_offset + 1, unknown)
            for part in batch.ranges:
                if not part.is_finished:
                    return _Finished(last_offset, count) if last_offset >= 0 else None
                last_offset = part.last_offset
                count += self.in_flight_count(part.first_offset, last_offset)
        return _Finished(last_offset, count) if last_offset >= 0 else None

    def log_start_moved(self, log_start_offset: int) -> bool:
        """Move the start offset to the log's start, if that is after it; return whether it moved.

        Available records before it are archived. Acquired ones stay until their member acknowledges them in vain, or
        their locks end. The persister learns the new start offset with the next write.
        """
        if log_start_offset <= self.start_offset:
            return False
        if not self.batches:
            self.start_offset = self.end_offset = log_start_offset
            self.delivery_complete_count = 0
            return True
        finished = self._finished_before(log_start_offset)
        if self.archive(self.start_offset, log_start_offset - 1, self.batches, RecordState.AVAILABLE):
            self.has_available = True
        self.start_offset = log_start_offset
        self.delivery_complete_count -= finished
        self.end_offset = max(self.end_offset, log_start_offset)
        self._skip_unknown(log_start_offset)
        return True

    def _finished_before(self, offset: int) -> int:
        """Return how many records between the start offset and ``offset`` are acknowledged or archived."""
        return sum(
            self.in_flight_count(part.first_offset, min(part.last_offset, offset - 1))
            for batch in self.batches.beginning_in(0, offset - 1)
            for part in batch.ranges
            if part.state.is_terminal
        )
