"""Runs shards on their partitions: loading, writes that are not committed yet, deadlines.

One rule applies to every write: decide, append, wait for the high watermark, replay, answer. So state never contains
changes that could still be lost, and a shard that reads its log again reaches the same state. Decisions that build on
each other in rapid succession, and records of state that is only changed by such (``is_ahead`` of both), are replayed
when they are appended, and answered when they are committed: their state is lost only together with the shard.

A shard whose partition is not (or no longer) led here answers NOT_COORDINATOR, one that is still loading
COORDINATOR_LOAD_IN_PROGRESS.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Enum
from operator import itemgetter
from typing import Any, Generic, Protocol, TypeVar, cast

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.coordinator_batch import coordinator_batch, parts_of
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult, TimerAction
from barnabas.coordinator.deferred import Deferred
from barnabas.coordinator.pending_write import PendingWrite, ignore, log_failure
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.coordinator.shared_append import SharedAppend, SharedWrite, Sharing
from barnabas.coordinator.timer_queue import TimerQueue
from barnabas.coordinator.transaction_marker import TransactionMarker
from barnabas.protocol.compression import Compression
from barnabas.protocol.end_transaction_batch import end_transaction_batch
from barnabas.protocol.record_batch import NO_PRODUCER_ID

__all__ = ["CoordinatorRuntime", "CoordinatorShard", "PartitionWriter", "ShardState"]

log = logging.getLogger(__name__)


class PartitionWriter(Protocol):
    """The coordinator's own topic, as written by its leader."""

    def append(self, partition: int, batch: bytes) -> int:
        """Append one batch and return its first offset; raises ApiException if the log refuses it.

        The high watermark may move before this returns: ``on_high_watermark`` may be called from inside.
        """
        ...


class CoordinatorShard(Protocol):
    """The port to the coordinator of one partition."""

    @property
    def timers(self) -> TimerQueue[TimerAction]: ...

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None: ...

    def replay(self, record: CoordinatorRecord, record_offset: int, producer_id: int, now_ms: int) -> None: ...

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool, now_ms: int) -> None: ...

    def on_loaded(self, now_ms: int) -> list[CoordinatorResult[None]]: ...

    def on_unloaded(self, now_ms: int) -> None: ...


S = TypeVar("S", bound=CoordinatorShard)
T = TypeVar("T")


class ShardState(Enum):
    LOADING = "loading"
    ACTIVE = "active"
    FAILED = "failed"


class _Context(Generic[S]):
    """One partition: its shard, and the writes that wait for the high watermark."""

    __slots__ = (
        "ahead_offset",
        "high_watermark",
        "is_completing",
        "leader_epoch",
        "partition",
        "pending",
        "shard",
        "shared",
        "sharing",
        "state",
    )

    def __init__(self, partition: int, leader_epoch: int, shard: S) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.shard = shard
        self.state = ShardState.LOADING
        self.pending: deque[PendingWrite] = deque()
        self.high_watermark = -1
        self.ahead_offset = -1
        """The offset after the last record that was replayed before its commit."""
        self.is_completing = False
        self.sharing = Sharing()
        self.shared: SharedAppend | None = None
        """Writes of this turn that are appended together, at its end or before anything else is decided."""


