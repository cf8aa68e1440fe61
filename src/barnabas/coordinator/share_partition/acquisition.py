"""One member acquires records that were read from the log.

Whole batches are acquired: the offsets of the read batches, including those that compaction has removed from them. The
member reports these as gaps. The number of records is a soft limit, to the end of a batch, unless the member asked for
a strict one (KIP-1206). Then the rest of the batch stays available.

A record that can't be processed must not take the others of its batch with it when it reaches the delivery limit. From
half of the limit on, a batch is delivered in parts: half of it, a quarter, and so on; a record whose last delivery this
is, alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.coordinator.share_partition.in_flight_batch import InFlightBatch, InFlightRange
from barnabas.coordinator.share_partition.record_state import RecordState
from barnabas.coordinator.share_partition.state_batch import AcquiredRecords

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from barnabas.coordinator.share_partition.in_flight_records import InFlightRecords
    from barnabas.coordinator.share_partition.share_partition_settings import SharePartitionSettings
    from barnabas.coordinator.share_partition.state_batch import FetchedBatch

__all__ = ["Acquisition", "without_aborted"]

_NO_LIMIT = 2**63 - 1
_ISOLATES_LAST_DELIVERY_FROM = 3
"""With a lower delivery limit, records are not isolated: their second delivery is already the last."""


class Acquisition:
    __slots__ = (
        "_batch_size",
        "_deadline_ms",
        "_fetched",
        "_is_strict",
        "_last_offset",
        "_max_records",
        "_member_id",
        "_records",
        "_settings",
        "acquired",
        "count",
        "has_archived",
    )

    def __init__(
        self,
        records: InFlightRecords,
        settings: SharePartitionSettings,
        fetched: Sequence[FetchedBatch],
        *,
        member_id: str,
        max_records: int,
        is_strict: bool,
        batch_size: int,
        now_ms: int,
    ) -> None:
        """``is_strict``: ``max_records`` is also a limit within a batch. ``batch_size`` is the number of records after
        which a new in-flight batch begins."""
        self._records = records
        self._settings = settings
        self._fetched = fetched
        self._member_id = member_id
        self._max_records = max_records
        self._is_strict = is_strict
        self._batch_size = batch_size
        self._deadline_ms = now_ms + settings.record_lock_duration_ms
        self._last_offset = fetched[-1].last_offset
        self.acquired: list[AcquiredRecords] = []
        self.count = 0
        """The number of acquired records."""
        self.has_archived = False
        """Whether the start offset may move on without a write."""

    def run(self, fetch_offset: int) -> None:
        """Acquire from what was read at ``fetch_offset``."""
        records = self._records
        if self._last_offset < records.start_offset:
            return
        self._limit(fetch_offset)
        if self._max_records <= 0:
            return
        base_offset = self._fetched[0].base_offset
        self._archive_compacted(fetch_offset, base_offset)
        first_offset = self._first_offset(base_offset)
        known = records.batches.beginning_in(min(base_offset, first_offset), self._last_offset)
        if known:
            self._acquire_from(known, first_offset, base_offset)
        else:
            self._acquire_new(first_offset, self._last_offset, self._max_records)

    def _limit(self, fetch_offset: int) -> None:
        """Reduce the records to acquire to those that may be in flight. Those that are already in flight may always be
        acquired again."""
        records = self._records
        room = min(self._max_records, self._settings.partition_max_record_locks - records.count)
        if room <= 0 and fetch_offset <= records.end_offset:
            room = min(self._max_records, records.end_offset - fetch_offset + 1)
            self._last_offset = min(self._last_offset, records.end_offset)
        self._max_records = room

    def _archive_compacted(self, fetch_offset: int, base_offset: int) -> None:
        """Archive available records that the log no longer has: those between the offset of the read and its first
        batch. Offsets there are not unknown any more."""
        records = self._records
        if not records.batches or fetch_offset >= base_offset:
            return
        if records.note_missing(fetch_offset, base_offset):
            self.has_archived = True
        around = records.batches.floor(fetch_offset)
        first_offset = fetch_offset if around is None or around.last_offset < fetch_offset else around.first_offset
        stale = records.batches.beginning_in(first_offset, base_offset - 1)
        count = records.archive(fetch_offset, base_offset - 1, stale, RecordState.AVAILABLE)
        if count:
            records.delivery_complete_count += count
            records.has_available = self.has_archived = True

    def _first_offset(self, base_offset: int) -> int:
        """Return the first offset to acquire: that of a known batch around the first read one, or the start offset if
        that is within it."""
        around = self._records.batches.floor(base_offset)
        if around is None or around.last_offset < base_offset:
            return max(base_offset, self._records.start_offset)
        return around.first_offset

    # --- records that were fetched before

    def _acquire_from(self, known: Sequence[InFlightBatch], first_offset: int, base_offset: int) -> None:
        """Acquire what is available in known batches, and the records between and after them."""
        next_offset = first_offset
        for batch in known:
            if self.count >= self._max_records:
                break
            if self._records.has_unknown:
                if next_offset < batch.first_offset:
                    self._acquire_new(next_offset, batch.first_offset - 1, self._max_records - self.count)
                next_offset = batch.last_offset + 1
                if self.count >= self._max_records:
                    break
            if not self._acquire_known(batch, base_offset):
                break
        else:
            last_known = known[-1].last_offset
            if self.count < self._max_records and last_known < self._last_offset:
                self._acquire_new(last_known + 1, self._last_offset, self._max_records - self.count)
        if self.acquired:
            self._records.note_acquired_until(self.acquired[-1].last_offset + 1)

    def _acquire_known(self, batch: InFlightBatch, base_offset: int) -> bool:
        """Acquire from one batch. Return False if no other records must be delivered together with these."""
        is_throttled = self._is_throttled(batch, base_offset)
        if is_throttled and self.count:
            return False
        missing = self._max_records - self.count
        is_whole = batch.is_within(base_offset, self._last_offset) and not (self._is_strict and batch.count > missing)
        if is_whole and not batch.is_tracked_by_offset and not is_throttled:
            if batch.whole.is_available:
                self._take(batch.whole)
                self._add(batch.first_offset, batch.last_offset, batch.whole.delivery_count)
            return True
        if not batch.is_tracked_by_offset:
            if not batch.whole.is_available:
                return True
            batch.track_by_offset()
        taken = self._acquire_part(batch, base_offset, missing if self._is_strict else _NO_LIMIT)
        return not (is_throttled and taken)

    def _is_throttled(self, batch: InFlightBatch, base_offset: int) -> bool:
        limit = self._settings.throttling_delivery_count
        if not batch.is_tracked_by_offset:
            return batch.whole.delivery_count >= limit and batch.whole.is_available
        return any(
            part.delivery_count >= limit
            and part.is_available
            and part.last_offset >= base_offset
            and part.first_offset <= self._last_offset
            for part in batch.ranges
        )

    def _acquire_part(self, batch: InFlightBatch, base_offset: int, max_records: int) -> int:
        """Acquire available records of a batch that is tracked by offset; return their number."""
        limit, throttling = self._settings.delivery_count_limit, self._settings.throttling_delivery_count
        isolates = limit >= _ISOLATES_LAST_DELIVERY_FROM
        taken, is_throttled, pieces = 0, False, _Pieces()
        for part in batch.ranges_within(base_offset, self._last_offset):
            if not part.is_available:
                continue
            is_last_delivery = isolates and part.delivery_count == limit - 1
            if is_last_delivery and taken:
                break
            if part.delivery_count >= throttling and not is_throttled:
                is_throttled = True
                together = max(1, batch.count >> (part.delivery_count - throttling + 1))
                # As in Kafka, records before the first one that is throttled may already be more.
                max_records = min(max_records, together if together > taken else _NO_LIMIT)
            wanted = 1 if is_last_delivery else max_records - taken
            if wanted < part.count:
                batch.divide_before(part.first_offset + wanted)
            self._take(part)
            pieces.add(part)
            taken += part.count
            if is_last_delivery or taken == max_records:
                break
        for piece in pieces.joined:
            self._add(*piece)
        return taken

    # --- records that were never fetched

    def _acquire_new(self, first_offset: int, last_offset: int, max_records: int) -> None:
        records = self._records
        if not records.batches:
            first_offset = max(first_offset, records.end_offset)
        if max_records < last_offset - first_offset + 1:
            last_offset = self._end_of_batch_at(first_offset + max_records - 1, last_offset)
        if self._is_strict:
            acquired_until = self._add_strictly(first_offset, last_offset, max_records)
        else:
            acquired_until = last_offset
            for first, last in self._divided(first_offset, last_offset):
                self._add_new(first, last)
        if records.batches.first.first_offset == first_offset:
            records.start_offset = first_offset
        records.end_offset = max(records.end_offset, last_offset)
        records.note_acquired_until(acquired_until + 1)

    def _end_of_batch_at(self, offset: int, last_offset: int) -> int:
        """Return the end of the read batch with ``offset``; not after ``last_offset`` while batches follow that."""
        end = offset
        for batch in self._fetched:
            if batch.base_offset > offset:
                break
            end = max(offset, batch.last_offset)
        return min(end, last_offset) if self._records.has_unknown else end

    def _divided(self, first_offset: int, last_offset: int) -> Iterable[tuple[int, int]]:
        """Divide the offsets where a read batch begins and at least ``batch_size`` offsets precede it."""
        if last_offset - first_offset + 1 > self._batch_size:
            for batch in self._fetched:
                if batch.base_offset > last_offset:
                    break
                if batch.base_offset - first_offset >= self._batch_size:
                    yield first_offset, batch.base_offset - 1
                    first_offset = batch.base_offset
        yield first_offset, last_offset

    def _add_strictly(self, first_offset: int, last_offset: int, max_records: int) -> int:
        """Acquire ``max_records`` and leave the rest of the batch available. Return the last acquired offset."""
        batch = self._add_new(first_offset, min(last_offset, first_offset + max_records - 1))
        acquired_until = batch.last_offset
        if acquired_until < last_offset:
            batch.ranges.append(InFlightRange(acquired_until + 1, last_offset, RecordState.AVAILABLE, 0))
            batch.last_offset = last_offset
            batch.track_by_offset()
            self._records.has_available = True
        return acquired_until

    def _add_new(self, first_offset: int, last_offset: int) -> InFlightBatch:
        part = InFlightRange(first_offset, last_offset, RecordState.AVAILABLE, 0)
        self._take(part)
        batch = InFlightBatch(part)
        self._records.batches.add(batch)
        self._add(first_offset, last_offset, 1)
        return batch

    # --- the result

    def _take(self, part: InFlightRange) -> None:
        part.acquire(self._member_id, self._deadline_ms)
        self._records.note_deadline(self._deadline_ms)

    def _add(self, first_offset: int, last_offset: int, delivery_count: int) -> None:
        self.acquired.append(AcquiredRecords(first_offset, last_offset, delivery_count))
        self.count += last_offset - first_offset + 1


class _Pieces:
    """Joins acquired ranges that follow each other and have one delivery count."""

    __slots__ = ("joined",)

    def __init__(self) -> None:
        self.joined: list[AcquiredRecords] = []

    def add(self, part: InFlightRange) -> None:
        first_offset, delivery_count = part.first_offset, part.delivery_count
        if self.joined:
            last = self.joined[-1]
            if last.last_offset + 1 == first_offset and last.delivery_count == delivery_count:
                first_offset = last.first_offset
                del self.joined[-1]
        self.joined.append(AcquiredRecords(first_offset, part.last_offset, delivery_count))


def without_aborted(acquired: Sequence[AcquiredRecords], aborted: Sequence[FetchedBatch]) -> list[AcquiredRecords]:
    """Return the acquired records that are in no batch of ``aborted``. Both are in the order of their offsets."""
    kept: list[AcquiredRecords] = []
    index = 0
    for first_offset, last_offset, delivery_count in acquired:
        while index < len(aborted) and aborted[index].last_offset < first_offset:
            index += 1
        at = index
        while at < len(aborted) and aborted[at].base_offset <= last_offset:
            if first_offset < aborted[at].base_offset:
                kept.append(AcquiredRecords(first_offset, aborted[at].base_offset - 1, delivery_count))
            first_offset = aborted[at].last_offset + 1
            at += 1
        if first_offset <= last_offset:
            kept.append(AcquiredRecords(first_offset, last_offset, delivery_count))
    return kept
