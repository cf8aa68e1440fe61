"""A partition's state of its producers: idempotence, fencing and open transactions.

A batch with a producer id is accepted if its epoch is not older than the known one and its first sequence number
follows the last one; the last five batches of a producer are stored, and a repeated one is answered with its
existing offsets. A snapshot has only the last batch: the earlier ones are read from the log when needed. A
new epoch starts at sequence 0. An unknown producer may start anywhere: its records may have been deleted.

A transaction is open from its first batch until the coordinator's marker. The offset of the oldest one that is open,
or ended above the high watermark, is the first unstable offset: readers of committed records stop before it.

This module does not read a clock or a log: the log passes in headers, in order, after writing or in recovery.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.storage.producer_snapshot import ProducerSnapshotEntry

__all__ = [
    "BATCHES_KEPT",
    "CompletedTransaction",
    "EndTransactionMarker",
    "ProducerBatch",
    "ProducerEntry",
    "ProducerState",
]

NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
SEQUENCE_MAX = 2**31 - 1
BATCHES_KEPT = 5
# The sequence of an entry that a marker created, without a batch.
_NO_OFFSET = -1


class ProducerBatch(NamedTuple):
    first_sequence: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int

    @property
    def first_offset(self) -> int:
        return self.last_offset - self.offset_delta


class EndTransactionMarker(NamedTuple):
    is_abort: bool
    coordinator_epoch: int


class CompletedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    is_abort: bool


class ProducerEntry:
    __slots__ = (
        "batches",
        "coordinator_epoch",
        "current_txn_first_offset",
        "epoch",
        "has_forgotten",
        "last_timestamp",
        "producer_id",
    )

    def __init__(self, producer_id: int, epoch: int = NO_PRODUCER_EPOCH) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches: list[ProducerBatch] = []
        self.has_forgotten = False
        """The log may hold batches of this epoch before those in ``batches``, which may be fewer than are kept."""
        self.coordinator_epoch = -1
        self.last_timestamp = -1
        self.current_txn_first_offset = _NO_OFFSET

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_data_offset(self) -> int:
        """The last offset of its last data batch, -1 if only a marker is known."""
        return self.batches[-1].last_offset if self.batches else _NO_OFFSET

    def find_duplicate(self, epoch: int, first_sequence: int, last_sequence: int) -> ProducerBatch | None:
        if epoch == self.epoch:
            for batch in self.batches:
                if batch.first_sequence == first_sequence and batch.last_sequence == last_sequence:
                    return batch
        return None

    def recall(self, earlier: Iterable[ProducerBatch]) -> None:
        """Add the log's batches of this epoch before the oldest of ``batches``, in order."""
        self.batches[:0] = earlier
        del self.batches[:-BATCHES_KEPT]
        self.has_forgotten = False

    def advance_epoch(self, epoch: int) -> None:
        if epoch != self.epoch:
            self.batches.clear()
            self.has_forgotten = False
            self.epoch = epoch

    def to_snapshot(self) -> ProducerSnapshotEntry:
        last = self.batches[-1] if self.batches else None
        return ProducerSnapshotEntry(
            self.producer_id,
            self.epoch,
            last.last_sequence if last else NO_SEQUENCE,
            last.last_offset if last else _NO_OFFSET,
            last.offset_delta if last else 0,
            self.last_timestamp,
            self.coordinator_epoch,
            self.current_txn_first_offset,
        )

    @classmethod
    def from_snapshot(cls, snapshot: ProducerSnapshotEntry) -> ProducerEntry:
        entry = cls(snapshot.producer_id, snapshot.epoch)
        if snapshot.last_offset >= 0:
            first_sequence = (snapshot.last_sequence - snapshot.offset_delta) & SEQUENCE_MAX
            entry.has_forgotten = True
            entry.batches.append(
                ProducerBatch(
                    first_sequence,
                    snapshot.last_sequence,
                    snapshot.last_offset,
                    snapshot.offset_delta,
                    snapshot.timestamp,
                )
            )
        entry.coordinator_epoch = snapshot.coordinator_epoch
        entry.last_timestamp = snapshot.timestamp
        entry.current_txn_first_offset = snapshot.current_txn_first_offset
        return entry


