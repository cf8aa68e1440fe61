"""Hands the committed log to those who follow it: each batch once, in order, from memory, disk or a snapshot."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Protocol

from barnabas.metadata.loader import CommittedBatch
from barnabas.protocol.record_batch import BatchView
from barnabas.raft.ports import RecordSerde
from barnabas.raft.ready import AppendedBatch, LeaderAndEpoch
from barnabas.storage.metadata_log import MetadataLog
from barnabas.storage.snapshot_file import SnapshotReader

__all__ = ["CommitDelivery", "RaftListener"]

_DELIVERY_BYTES = 4 * 1024 * 1024
"""At a time, from disk: each delivery makes an image, and an image costs the more the less is in it."""


class RaftListener(Protocol):
    """Follows the committed log. Exceptions are faults: they stop the driver."""

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> None:
        """Batches that follow each other, the first right after what was handled before; control ones are empty."""
        ...

    def handle_load_snapshot(self, reader: SnapshotReader) -> None:
        """Everything up to the snapshot's end is replaced by what it holds."""
        ...

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None: ...


class _Subscription:
    __slots__ = ("leader", "listener", "next_offset")

    def __init__(self, listener: RaftListener) -> None:
        self.listener = listener
        self.next_offset = 0
        self.leader: LeaderAndEpoch | None = None


class CommitDelivery:
    def __init__(self, log: MetadataLog, serde: RecordSerde) -> None:
        self._log = log
        self._serde = serde
        self._subscriptions: list[_Subscription] = []
        self._recent: deque[CommittedBatch] = deque()

    def register(self, listener: RaftListener, high_watermark: int | None, leader: LeaderAndEpoch) -> None:
        """Bring a new listener up to what is committed, and keep it there."""
        subscription = _Subscription(listener)
        self._subscriptions.append(subscription)
        if high_watermark is not None:
            self._deliver(subscription, high_watermark)
        _announce(subscription, leader)

    def deliver(self, committed: Iterable[AppendedBatch], high_watermark: int) -> None:
        """Everything up to the high watermark; ``committed`` is the part of it that is still in memory."""
        self._recent.extend(self._committed(batch) for batch in committed)
        for subscription in self._subscriptions:
            self._deliver(subscription, high_watermark)
        self._recent.clear()

    def announce(self, leader: LeaderAndEpoch) -> None:
        for subscription in self._subscriptions:
            _announce(subscription, leader)

    def _deliver(self, subscription: _Subscription, high_watermark: int) -> None:
        """Hand on everything up to the high watermark: from a snapshot, from disk, from memory, as it comes."""
        self._maybe_load_snapshot(subscription)
        first_recent = self._recent[0].base_offset if self._recent else high_watermark
        if subscription.next_offset < min(first_recent, high_watermark):
            self._deliver_from_disk(subscription, min(first_recent, high_watermark))
        batches = [batch for batch in self._recent if batch.base_offset >= subscription.next_offset]
        if batches:
            subscription.next_offset = batches[-1].last_offset + 1
            subscription.listener.handle_commit(batches)

    def _maybe_load_snapshot(self, subscription: _Subscription) -> None:
        latest = self._log.latest_snapshot_id
        if latest is None or latest.offset <= subscription.next_offset:
            return
        if subscription.next_offset > 0 and subscription.next_offset >= self._log.start_offset:
            return
        subscription.next_offset = latest.offset
        subscription.listener.handle_load_snapshot(SnapshotReader(self._log.directory, latest))

    def _deliver_from_disk(self, subscription: _Subscription, end_offset: int) -> None:
        gathered: list[CommittedBatch] = []
        size = 0
        for batch in self._log.batches(subscription.next_offset, end_offset):
            gathered.append(self._read_batch(batch))
            size += batch.size
            if size >= _DELIVERY_BYTES:
                subscription.listener.handle_commit(gathered)
                gathered, size = [], 0
            subscription.next_offset = batch.next_offset
        if gathered:
            subscription.listener.handle_commit(gathered)

    def _committed(self, batch: AppendedBatch) -> CommittedBatch:
        """What this node appended as leader is there as objects; what it fetched is read from its bytes."""
        if batch.records is None:
            return self._read_batch(BatchView(batch.data, 0))
        return CommittedBatch(
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            epoch=batch.epoch,
            append_time_ms=batch.timestamp_ms,
            records=[record.message for record in batch.records],
            byte_count=len(batch.data),
        )

    def _read_batch(self, batch: BatchView) -> CommittedBatch:
        decode = self._serde.decode
        records = () if batch.is_control else [decode(record.value or b"") for record in batch.records()]
        return CommittedBatch(
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            epoch=batch.leader_epoch,
            append_time_ms=batch.max_timestamp,
            records=records,
            byte_count=batch.size,
        )


def _announce(subscription: _Subscription, leader: LeaderAndEpoch) -> None:
    if subscription.leader != leader:
        subscription.leader = leader
        subscription.listener.handle_leader_change(leader)
