"""A member acknowledges records that it acquired, or loses all of them with its session.

The acknowledgements of one request take effect together, after the persister has stored them. If one of them is invalid
none has an effect, except that locks that were renewed before it stay renewed.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.share_partition.record_state import AcknowledgeType, RecordState
from barnabas.coordinator.share_partition.state_write import StateWrite

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from barnabas.coordinator.share_partition.in_flight_batch import InFlightBatch, InFlightRange
    from barnabas.coordinator.share_partition.in_flight_records import InFlightRecords
    from barnabas.coordinator.share_partition.share_partition_settings import SharePartitionSettings
    from barnabas.coordinator.share_partition.state_batch import AcknowledgementBatch

__all__ = ["Acknowledgement"]

_STATE_AFTER: dict[int, RecordState] = {
    AcknowledgeType.GAP: RecordState.ARCHIVED,
    AcknowledgeType.ACCEPT: RecordState.ACKNOWLEDGED,
    AcknowledgeType.RELEASE: RecordState.AVAILABLE,
    AcknowledgeType.REJECT: RecordState.ARCHIVED,
}
_TYPES = frozenset(AcknowledgeType)


class Acknowledgement:
    """Collects the transitions of one request in ``write``."""

    __slots__ = ("_member_id", "_now_ms", "_records", "_settings", "write")

    def __init__(
        self, records: InFlightRecords, settings: SharePartitionSettings, *, member_id: str, now_ms: int
    ) -> None:
        self._records = records
        self._settings = settings
        self._member_id = member_id
        self._now_ms = now_ms
        self.write = StateWrite(settings.delivery_count_limit)

    # --- what the member says

    def acknowledge(self, acknowledged: AcknowledgementBatch) -> None:
        """Begin the transitions of one batch of offsets. Raise ApiException if the member may not acknowledge them."""
        first_offset, last_offset, types = acknowledged
        if not _TYPES.issuperset(types):
            raise ApiException(ErrorCode.INVALID_REQUEST, f"Unknown acknowledge type in {sorted(set(types))}")
        start_offset = self._records.start_offset
        if last_offset < start_offset:
            return
        for batch in self._batches_of(first_offset, last_offset):
            if batch.last_offset < start_offset:
                continue
            if not batch.is_tracked_by_offset:
                self._check(batch.whole)
            if len(types) > 1 or batch.is_cut_by(start_offset) or not batch.is_within(first_offset, last_offset):
                batch.track_by_offset()
            self._acknowledge_in(batch, acknowledged)

    def _batches_of(self, first_offset: int, last_offset: int) -> Sequence[InFlightBatch]:
        batches, start_offset = self._records.batches, self._records.start_offset
        around = batches.floor(first_offset)
        if around is None and first_offset < start_offset:
            around = batches.floor(start_offset)
        if around is None:
            raise ApiException(ErrorCode.INVALID_RECORD_STATE, f"No record is acquired at offset {first_offset}")
        found = batches.beginning_in(around.first_offset, last_offset)
        if found[-1].last_offset < last_offset:
            raise ApiException(
                ErrorCode.INVALID_REQUEST,
                f"Offset {last_offset} is after the acquired records, which end at {found[-1].last_offset}",
            )
        return found

    def _acknowledge_in(self, batch: InFlightBatch, acknowledged: AcknowledgementBatch) -> None:
        first_offset = max(acknowledged.first_offset, self._records.start_offset, batch.first_offset)
        last_offset = min(acknowledged.last_offset, batch.last_offset)
        if first_offset > last_offset:
            return
        for first, last, type_ in _runs(acknowledged, first_offset, last_offset):
            for found in batch.overlapping(first, last):
                self._check(found)
                part = batch.part_within(found, first, last)
                if type_ == AcknowledgeType.RENEW:
                    self._renew(part)
                else:
                    self._begin(part, _STATE_AFTER[type_])

    def _check(self, part: InFlightRange) -> None:
        if part.state is not RecordState.ACQUIRED:
            raise ApiException(
                ErrorCode.INVALID_RECORD_STATE, f"The records {part.first_offset}..{part.last_offset} are not acquired"
            )
        if part.member_id != self._member_id:
            raise ApiException(
                ErrorCode.INVALID_RECORD_STATE,
                f"Another member has acquired the records {part.first_offset}..{part.last_offset}",
            )

    def _renew(self, part: InFlightRange) -> None:
        if not self._settings.renew_acknowledge_enable:
            raise ApiException(
                ErrorCode.INVALID_RECORD_STATE,
                "Locks of this group cannot be renewed: share.renew.acknowledge.enable is false",
            )
        part.deadline_ms = self._now_ms + self._settings.record_lock_duration_ms
        self._records.note_deadline(part.deadline_ms)

    # --- the end of a session

    def release_all(self) -> None:
        """Release all records of the member. Those before the start offset are archived."""
        start_offset = self._records.start_offset
        for batch in self._records.batches:
            if batch.is_cut_by(start_offset) and (batch.is_tracked_by_offset or self._is_own(batch.whole)):
                batch.track_by_offset()
                batch.divide_before(start_offset)
            for part in batch.ranges:
                if self._is_own(part):
                    is_obsolete = part.last_offset < start_offset
                    self._begin(part, RecordState.ARCHIVED if is_obsolete else RecordState.AVAILABLE)

    def _is_own(self, part: InFlightRange) -> bool:
        return part.state is RecordState.ACQUIRED and part.member_id == self._member_id

    # --- transitions

    def _begin(self, part: InFlightRange, state: RecordState) -> None:
        """Change the state; the write holds what is necessary to undo that."""
        if state is RecordState.AVAILABLE and part.delivery_count >= self._settings.delivery_count_limit:
            state = RecordState.ARCHIVED
        part.state = state
        part.write = self.write
        self.write.ranges.append(part)
        self.write.batches.append(part.state_batch)
        if state.is_terminal:
            self._records.delivery_complete_count += self._records.in_flight_count(part.first_offset, part.last_offset)


def _runs(acknowledged: AcknowledgementBatch, first_offset: int, last_offset: int) -> Iterator[tuple[int, int, int]]:
    """Yield (first, last, type) for consecutive offsets with one acknowledge type."""
    types = acknowledged.acknowledge_types
    if len(types) == 1:
        yield first_offset, last_offset, types[0]
        return
    skipped = first_offset - acknowledged.first_offset
    for type_, run in groupby(types[skipped : skipped + last_offset - first_offset + 1]):
        count = sum(1 for _ in run)
        yield first_offset, first_offset + count - 1, type_
        first_offset += count
