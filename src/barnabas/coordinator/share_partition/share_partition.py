"""The state of one share-partition on its leader: which records are available, acquired by whom, or finished.

The owner calls, always with the current time:

- ``next_fetch_offset``, then ``acquire`` with what it read there;
- ``acknowledge`` and ``release`` for members, ``expire_locks`` at ``next_deadline_ms``, ``log_start_moved``;
- ``complete`` for each returned write, once the persister has answered it. Writes are sent in the order in which they
  were returned, with ``start_offset`` and ``delivery_complete_count`` of the moment at which they are sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException
from barnabas.coordinator.share_partition.acknowledgement import Acknowledgement
from barnabas.coordinator.share_partition.acquisition import Acquisition, without_aborted
from barnabas.coordinator.share_partition.in_flight_records import InFlightRecords
from barnabas.coordinator.share_partition.record_state import RecordState
from barnabas.coordinator.share_partition.state_write import StateWrite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from barnabas.coordinator.share.persister import StateBatch
    from barnabas.coordinator.share_partition.in_flight_batch import InFlightRange
    from barnabas.coordinator.share_partition.in_flight_batches import InFlightBatches
    from barnabas.coordinator.share_partition.share_partition_settings import SharePartitionSettings
    from barnabas.coordinator.share_partition.state_batch import AcknowledgementBatch, AcquiredRecords, FetchedBatch

__all__ = ["SharePartition"]


class SharePartition:
    """``settings`` returns the limits of the group, which may change at any time."""

    __slots__ = ("_records", "_settings", "locks_expired")

    def __init__(
        self, settings: Callable[[], SharePartitionSettings], start_offset: int, batches: Iterable[StateBatch] = ()
    ) -> None:
        """Continue from what the persister returned. Raise InvalidState if it contradicts itself."""
        self._settings = settings
        self._records = InFlightRecords(start_offset)
        self._records.load(batches)
        self.locks_expired = 0
        """The number of records whose acquisition lock has ended."""

    @property
    def start_offset(self) -> int:
        return self._records.start_offset

    @property
    def end_offset(self) -> int:
        return self._records.end_offset

    @property
    def delivery_complete_count(self) -> int:
        return self._records.delivery_complete_count

    @property
    def in_flight_record_count(self) -> int:
        return self._records.count

    @property
    def in_flight_batches(self) -> InFlightBatches:
        return self._records.batches

    @property
    def next_deadline_ms(self) -> int | None:
        """When ``expire_locks`` is due. It may be before the end of the next lock, never after it."""
        return self._records.earliest_deadline_ms

    # --- acquiring

    def next_fetch_offset(self) -> int | None:
        """Return the offset to read for the next acquisition; None while too many records are in flight."""
        records = self._records
        offset = records.next_fetch_offset()
        if offset == records.end_offset + 1 and records.count >= self._settings().partition_max_record_locks:
            return None
        return offset

    def acquire(
        self,
        member_id: str,
        fetched: Sequence[FetchedBatch],
        *,
        fetch_offset: int,
        max_records: int,
        batch_size: int,
        is_strict: bool = False,
        aborted: Sequence[FetchedBatch] = (),
        now_ms: int,
    ) -> list[AcquiredRecords]:
        """Acquire what is available in the batches that were read at ``fetch_offset``.

        ``is_strict``: never acquire more than ``max_records``; otherwise the batch that reaches the limit is acquired
        to its end. ``aborted``: those of the batches that must not be delivered.
        """
        if not fetched or max_records <= 0:
            return []
        records = self._records
        acquisition = Acquisition(
            records,
            self._settings(),
            fetched,
            member_id=member_id,
            max_records=max_records,
            is_strict=is_strict,
            batch_size=batch_size,
            now_ms=now_ms,
        )
        acquisition.run(fetch_offset)
        acquired = acquisition.acquired
        if aborted and acquired:
            archived = sum(self._archive_aborted(batch) for batch in aborted)
            records.delivery_complete_count += archived
            acquisition.has_archived = acquisition.has_archived or archived > 0
            acquired = without_aborted(acquired, aborted)
        if acquisition.has_archived:
            records.move_start_offset()
        return acquired

    def _archive_aborted(self, batch: FetchedBatch) -> int:
        records = self._records
        around = records.batches.floor(batch.base_offset)
        first_offset = batch.base_offset if around is None else around.first_offset
        found = records.batches.beginning_in(first_offset, batch.last_offset)
        return records.archive(batch.base_offset, batch.last_offset, found, RecordState.ACQUIRED)

    # --- acknowledging

    def acknowledge(
        self, member_id: str, acknowledged: Iterable[AcknowledgementBatch], *, now_ms: int
    ) -> StateWrite | None:
        """Return what must be stored before the acknowledgements hold; None if nothing must be.

        Raise ApiException, without a change, if one of them is invalid.
        """
        acknowledgement = Acknowledgement(self._records, self._settings(), member_id=member_id, now_ms=now_ms)
        try:
            for batch in acknowledged:
                acknowledgement.acknowledge(batch)
        except ApiException:
            self._settle(acknowledgement.write, False, now_ms)
            raise
        return acknowledgement.write if acknowledgement.write.ranges else None

    def release(self, member_id: str, *, now_ms: int) -> StateWrite | None:
        """Release all records of a member whose session has ended. Return what must be stored before that holds."""
        acknowledgement = Acknowledgement(self._records, self._settings(), member_id=member_id, now_ms=now_ms)
        acknowledgement.release_all()
        return acknowledgement.write if acknowledgement.write.ranges else None

    def complete(self, write: StateWrite, *, is_stored: bool, now_ms: int) -> bool:
        """End the transitions of a write. Return whether records may have become available, or room for others.

        If it failed, the records are acquired again, unless their locks have ended meanwhile.
        """
        has_changed = self._settle(write, is_stored, now_ms)
        if is_stored or not write.ranges:  # The end of a lock holds even if its write failed.
            has_changed = self._records.move_start_offset() or has_changed
        return has_changed

    def _settle(self, write: StateWrite, is_stored: bool, now_ms: int) -> bool:
        has_available = False
        for part in write.ranges:
            if part.write is not write:
                continue  # Archived meanwhile, because the log's start moved or compaction removed it.
            if is_stored:
                part.settle(part.state)
            else:
                self._undo(part, write, now_ms)
            if part.state is RecordState.AVAILABLE:
                self._records.has_available = has_available = True
            self._join(part)
        return has_available

    def _undo(self, part: InFlightRange, write: StateWrite, now_ms: int) -> None:
        records = self._records
        was_terminal = part.state.is_terminal
        if part.deadline_ms is not None and part.deadline_ms > now_ms:
            part.state = RecordState.ACQUIRED
            part.write = None
            records.note_deadline(part.deadline_ms)
        else:
            self._divide_at_start(part)
            is_obsolete = part.last_offset < records.start_offset
            is_last = part.delivery_count >= write.delivery_count_limit
            part.settle(RecordState.ARCHIVED if is_obsolete or is_last else RecordState.AVAILABLE)
        if was_terminal and not part.state.is_terminal:
            records.delivery_complete_count -= records.in_flight_count(part.first_offset, part.last_offset)

    def _divide_at_start(self, part: InFlightRange) -> None:
        """Have records before the start offset and after it in separate ranges: the first are never delivered again."""
        start_offset = self._records.start_offset
        batch = self._records.batches.floor(part.first_offset)
        if batch is not None and part.first_offset < start_offset <= part.last_offset:
            batch.track_by_offset()
            batch.divide_before(start_offset)

    def _join(self, part: InFlightRange) -> None:
        batch = self._records.batches.floor(part.first_offset)
        if batch is not None and len(batch.ranges) > 1:
            batch.join_around(part)

    # --- time

    def expire_locks(self, now_ms: int) -> StateWrite | None:
        """Release the records whose locks have ended. That holds immediately, even if the write fails."""
        records, settings = self._records, self._settings()
        if records.earliest_deadline_ms is None or now_ms < records.earliest_deadline_ms:
            return None
        write = StateWrite(settings.delivery_count_limit)
        records.earliest_deadline_ms = None
        for batch in records.batches:
            if batch.is_cut_by(records.start_offset):
                part = batch.range_at(records.start_offset)
                if self._is_expired(part, now_ms):
                    self._divide_at_start(part)
            expired = [part for part in batch.ranges if self._is_expired(part, now_ms)]
            for part in expired:
                self._expire(part, settings.delivery_count_limit, write)
            for part in expired:
                batch.join_around(part)
        return write if write.batches else None

    def _is_expired(self, part: InFlightRange, now_ms: int) -> bool:
        """Return whether its lock has ended. The deadlines of the others determine when to look again."""
        if part.state is not RecordState.ACQUIRED or part.deadline_ms is None:
            return False
        if part.deadline_ms <= now_ms:
            return True
        self._records.note_deadline(part.deadline_ms)
        return False

    def _expire(self, part: InFlightRange, delivery_count_limit: int, write: StateWrite) -> None:
        records = self._records
        is_obsolete = part.last_offset < records.start_offset
        is_last = part.delivery_count >= delivery_count_limit
        part.settle(RecordState.ARCHIVED if is_obsolete or is_last else RecordState.AVAILABLE)
        self.locks_expired += part.count
        write.batches.append(part.state_batch)
        if part.state is RecordState.AVAILABLE:
            records.has_available = True
        else:
            records.delivery_complete_count += records.in_flight_count(part.first_offset, part.last_offset)

    def log_start_moved(self, log_start_offset: int) -> bool:
        """Skip the records that the log no longer has. Return whether the start offset moved."""
        return self._records.log_start_moved(log_start_offset)
