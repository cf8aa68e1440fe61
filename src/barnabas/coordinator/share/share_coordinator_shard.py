"""The share-partitions of one partition of ``__share_group_state``, their records and their timers.

A decision sees all records that were appended before it, committed or not: a snapshot must contain the updates before
it. Its answer waits until they are committed. What it does not see is lost with them, if their append failed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import TypeVar

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult, TimerAction
from barnabas.coordinator.share.persister import (
    NO_EPOCH,
    SUCCESS,
    SharePartitionKey,
    SharePartitionState,
    SharePartitionSummary,
    StateInitialization,
    StateOutcome,
    StateWrite,
)
from barnabas.coordinator.share.redundant_offsets import RedundantOffsets
from barnabas.coordinator.share.share_coordinator_config import ShareCoordinatorConfig
from barnabas.coordinator.share.share_group_offset import ShareGroupOffset, ShareUpdate
from barnabas.coordinator.share.share_partition import SharePartition
from barnabas.coordinator.share.share_records import ShareSnapshotRecord, ShareUpdateRecord, decode_record
from barnabas.coordinator.share.state_batches import NO_BATCHES, CombinedBatches, combine
from barnabas.coordinator.timer_queue import Timer, TimerQueue

__all__ = ["ShareCoordinatorShard"]

R = TypeVar("R")

_KEYS_PER_STEP = 500
_STATE_BATCHES_PER_STEP = 5_000
"""The size of one step of work for all share-partitions: some milliseconds, and a batch that every log takes."""
_RETRY_MS = 1_000
_NEGATIVE = StateOutcome(ErrorCode.INVALID_REQUEST, "The partition is negative.")

_Record = ShareSnapshotRecord | ShareUpdateRecord
_Decided = deque[tuple[_Record, SharePartition | None]]


class ShareCoordinatorShard:
    def __init__(
        self,
        config: ShareCoordinatorConfig,
        *,
        partition_count: Callable[[Uuid], int | None],
        delete_records: Callable[[int], bool],
    ) -> None:
        """``partition_count``: of a topic, None if it does not exist. ``delete_records``: of this partition, before an
        offset; returns whether they are deleted.
        """
        self._config = config
        self._partition_count = partition_count
        self._delete_records = delete_records
        self._committed: dict[SharePartitionKey, SharePartition] = {}
        self._decided: dict[SharePartitionKey, _Decided] = {}
        """Appended records that are not committed yet, each with the state after it."""
        self._keys_by_topic: dict[Uuid, set[SharePartitionKey]] = {}
        self._fresh_count = 0
        """The number of share-partitions whose last snapshot is not cold."""
        self._redundant = RedundantOffsets()
        self.pruned_before: int | None = None
        """The offset before which records were deleted last."""
        self._cold_walk: deque[SharePartitionKey] = deque()
        self._deleted: deque[SharePartitionKey] = deque()
        self.timers: TimerQueue[TimerAction] = TimerQueue()
        self._prune_timer: Timer[TimerAction] = Timer(self._prune)
        self._cold_timer: Timer[TimerAction] = Timer(self._snapshot_cold_partitions)
        self._deletion_timer: Timer[TimerAction] = Timer(self._delete_next)

    # -- replay

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        return decode_record(key, value)

    def replay(self, record: CoordinatorRecord, record_offset: int, producer_id: int, now_ms: int) -> None:
        if not isinstance(record, ShareSnapshotRecord | ShareUpdateRecord):
            return
        key = record.key
        self._set_committed(key, self._take_decided(record))
        if isinstance(record, ShareUpdateRecord):
            return
        if record.offset is None:
            self._redundant.note_removal(key, record_offset)
        else:
            self._redundant.note_snapshot(key, record_offset)

    def _take_decided(self, record: _Record) -> SharePartition | None:
        decided = self._decided.get(record.key)
        if decided is None or decided[0][0] is not record:
            return self._applied(self._committed.get(record.key), record)
        _, following = decided.popleft()
        if not decided:
            del self._decided[record.key]
        return following

    def _applied(self, known: SharePartition | None, record: _Record) -> SharePartition | None:
        if isinstance(record, ShareUpdateRecord):
            return SharePartition.after_update(known, record.update)
        if record.offset is None:
            return None
        return SharePartition.after_snapshot(
            known,
            record.offset,
            updates_per_snapshot=self._config.share_coordinator_snapshot_update_records_per_snapshot,
        )

    def _set_committed(self, key: SharePartitionKey, following: SharePartition | None) -> None:
        known = self._committed.pop(key, None)
        if known is not None and not known.offset.is_cold:
            self._fresh_count -= 1
        if following is not None:
            self._committed[key] = following
            self._fresh_count += not following.offset.is_cold
            self._keys_by_topic.setdefault(key.topic_id, set()).add(key)
        elif key not in self._decided:
            self._forget_key(key)

    def _forget_key(self, key: SharePartitionKey) -> None:
        keys = self._keys_by_topic.get(key.topic_id)
        if keys is not None:
            keys.discard(key)
            if not keys:
                del self._keys_by_topic[key.topic_id]

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool, now_ms: int) -> None:
        """Nothing: this log is not written in transactions."""

    def on_loaded(self, now_ms: int) -> list[CoordinatorResult[None]]:
        config = self._config
        self.timers.schedule(self._prune_timer, now_ms + config.share_coordinator_state_topic_prune_interval_ms)
        self.timers.schedule(self._cold_timer, now_ms + config.share_coordinator_cold_partition_snapshot_interval_ms)
        return []

    def on_unloaded(self, now_ms: int) -> None:
        for timer in (self._prune_timer, self._cold_timer, self._deletion_timer):
            timer.cancel()
        self._decided.clear()

    # -- requests

    def initialize(
        self, key: SharePartitionKey, wanted: StateInitialization, now_ms: int
    ) -> CoordinatorResult[StateOutcome]:
        """Begin with a new state. It replaces the one of an earlier initialization, or of the same one."""
        known = self._current(key)
        refusal = self._refusal(key, known, state_epoch=wanted.state_epoch)
        if refusal is not None:
            return self._answer(key, refusal)
        initial = ShareGroupOffset.initial(
            snapshot_epoch=0 if known is None else known.offset.snapshot_epoch + 1,
            state_epoch=wanted.state_epoch,
            start_offset=wanted.start_offset,
            now_ms=now_ms,
        )
        return self._append(ShareSnapshotRecord(key, initial), SUCCESS)

    def read(self, key: SharePartitionKey, leader_epoch: int, now_ms: int) -> CoordinatorResult[SharePartitionState]:
        """Return the state to a leader. The epoch of a new one is stored first, so that earlier ones are refused."""
        known = self._initialized(key, leader_epoch=leader_epoch)
        if isinstance(known, StateOutcome):
            return self._answer(key, SharePartitionState.failed(known))
        offset = known.offset
        state = SharePartitionState(*SUCCESS, offset.state_epoch, offset.start_offset, offset.state_batches.batches)
        if leader_epoch in (NO_EPOCH, known.highest_leader_epoch):
            return self._answer(key, state)
        write = StateWrite(NO_EPOCH, leader_epoch, offset.start_offset, offset.delivery_complete_count, ())
        return self._append(self._record_of(key, known, write, leader_epoch, now_ms), state)

    def write(self, key: SharePartitionKey, write: StateWrite, now_ms: int) -> CoordinatorResult[StateOutcome]:
        known = self._initialized(key, leader_epoch=write.leader_epoch, state_epoch=write.state_epoch)
        if isinstance(known, StateOutcome):
            return self._answer(key, known)
        if any(batch.first_offset > batch.last_offset for batch in write.batches):
            return self._answer(key, StateOutcome(ErrorCode.INVALID_REQUEST, "A state batch ends before it begins."))
        return self._append(self._record_of(key, known, write, known.offset.leader_epoch, now_ms), SUCCESS)

    def delete(self, key: SharePartitionKey) -> CoordinatorResult[StateOutcome]:
        """Remove the state. Success also without one."""
        known = self._current(key)
        refusal = self._refusal(key, known)
        if refusal is not None or known is None:
            return self._answer(key, refusal or SUCCESS)
        return self._append(ShareSnapshotRecord(key, None), SUCCESS)

    def read_summary(self, key: SharePartitionKey) -> CoordinatorResult[SharePartitionSummary]:
        known = self._current(key)
        refusal = self._refusal(key, known)
        if refusal is not None:
            return self._answer(key, SharePartitionSummary.failed(refusal))
        if known is None:
            return self._answer(key, SharePartitionSummary.uninitialized())
        offset = known.offset
        return self._answer(
            key,
            SharePartitionSummary(
                *SUCCESS,
                offset.state_epoch,
                offset.leader_epoch,
                offset.start_offset,
                offset.delivery_complete_count,
            ),
        )

    def _initialized(
        self, key: SharePartitionKey, *, leader_epoch: int, state_epoch: int = NO_EPOCH
    ) -> SharePartition | StateOutcome:
        """Return the state for a leader's request, or why the request is refused."""
        if key.partition < 0:
            return _NEGATIVE
        known = self._current(key)
        if known is None:
            return StateOutcome(ErrorCode.INVALID_REQUEST, f"Share-partition {key.coordinator_key} is not initialized.")
        return self._refusal(key, known, leader_epoch=leader_epoch, state_epoch=state_epoch) or known

    def _refusal(
        self,
        key: SharePartitionKey,
        known: SharePartition | None,
        *,
        leader_epoch: int = NO_EPOCH,
        state_epoch: int = NO_EPOCH,
    ) -> StateOutcome | None:
        """Return why a request is refused, by the first of Kafka's checks that fails."""
        if key.partition < 0:
            return _NEGATIVE
        if known is not None and NO_EPOCH != leader_epoch < known.highest_leader_epoch:
            return StateOutcome(
                ErrorCode.FENCED_LEADER_EPOCH,
                f"Leader epoch {leader_epoch} is older than {known.highest_leader_epoch}, which is stored.",
            )
        if known is not None and NO_EPOCH != state_epoch < known.highest_state_epoch:
            return StateOutcome(
                ErrorCode.FENCED_STATE_EPOCH,
                f"State epoch {state_epoch} is older than {known.highest_state_epoch}, which is stored.",
            )
        partition_count = self._partition_count(key.topic_id)
        if partition_count is None or key.partition >= partition_count:
            return StateOutcome(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                f"Partition {key.partition} of topic {key.topic_id} does not exist.",
            )
        return None

    def _record_of(
        self, key: SharePartitionKey, known: SharePartition, write: StateWrite, leader_epoch: int, now_ms: int
    ) -> _Record:
        offset = known.offset
        is_snapshot = known.update_count >= self._config.share_coordinator_snapshot_update_records_per_snapshot
        update = ShareUpdate(
            offset.snapshot_epoch,
            leader_epoch,
            write.start_offset,
            write.delivery_complete_count,
            CombinedBatches(write.batches, is_joined=False)
            if is_snapshot
            else combine(NO_BATCHES, write.batches, write.start_offset),
        )
        if is_snapshot:
            return ShareSnapshotRecord(key, offset.with_update(update).following_snapshot(now_ms))
        return ShareUpdateRecord(key, update)

    # -- work for all share-partitions

    def delete_topics(self, topic_ids: Iterable[Uuid], now_ms: int) -> None:
        """Remove the state of deleted topics, in steps."""
        for topic_id in topic_ids:
            self._deleted.extend(self._keys_by_topic.get(topic_id, ()))
        if self._deleted:
            self.timers.schedule(self._deletion_timer, now_ms)

    def _delete_next(self, now_ms: int) -> CoordinatorResult[None]:
        keys = [self._deleted.popleft() for _ in range(min(len(self._deleted), _KEYS_PER_STEP))]
        if self._deleted:
            self.timers.schedule(self._deletion_timer, now_ms + 1)
        result = self._append_all([ShareSnapshotRecord(key, None) for key in keys if self._current(key) is not None])

        def failed(code: ErrorCode, at_ms: int) -> None:
            self._given_up(result.records, code)
            if code is not ErrorCode.REQUEST_TIMED_OUT:
                self._deleted.extend(keys)
                self.timers.schedule(self._deletion_timer, at_ms + _RETRY_MS)

        result.on_error = failed
        return result

    def _snapshot_cold_partitions(self, now_ms: int) -> CoordinatorResult[None]:
        """Repeat the state of share-partitions that are not written, so that the log can be pruned beyond them.

        As in Kafka, nothing is repeated if nothing was written since the last time.
        """
        interval_ms = self._config.share_coordinator_cold_partition_snapshot_interval_ms
        if not self._cold_walk and self._fresh_count:
            self._cold_walk.extend(self._committed)
        records: list[_Record] = []
        batch_count = 0
        for _ in range(min(len(self._cold_walk), _KEYS_PER_STEP)):
            if batch_count >= _STATE_BATCHES_PER_STEP:
                break
            key = self._cold_walk.popleft()
            known = self._current(key)
            if known is not None and now_ms - known.offset.write_timestamp_ms >= interval_ms:
                records.append(ShareSnapshotRecord(key, known.offset.repeated(now_ms)))
                batch_count += len(known.offset.state_batches.batches)
        self.timers.schedule(self._cold_timer, now_ms + (1 if self._cold_walk else interval_ms))
        return self._append_all(records)

    def _prune(self, now_ms: int) -> CoordinatorResult[None]:
        interval_ms = self._config.share_coordinator_state_topic_prune_interval_ms
        self.timers.schedule(self._prune_timer, now_ms + interval_ms)
        offset = self._redundant.first_needed
        if offset is not None and offset != self.pruned_before and self._delete_records(offset):
            self.pruned_before = offset
        return CoordinatorResult()

    # -- pieces

    def _current(self, key: SharePartitionKey) -> SharePartition | None:
        """Return the state after all appended records."""
        decided = self._decided.get(key)
        return decided[-1][1] if decided else self._committed.get(key)

    def _answer(self, key: SharePartitionKey, response: R) -> CoordinatorResult[R]:
        """Answer without a record, but not before what the answer is based on is committed."""
        return CoordinatorResult(response=response, waits_for_writes=key in self._decided)

    def _append(self, record: _Record, response: R) -> CoordinatorResult[R]:
        return self._append_all([record]).with_response(response)

    def _append_all(self, records: list[_Record]) -> CoordinatorResult[None]:
        for record in records:
            key = record.key
            following = self._applied(self._current(key), record)
            self._decided.setdefault(key, deque()).append((record, following))
            self._keys_by_topic.setdefault(key.topic_id, set()).add(key)
        appended: list[CoordinatorRecord] = list(records)
        return CoordinatorResult(appended, on_error=lambda code, _: self._given_up(appended, code))

    def _given_up(self, records: Iterable[CoordinatorRecord], code: ErrorCode) -> None:
        """Forget decisions whose records were not appended. After a time-out they are, and may yet be committed."""
        if code is ErrorCode.REQUEST_TIMED_OUT:
            return
        for record in records:
            if isinstance(record, ShareSnapshotRecord | ShareUpdateRecord):
                decided = self._decided[record.key]
                decided.pop()
                if not decided:
                    del self._decided[record.key]
                if record.key not in self._committed and not decided:
                    self._forget_key(record.key)