class CoordinatorRuntime(Generic[S]):
    def __init__(
        self,
        *,
        writer: PartitionWriter,
        new_shard: Callable[[int, int], S],
        compression: Compression = Compression.NONE,
        commit_timeout_ms: int = 5_000,
    ) -> None:
        """``new_shard`` receives the partition and its leader epoch. ``commit_timeout_ms``: how long a write may wait
        for the high watermark before its caller receives an error.
        """
        self._writer = writer
        self._commit_timeout_ms = commit_timeout_ms
        self._new_shard = new_shard
        self._compression = compression
        self._contexts: dict[int, _Context[S]] = {}
        self._sharing: list[_Context[S]] = []
        """Partitions that have had writes to append together since the last ``append_shared``."""
        self.append_soon: Callable[[], None] | None = None
        """Lets ``append_shared`` be called at the end of the turn; None if every write is appended at once."""
        self._next_deadline_ms: int | None = None
        self.failed_deadline_count = 0
        """The number of deadlines whose action raised: each is a bug that only delayed the action."""

    # -- partitions that are led here

    def start_loading(self, partition: int, leader_epoch: int, now_ms: int) -> S | None:
        """Begin to lead the partition: return a shard to load, or None if this epoch or a later one is known.

        A new epoch loads the shard again even here: between two epochs another leader may have written.
        """
        known = self._contexts.get(partition)
        if known is not None:
            if known.leader_epoch >= leader_epoch and known.state is not ShardState.FAILED:
                return None
            self.unload(partition, now_ms)
        context = _Context(partition, leader_epoch, self._new_shard(partition, leader_epoch))
        context.shard.timers.on_earlier = self._note_deadline
        self._contexts[partition] = context
        return context.shard

    def is_loading_into(self, partition: int, shard: S) -> bool:
        """Return whether the partition is still led here, in the epoch of the shard."""
        context = self._contexts.get(partition)
        return context is not None and context.shard is shard and context.state is ShardState.LOADING

    def finish_loading(self, partition: int, shard: S, high_watermark: int, now_ms: int) -> bool:
        """Complete the load after all of the log was replayed; return False if the partition is no longer led here."""
        context = self._contexts.get(partition)
        if context is None or context.shard is not shard or context.state is not ShardState.LOADING:
            return False
        context.state = ShardState.ACTIVE
        context.high_watermark = max(context.high_watermark, high_watermark)
        for result in shard.on_loaded(now_ms):
            self._append(context, result, now_ms, ignore, log_failure)
        return True

    def fail_loading(self, partition: int, shard: S) -> None:
        """Record that the log could not be read: the partition has no coordinator here until its next leadership."""
        context = self._contexts.get(partition)
        if context is not None and context.shard is shard:
            context.state = ShardState.FAILED

    def unload(self, partition: int, now_ms: int, leader_epoch: int | None = None) -> None:
        """Stop: another node leads the partition, or it was deleted. Waiting callers must find the new coordinator."""
        context = self._contexts.get(partition)
        if context is None or (leader_epoch is not None and leader_epoch < context.leader_epoch):
            return
        del self._contexts[partition]
        shared, context.shared = context.shared, None
        for pending in context.pending:
            pending.fail(ErrorCode.NOT_COORDINATOR)
        context.pending.clear()
        if shared is not None:
            shared.fail(ErrorCode.NOT_COORDINATOR)
        context.shard.on_unloaded(now_ms)

    def active_shards(self) -> Iterator[tuple[int, S]]:
        for partition, context in self._contexts.items():
            if context.state is ShardState.ACTIVE:
                yield partition, context.shard

    def partition_counts(self) -> dict[ShardState, int]:
        """Return how many partitions are in which state. May be called from another thread."""
        counts = dict.fromkeys(ShardState, 0)
        for context in list(self._contexts.values()):
            counts[context.state] += 1
        return counts

    def is_loading(self) -> bool:
        return any(context.state is ShardState.LOADING for context in self._contexts.values())

    # -- reading

    def shard(self, partition: int) -> S:
        """Return the loaded shard; raises ApiException if it is not loaded."""
        return self._settled(partition).shard

    def _settled(self, partition: int) -> _Context[S]:
        """Return the partition with all of its writes appended."""
        context = self._active(partition)
        if context.shared is None:
            return context
        self._append_shared(context)
        return self._active(partition)  # A failed append may have ended the leadership.

    def _active(self, partition: int) -> _Context[S]:
        context = self._contexts.get(partition)
        if context is None or context.state is ShardState.FAILED:
            raise ApiException(ErrorCode.NOT_COORDINATOR)
        if context.state is ShardState.LOADING:
            raise ApiException(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return context

    # -- writing

    def write(
        self,
        partition: int,
        decide: Callable[[S], CoordinatorResult[T]],
        *,
        now_ms: int,
        answer: Deferred[T],
        on_failure: Callable[[ErrorCode], T],
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        """Decide, append, and complete ``answer`` once the records are committed.

        If the decision has no response, ``answer`` is parked in the shard, which completes it. With ``producer`` the
        records take effect with the marker of its transaction.
        """

        def fail(code: ErrorCode) -> None:
            if not answer.is_complete:
                answer.complete(on_failure(code))

        try:
            context = self._settled(partition)
            result = decide(context.shard)
        except ApiException as error:
            fail(error.code)
            return

        def give_answer() -> None:
            if result.response is not None:
                answer.complete(result.response)

        self._append(context, result, now_ms, give_answer, fail, producer)

    def write_together(
        self,
        partition: int,
        decide: Callable[[S], CoordinatorResult[T]],
        *,
        now_ms: int,
        answer: Deferred[T],
        on_failure: Callable[[ErrorCode], T],
    ) -> None:
        """Do the same with records on which no decision of this kind builds, such as committed offsets.

        Those of one turn of the event loop are appended together, unless each of the last ones was alone in its turn.
        All other decisions come after their append.
        """
        if self.append_soon is None:
            self.write(partition, decide, now_ms=now_ms, answer=answer, on_failure=on_failure)
            return
        try:
            context = self._active(partition)
            result = decide(context.shard)
        except ApiException as error:
            answer.complete(on_failure(error.code))
            return
        if not result.records:
            answer.complete(cast(T, result.response))
            return
        write, shared = SharedWrite(result, answer, on_failure), context.shared
        if shared is None:
            if context.sharing.is_alone():
                self._append(context, result, now_ms, write.give_answer, write.fail)
                return
            shared = context.shared = SharedAppend(now_ms)
            if not self._sharing:
                self.append_soon()
            self._sharing.append(context)
        shared.add(write)
        if shared.is_full:
            self._append_shared(context)

    def append_shared(self) -> None:
        """Append what ``write_together`` has collected."""
        sharing, self._sharing = self._sharing, []
        for context in sharing:
            if context.shared is not None:
                self._append_shared(context)

    def _append_shared(self, context: _Context[S]) -> None:
        shared, context.shared = context.shared, None
        if shared is None:
            return
        context.sharing.appended(len(shared.writes))

        def failed(code: ErrorCode) -> None:
            if not shared.may_fit_alone(code):
                shared.fail(code)
                return
            for write in shared.writes:
                self._append(context, write.result, shared.now_ms, write.give_answer, write.fail)

        self._append(context, CoordinatorResult(shared.records), shared.now_ms, shared.give_answers, failed)

    def end_transaction(
        self, partition: int, marker: TransactionMarker, *, now_ms: int, answer: Deferred[ErrorCode]
    ) -> None:
        """Append the marker that ends a transaction, and complete ``answer`` once it is committed and applied."""

        def fail(code: ErrorCode) -> None:
            if not answer.is_complete:
                answer.complete(code)

        try:
            context = self._settled(partition)
            batch = end_transaction_batch(
                marker.producer_id,
                marker.producer_epoch,
                is_commit=marker.is_commit,
                coordinator_epoch=marker.coordinator_epoch,
                timestamp_ms=now_ms,
            )
            offset = self._writer.append(partition, batch)
        except ApiException as error:
            fail(error.code)
            return
        deadline_ms = now_ms + self._commit_timeout_ms
        pending = PendingWrite(offset, offset + 1, [], deadline_ms, marker=marker)
        pending.answer, pending.fail = lambda: answer.complete(ErrorCode.NONE), fail
        context.pending.append(pending)
        self._complete_committed(context, now_ms)
        if context.pending:
            self._note_deadline(deadline_ms)

    def write_quietly(self, partition: int, decide: Callable[[S], CoordinatorResult[Any]], *, now_ms: int) -> None:
        """Perform a write of the coordinator's own, for which no caller waits."""
        try:
            context = self._settled(partition)
            self._append(context, decide(context.shard), now_ms, ignore, log_failure)
        except ApiException as error:
            log_failure(error.code)

    def on_high_watermark(self, partition: int, high_watermark: int, now_ms: int) -> None:
        context = self._contexts.get(partition)
        if context is None or high_watermark <= context.high_watermark:
            return
        context.high_watermark = high_watermark
        self._complete_committed(context, now_ms)

    def _append(
        self,
        context: _Context[S],
        result: CoordinatorResult[Any],
        now_ms: int,
        answer: Callable[[], None],
        fail: Callable[[ErrorCode], None],
        producer: ProducerIdAndEpoch | None = None,
    ) -> None:
        records = result.records
        has_earlier = (result.is_ahead and context.ahead_offset > context.high_watermark) or (
            result.waits_for_writes and context.pending
        )
        if not records and has_earlier:
            self._wait_for_earlier(context, result, now_ms, answer, fail)
            return
        if not records:
            self._follow_up(context, result.on_commit(now_ms) if result.on_commit else None, now_ms)
            answer()
            return
        was_completing, context.is_completing = context.is_completing, True
        try:
            for part in parts_of(records, is_atomic=result.is_atomic):
                self._append_part(context, result, part, now_ms, producer)
        except ApiException as error:
            log.warning("Could not append %d records to partition %d: %s", len(records), context.partition, error)
            if result.on_error is not None:
                self._follow_up(context, result.on_error(error.code, now_ms), now_ms)
            fail(error.code)
        else:
            context.pending[-1].then(result, answer, fail)
            if result.on_append is not None:
                self._follow_up(context, result.on_append(now_ms), now_ms)
        finally:
            context.is_completing = was_completing
        self._complete_committed(context, now_ms)
        if context.pending:
            self._note_deadline(now_ms + self._commit_timeout_ms)

    def _append_part(
        self,
        context: _Context[S],
        result: CoordinatorResult[Any],
        records: list[CoordinatorRecord],
        now_ms: int,
        producer: ProducerIdAndEpoch | None,
    ) -> None:
        """Append one batch, and replay what does not wait for its commit. No earlier write is completed in between."""
        batch = coordinator_batch(records, self._compression, now_ms, producer)
        base_offset = self._writer.append(context.partition, batch)
        producer_id = NO_PRODUCER_ID if producer is None else producer.producer_id
        next_offset = base_offset
        for record in records:
            if result.is_ahead or record.is_ahead:
                context.shard.replay(record, next_offset, producer_id, now_ms)
                context.ahead_offset = next_offset + record.count
            next_offset += record.count
        late = [] if result.is_ahead else records
        deadline_ms = now_ms + self._commit_timeout_ms
        context.pending.append(PendingWrite(base_offset, next_offset, late, deadline_ms, producer_id=producer_id))

    def _wait_for_earlier(
        self,
        context: _Context[S],
        result: CoordinatorResult[Any],
        now_ms: int,
        answer: Callable[[], None],
        fail: Callable[[ErrorCode], None],
    ) -> None:
        """Answer a decision without records when what it builds on is committed."""
        end = context.pending[-1].next_offset
        write = PendingWrite(end, end, [], now_ms + self._commit_timeout_ms)
        write.then(result, answer, fail)
        context.pending.append(write)

    def _replay_committed(self, context: _Context[S], write: PendingWrite, now_ms: int) -> None:
        offset = write.base_offset
        for record in write.records:
            if not record.is_ahead:
                context.shard.replay(record, offset, write.producer_id, now_ms)
            offset += record.count

    def _complete_committed(self, context: _Context[S], now_ms: int) -> None:
        """Replay and answer writes below the high watermark, in order. Answering may write again: calls do not nest."""
        if context.is_completing:
            return
        context.is_completing = True
        try:
            pending = context.pending
            while pending and pending[0].next_offset <= context.high_watermark:
                write = pending.popleft()
                self._replay_committed(context, write, now_ms)
                if write.marker is not None:
                    marker = write.marker
                    context.shard.replay_end_transaction_marker(
                        marker.producer_id, committed=marker.is_commit, now_ms=now_ms
                    )
                if write.on_commit is not None:
                    self._follow_up(context, write.on_commit(now_ms), now_ms)
                write.answer()
        finally:
            context.is_completing = False

    def _follow_up(self, context: _Context[S], result: CoordinatorResult[None] | None, now_ms: int) -> None:
        if result is not None and (result.records or result.on_commit is not None):
            self._append(context, result, now_ms, ignore, log_failure)

    # -- time

    def next_deadline_ms(self) -> int | None:
        """The latest time for ``tick``; None without deadlines. Cheap to read."""
        return self._next_deadline_ms

    def _note_deadline(self, deadline_ms: int) -> None:
        if self._next_deadline_ms is None or deadline_ms < self._next_deadline_ms:
            self._next_deadline_ms = deadline_ms

    def tick(self, now_ms: int, *, is_over: Callable[[], bool] | None = None) -> None:
        """Let the shards act on their deadlines. An error of one is logged and does not prevent the others.

        ``is_over`` is asked after each action: True leaves the others to the next tick, which is due at once.
        """
        for _ in self._actions(now_ms):
            if is_over is not None and is_over():
                break
        self._next_deadline_ms = min(self._deadlines(), default=None)

    def _actions(self, now_ms: int) -> Iterator[None]:
        """Act on the deadlines that have passed, one of each shard in turn; yield after each action."""
        late = [context for context in self._contexts.values() if context.state is ShardState.ACTIVE]
        for context in late:
            yield from self._give_up_late(context, now_ms)
        while late := _by_deadline(late, now_ms):
            for context in late:
                if self._act(context, now_ms):
                    yield

    def _act(self, context: _Context[S], now_ms: int) -> bool:
        """Act on the next deadline of a shard; return False if none has passed."""
        timer = context.shard.timers.pop_due(now_ms)
        if timer is None:
            return False
        self._append_shared(context)
        try:
            self._append(context, timer.action(now_ms), now_ms, ignore, log_failure)
        except Exception:
            self.failed_deadline_count += 1
            log.exception("A deadline of coordinator partition %d failed", context.partition)
        return True

    def _give_up_late(self, context: _Context[S], now_ms: int) -> Iterator[None]:
        """Answer callers that have waited too long for the high watermark. Their records stay, and may yet be
        committed."""
        for write in list(context.pending):
            if write.deadline_ms is None:
                continue
            if write.deadline_ms > now_ms:
                break
            on_error, fail = write.on_error, write.fail
            write.give_up()
            if on_error is not None:
                self._follow_up(context, on_error(ErrorCode.REQUEST_TIMED_OUT, now_ms), now_ms)
            fail(ErrorCode.REQUEST_TIMED_OUT)
            yield

    def _deadlines(self) -> Iterator[int]:
        for context in self._contexts.values():
            if context.state is ShardState.ACTIVE:
                deadline = context.shard.timers.next_deadline_ms()
                if deadline is not None:
                    yield deadline
                waiting = next((batch.deadline_ms for batch in context.pending if batch.deadline_ms is not None), None)
                if waiting is not None:
                    yield waiting


def _by_deadline(contexts: Iterable[_Context[S]], now_ms: int) -> list[_Context[S]]:
    """Return the shards with a deadline that has passed, that with the earliest first."""
    deadlines = ((context, context.shard.timers.next_deadline_ms()) for context in contexts)
    late = [(context, deadline) for context, deadline in deadlines if deadline is not None and deadline <= now_ms]
    return [context for context, _ in sorted(late, key=itemgetter(1))]
