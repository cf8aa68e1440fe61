"""Delivers the committed log to its listeners: each batch once, in order, from memory, disk or a snapshot.

A commit may be long: a controller that starts reads hundreds of thousands of records. It is delivered in turns, between
which the node answers other requests: a voter that is silent for longer than the fetch time-out loses its followers. A
small commit is delivered immediately. Listeners learn that this node leads once all earlier commits were delivered.
They learn immediately that it no longer leads.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Iterator, Sequence
from typing import Any, Final, Protocol

from barnabas.metadata.loader import CommittedBatch
from barnabas.protocol.record_batch import BatchView
from barnabas.raft.ports import RecordSerde
from barnabas.raft.ready import AppendedBatch, LeaderAndEpoch
from barnabas.raft.replica_key import OffsetAndEpoch
from barnabas.storage.metadata_log import MetadataLog
from barnabas.storage.snapshot_file import SnapshotReader

__all__ = ["CommitDelivery", "RaftListener"]

RECORDS_A_TURN: Final = 400
"""About 10 ms: a record is decoded, replayed for the broker and for the controller, and published.

A batch with more records takes effect as a whole: it is decoded and replayed in steps."""
_BATCHES_IN_MEMORY: Final = 1_000


class RaftListener(Protocol):
    """Follows the committed log. Exceptions are faults: they stop the driver."""

    def handle_commit(self, batches: Sequence[CommittedBatch]) -> Iterator[None] | None:
        """Handle consecutive batches. The first follows the last handled batch; control batches are empty.

        Return long work as an iterator of steps. Nothing else is delivered before its end.
        """
        ...

    def handle_load_snapshot(self, reader: SnapshotReader) -> Iterator[None] | None:
        """Handle a snapshot, whose contents replace everything up to its end."""
        ...

    def handle_leader_change(self, leader: LeaderAndEpoch) -> None: ...


class _Subscription:
    """``announced`` is the leader that the listener knows, ``leader`` the one that it must finally know."""

    __slots__ = ("announced", "handled_offset", "leader", "listener", "next_offset", "steps")

    def __init__(self, listener: RaftListener) -> None:
        self.listener = listener
        self.next_offset = 0
        self.handled_offset = 0
        self.steps: Iterator[None] | None = None
        """The steps that the listener has begun, up to ``next_offset``."""
        self.announced: LeaderAndEpoch | None = None
        self.leader: LeaderAndEpoch | None = None


class CommitDelivery:
    def __init__(self, log: MetadataLog, serde: RecordSerde, node_id: int) -> None:
        self._log = log
        self._serde = serde
        self._node_id = node_id
        self._subscriptions: list[_Subscription] = []
        self._recent: deque[AppendedBatch] = deque()
        self._high_watermark = 0

    @property
    def delivered_offset(self) -> int:
        """The offset before which every listener has handled all records."""
        handled = (subscription.handled_offset for subscription in self._subscriptions)
        return min(handled, default=self._high_watermark)

    @property
    def is_behind(self) -> bool:
        """Whether ``advance`` has records to deliver."""
        return self.delivered_offset < self._high_watermark

    def register(self, listener: RaftListener, high_watermark: int | None, leader: LeaderAndEpoch) -> None:
        """Deliver all committed records to a new listener, and later ones as they are committed."""
        subscription = _Subscription(listener)
        self._subscriptions.append(subscription)
        self._high_watermark = max(self._high_watermark, high_watermark or 0)
        while subscription.handled_offset < self._high_watermark:
            self._take_turn(subscription)
        self._announce(subscription, leader)

    def deliver(self, committed: Iterable[AppendedBatch], high_watermark: int) -> None:
        """Start delivering all records up to the high watermark; ``committed`` are those still in memory.

        Work beyond one turn is left to ``advance``.
        """
        self._recent.extend(self._to_keep(committed))
        self._high_watermark = high_watermark
        self.advance()

    def advance(self) -> None:
        """Deliver the records of one turn."""
        for subscription in self._subscriptions:
            if subscription.handled_offset < self._high_watermark:
                self._take_turn(subscription)
            if subscription.handled_offset >= self._high_watermark and subscription.leader is not None:
                self._announce(subscription, subscription.leader)
        delivered = self.delivered_offset
        while self._recent and self._recent[0].last_offset < delivered:
            self._recent.popleft()

    def announce(self, leader: LeaderAndEpoch) -> None:
        for subscription in self._subscriptions:
            self._announce(subscription, leader)

    def _announce(self, subscription: _Subscription, leader: LeaderAndEpoch) -> None:
        subscription.leader = leader
        if subscription.announced == leader:
            return
        if leader.is_leader(self._node_id) and subscription.handled_offset < self._high_watermark:
            return
        subscription.announced = leader
        subscription.listener.handle_leader_change(leader)

    def _to_keep(self, committed: Iterable[AppendedBatch]) -> Iterable[AppendedBatch]:
        """Return the batches to keep in memory, up to a limit; the rest is read from disk."""
        for batch in committed:
            if len(self._recent) >= _BATCHES_IN_MEMORY:
                return
            yield batch

    def _take_turn(self, subscription: _Subscription) -> None:
        """Deliver some due records, in order: from a snapshot, from disk, or from memory."""
        if subscription.steps is None:
            subscription.steps = self._begin(subscription)
        if subscription.steps is not None:
            for _ in subscription.steps:
                return
            subscription.steps = None
        subscription.handled_offset = subscription.next_offset

    def _begin(self, subscription: _Subscription) -> Iterator[None] | None:
        latest = self._snapshot_due(subscription)
        if latest is not None:
            subscription.next_offset = latest.offset
            return subscription.listener.handle_load_snapshot(SnapshotReader(self._log.directory, latest))
        due = self._due_in_a_turn(subscription.next_offset)
        if not due:
            return None
        subscription.next_offset = due[-1].last_offset + 1
        return self._delivery_steps(subscription.listener, due)

    def _delivery_steps(self, listener: RaftListener, due: Iterable[BatchView | AppendedBatch]) -> Iterator[None]:
        batches: list[CommittedBatch] = []
        for source in due:
            batch = yield from self._read(source)
            batches.append(batch)
        yield from listener.handle_commit(batches) or ()

    def _due_in_a_turn(self, offset: int) -> list[BatchView | AppendedBatch]:
        batches: list[BatchView | AppendedBatch] = []
        count = 0
        for batch in self._due(offset, self._high_watermark):
            batches.append(batch)
            count += 0 if batch.is_control else batch.last_offset + 1 - batch.base_offset
            if count >= RECORDS_A_TURN:
                break
        return batches

    def _due(self, offset: int, end_offset: int) -> Iterator[BatchView | AppendedBatch]:
        first_in_memory = self._recent[0].base_offset if self._recent else end_offset
        if offset < min(first_in_memory, end_offset):
            for view in self._log.batches(offset, min(first_in_memory, end_offset)):
                yield view
                offset = view.next_offset
        for batch in self._recent:
            if batch.base_offset >= offset:
                if batch.base_offset > offset:
                    return
                yield batch
                offset = batch.last_offset + 1

    def _snapshot_due(self, subscription: _Subscription) -> OffsetAndEpoch | None:
        latest = self._log.latest_snapshot_id
        if latest is None or latest.offset <= subscription.next_offset:
            return None
        if subscription.next_offset > 0 and subscription.next_offset >= self._log.start_offset:
            return None
        return latest

    def _read(self, batch: BatchView | AppendedBatch) -> Generator[None, None, CommittedBatch]:
        """Read a batch. Records that this node appended as leader are objects; fetched records are decoded from bytes.

        A batch with more records than one turn delivers is read in steps.
        """
        if isinstance(batch, BatchView):
            return (yield from self._read_view(batch))
        if batch.records is None:
            return (yield from self._read_view(BatchView(batch.data, 0)))
        return CommittedBatch(
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            epoch=batch.epoch,
            append_time_ms=batch.timestamp_ms,
            records=[record.message for record in batch.records],
            byte_count=len(batch.data),
        )

    def _read_view(self, batch: BatchView) -> Generator[None, None, CommittedBatch]:
        decode = self._serde.decode
        records: list[Any] = []
        for record in () if batch.is_control else batch.records():
            records.append(decode(record.value or b""))
            if len(records) % RECORDS_A_TURN == 0 and len(records) < batch.count:
                yield
        return CommittedBatch(
            base_offset=batch.base_offset,
            last_offset=batch.last_offset,
            epoch=batch.leader_epoch,
            append_time_ms=batch.max_timestamp,
            records=records,
            byte_count=batch.size,
        )
