"""The state of a share-partition, as a snapshot stores it, and a change of it, as an update stores it."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.coordinator.share.persister import (
    NO_DELIVERY_COMPLETE_COUNT,
    NO_EPOCH,
    UNINITIALIZED_OFFSET,
    StateBatch,
)
from barnabas.coordinator.share.state_batches import NO_BATCHES, CombinedBatches, combine

__all__ = ["ShareGroupOffset", "ShareUpdate"]

_DEFAULT_EPOCH = 0
_NO_TIMESTAMP = 0


class ShareUpdate(NamedTuple):
    """A change of the state. NO_EPOCH and UNINITIALIZED_OFFSET keep the epoch and the start offset before it."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    delivery_complete_count: int
    state_batches: CombinedBatches


class ShareGroupOffset(NamedTuple):
    snapshot_epoch: int
    """The number of the snapshot: each has the next one."""
    state_epoch: int
    leader_epoch: int
    start_offset: int
    """The first offset whose delivery is not complete."""
    delivery_complete_count: int
    """The number of records from the start offset on whose delivery is complete."""
    state_batches: CombinedBatches
    create_timestamp_ms: int
    write_timestamp_ms: int
    """Later than the creation if the snapshot only repeats the state before it."""

    @property
    def is_cold(self) -> bool:
        """Whether the snapshot only repeats the state before it."""
        return self.create_timestamp_ms != self.write_timestamp_ms

    @classmethod
    def initial(cls, *, snapshot_epoch: int, state_epoch: int, start_offset: int, now_ms: int) -> ShareGroupOffset:
        is_unknown = start_offset == UNINITIALIZED_OFFSET
        return cls(
            snapshot_epoch,
            state_epoch,
            _DEFAULT_EPOCH,
            start_offset,
            NO_DELIVERY_COMPLETE_COUNT if is_unknown else 0,
            NO_BATCHES,
            now_ms,
            now_ms,
        )

    @classmethod
    def of_update(cls, update: ShareUpdate) -> ShareGroupOffset:
        """Return what an update describes whose snapshot is missing in the log."""
        return cls(
            update.snapshot_epoch,
            _DEFAULT_EPOCH,
            update.leader_epoch,
            update.start_offset,
            update.delivery_complete_count,
            update.state_batches,
            _NO_TIMESTAMP,
            _NO_TIMESTAMP,
        )

    def with_update(self, update: ShareUpdate) -> ShareGroupOffset:
        start_offset = self.start_offset if update.start_offset == UNINITIALIZED_OFFSET else update.start_offset
        return self._replace(
            leader_epoch=self.leader_epoch if update.leader_epoch == NO_EPOCH else update.leader_epoch,
            start_offset=start_offset,
            delivery_complete_count=update.delivery_complete_count,
            state_batches=combine(self.state_batches, update.state_batches.batches, start_offset),
        )

    def update(
        self, leader_epoch: int, start_offset: int, delivery_complete_count: int, batches: tuple[StateBatch, ...]
    ) -> ShareUpdate:
        return ShareUpdate(
            self.snapshot_epoch,
            leader_epoch,
            start_offset,
            delivery_complete_count,
            combine(NO_BATCHES, batches, start_offset),
        )

    def following_snapshot(self, now_ms: int) -> ShareGroupOffset:
        """Return the same state as a new snapshot."""
        return self._replace(
            snapshot_epoch=self.snapshot_epoch + 1, create_timestamp_ms=now_ms, write_timestamp_ms=now_ms
        )

    def repeated(self, now_ms: int) -> ShareGroupOffset:
        """Return the same state as a new snapshot that is cold."""
        return self._replace(snapshot_epoch=self.snapshot_epoch + 1, write_timestamp_ms=now_ms)