class ProducerState:
    __slots__ = ("_ongoing", "_unreplicated", "producers")

    def __init__(self) -> None:
        self.producers: dict[int, ProducerEntry] = {}
        # First offset -> producer id. First offsets only grow, so the first entry is the oldest.
        self._ongoing: dict[int, int] = {}
        # First offset -> last offset of ended transactions whose marker is not below the high watermark yet.
        self._unreplicated: dict[int, int] = {}

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self.producers.values())

    @property
    def first_unstable_offset(self) -> int | None:
        if not self._ongoing and not self._unreplicated:
            return None
        first = next(iter(self._ongoing), None)
        if self._unreplicated:
            oldest = min(self._unreplicated)
            return oldest if first is None else min(first, oldest)
        return first

    @property
    def ongoing_transactions(self) -> dict[int, int]:
        """Return first offset -> producer id of each open transaction, oldest first."""
        return self._ongoing

    # Checks

    def find_duplicate(self, producer_id: int, epoch: int, base_sequence: int, count: int) -> ProducerBatch | None:
        """Return the one of the last five batches that this one repeats."""
        entry = self.producers.get(producer_id)
        if entry is None:
            return None
        return entry.find_duplicate(epoch, base_sequence, (base_sequence + count - 1) & SEQUENCE_MAX)

    def may_have_forgotten(self, producer_id: int, epoch: int, base_sequence: int) -> ProducerEntry | None:
        """Return the producer, if a batch with this sequence may precede its stored batches."""
        entry = self.producers.get(producer_id)
        if entry is None or not entry.has_forgotten or entry.epoch != epoch or len(entry.batches) >= BATCHES_KEPT:
            return None
        return None if _follows(entry.last_sequence, base_sequence) else entry

    def validate_data_batch(
        self, producer_id: int, epoch: int, base_sequence: int, *, is_transactional: bool, what: str
    ) -> None:
        """Raise ApiException unless this batch can be the producer's next one."""
        entry = self.producers.get(producer_id)
        if entry is None:
            return
        self._check_epoch(entry, epoch, what)
        if epoch != entry.epoch:
            if base_sequence != 0 and entry.epoch != NO_PRODUCER_EPOCH:
                raise ApiException(
                    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                    f"Invalid sequence number for new epoch of producer {producer_id} in {what}: {epoch} "
                    f"(request epoch), {base_sequence} (seq. number), {entry.epoch} (current producer epoch)",
                )
        elif not _follows(entry.last_sequence, base_sequence):
            raise ApiException(
                ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
                f"Out of order sequence number for producer {producer_id} in {what}: {base_sequence} "
                f"(incoming seq. number), {entry.last_sequence} (current end sequence number)",
            )
        if entry.current_txn_first_offset >= 0 and not is_transactional:
            raise ApiException(
                ErrorCode.INVALID_TXN_STATE, f"Expected transactional write from producer {producer_id} in {what}"
            )

    def validate_marker(self, producer_id: int, epoch: int, marker: EndTransactionMarker, *, what: str) -> None:
        """Raise ApiException if a newer producer or a newer coordinator has been seen."""
        entry = self.producers.get(producer_id)
        if entry is None:
            return
        self._check_epoch(entry, epoch, what)
        if entry.coordinator_epoch > marker.coordinator_epoch:
            raise ApiException(
                ErrorCode.TRANSACTION_COORDINATOR_FENCED,
                f"Invalid coordinator epoch for producer {producer_id} in {what}: {marker.coordinator_epoch} "
                f"(zombie), {entry.coordinator_epoch} (current)",
            )

    # Updates

    def append_data_batch(
        self,
        producer_id: int,
        epoch: int,
        base_sequence: int,
        *,
        last_offset: int,
        offset_delta: int,
        timestamp: int,
        is_transactional: bool,
    ) -> None:
        """Record a batch that was written to the log."""
        entry = self._entry(producer_id, epoch)
        last_sequence = NO_SEQUENCE if base_sequence == NO_SEQUENCE else (base_sequence + offset_delta) & SEQUENCE_MAX
        batches = entry.batches
        batches.append(ProducerBatch(base_sequence, last_sequence, last_offset, offset_delta, timestamp))
        if len(batches) > BATCHES_KEPT:
            del batches[0]
        entry.last_timestamp = timestamp
        if is_transactional and entry.current_txn_first_offset < 0:
            first_offset = last_offset - offset_delta
            entry.current_txn_first_offset = first_offset
            self._ongoing[first_offset] = producer_id

    def append_marker(
        self, producer_id: int, epoch: int, marker: EndTransactionMarker, *, offset: int, timestamp: int
    ) -> CompletedTransaction | None:
        """Record an end marker that was written. Returns None for a transaction without records in this partition."""
        entry = self._entry(producer_id, epoch)
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp = timestamp
        first_offset = entry.current_txn_first_offset
        entry.current_txn_first_offset = _NO_OFFSET
        if first_offset < 0:
            return None
        self._ongoing.pop(first_offset, None)
        self._unreplicated[first_offset] = offset
        return CompletedTransaction(producer_id, first_offset, offset, marker.is_abort)

    def last_stable_offset_after(self, transaction: CompletedTransaction) -> int:
        """Return the last stable offset once this transaction is replicated: the next open one, or its end."""
        return next(iter(self._ongoing), transaction.last_offset + 1)

    def high_watermark_advanced(self, high_watermark: int) -> None:
        """Remove ended transactions whose marker is below the high watermark."""
        if self._unreplicated:
            self._unreplicated = {first: last for first, last in self._unreplicated.items() if last >= high_watermark}

    def remove_expired(self, now_ms: int, expiration_ms: int) -> int:
        """Remove producers without an open transaction that were idle for that long."""
        expired = [
            entry.producer_id
            for entry in self.producers.values()
            if entry.current_txn_first_offset < 0 and now_ms - entry.last_timestamp >= expiration_ms
        ]
        for producer_id in expired:
            del self.producers[producer_id]
        return len(expired)

    # Snapshots

    def to_snapshot(self) -> list[ProducerSnapshotEntry]:
        return [self.producers[producer_id].to_snapshot() for producer_id in sorted(self.producers)]

    @classmethod
    def from_snapshot(cls, snapshot: Iterable[ProducerSnapshotEntry]) -> ProducerState:
        state = cls()
        for item in snapshot:
            state.producers[item.producer_id] = ProducerEntry.from_snapshot(item)
        open_ones = [entry for entry in state if entry.current_txn_first_offset >= 0]
        for entry in sorted(open_ones, key=lambda entry: entry.current_txn_first_offset):
            state._ongoing[entry.current_txn_first_offset] = entry.producer_id
        return state

    def _entry(self, producer_id: int, epoch: int) -> ProducerEntry:
        entry = self.producers.get(producer_id)
        if entry is None:
            entry = self.producers[producer_id] = ProducerEntry(producer_id, epoch)
        elif entry.epoch != epoch:
            entry.advance_epoch(epoch)
        return entry

    @staticmethod
    def _check_epoch(entry: ProducerEntry, epoch: int, what: str) -> None:
        if epoch < entry.epoch:
            raise ApiException(
                ErrorCode.INVALID_PRODUCER_EPOCH,
                f"Epoch of producer {entry.producer_id} in {what} is {epoch}, "
                f"which is smaller than the last seen epoch {entry.epoch}",
            )


def _follows(last_sequence: int, sequence: int) -> bool:
    return sequence == last_sequence + 1 or (sequence == 0 and last_sequence == SEQUENCE_MAX)
