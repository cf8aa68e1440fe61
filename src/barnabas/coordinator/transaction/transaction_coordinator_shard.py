"""The transactional ids of one partition of ``__transaction_state``, their transactions and their timers.

A change of an id that is not committed yet blocks every other change of it (CONCURRENT_TRANSACTIONS). A prepared
transaction is completed when its markers are in all its partitions. The markers follow from the state alone, so a new
coordinator that loads a prepared transaction writes them again; partitions ignore those that they have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import NamedTuple

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.coordinator_result import CoordinatorRecord, CoordinatorResult, TimerAction
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.coordinator.timer_queue import Timer, TimerQueue
from barnabas.coordinator.transaction.transaction_coordinator_config import TransactionCoordinatorConfig
from barnabas.coordinator.transaction.transaction_end import decide_end
from barnabas.coordinator.transaction.transaction_metadata import (
    LAST_EPOCH,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    TRANSACTIONS_V2,
    TransactionMetadata,
    TransactionState,
)
from barnabas.coordinator.transaction.transaction_records import TransactionRecord, decode_record

__all__ = ["ProducerResult", "TransactionCoordinatorShard"]

_COMPLETION_RETRY_MS = 500
_FLEXIBLE_SINCE = 1
"""The transaction.version from which records have tagged fields."""


class ProducerResult(NamedTuple):
    """The id and epoch that a producer has from now on, or an error."""

    error_code: ErrorCode
    producer_id: int = NO_PRODUCER_ID
    epoch: int = NO_PRODUCER_EPOCH


class TransactionCoordinatorShard:
    def __init__(
        self,
        config: TransactionCoordinatorConfig,
        *,
        leader_epoch: int,
        take_producer_id: Callable[[], int | None],
        transaction_version: Callable[[], int],
        on_prepared: Callable[[TransactionCoordinatorShard, TransactionMetadata], None],
        on_settled: Callable[[str], None],
    ) -> None:
        """``take_producer_id``: a new id, None while there is none. ``transaction_version``: the level of the
        cluster's feature. ``on_prepared`` receives each transaction whose markers are to be written, ``on_settled``
        each transactional id whose change is committed, unless its markers follow.
        """
        self.leader_epoch = leader_epoch
        """The coordinator's epoch: partitions refuse markers of an earlier one."""
        self._config = config
        self._take_producer_id = take_producer_id
        self._transaction_version = transaction_version
        self._on_prepared = on_prepared
        self._on_settled = on_settled
        self._ids: dict[str, TransactionMetadata] = {}
        self._under_way: dict[str, TransactionMetadata | None] = {}
        """The next state of each id whose change is not committed yet."""
        self._is_loaded = False
        self.timers: TimerQueue[TimerAction] = TimerQueue()
        self._timeouts: dict[str, Timer[TimerAction]] = {}
        """The timer of each open transaction, and of each one whose completion must be written again."""
        self._expiry_timer: Timer[TimerAction] = Timer(self._expire_and_reschedule)

    # -- replay

    def decode(self, key: bytes, value: bytes | None) -> CoordinatorRecord | None:
        return decode_record(key, value)

    def replay(self, record: CoordinatorRecord, record_offset: int, producer_id: int, now_ms: int) -> None:
        if not isinstance(record, TransactionRecord):
            return
        found, transactional_id = record.metadata, record.transactional_id
        self._under_way.pop(transactional_id, None)
        if found is None or found.state is TransactionState.DEAD:
            self._ids.pop(transactional_id, None)
        else:
            self._ids[transactional_id] = found
        if self._is_loaded:
            self._follow(transactional_id, now_ms)

    def replay_end_transaction_marker(self, producer_id: int, *, committed: bool, now_ms: int) -> None:
        """Nothing: this log is not written in transactions."""

    def on_loaded(self, now_ms: int) -> list[CoordinatorResult[None]]:
        self._is_loaded = True
        interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        self.timers.schedule(self._expiry_timer, now_ms + interval_ms)
        for transactional_id in list(self._ids):
            self._follow(transactional_id, now_ms)
        return []

    def on_unloaded(self, now_ms: int) -> None:
        self._is_loaded = False
        self._expiry_timer.cancel()
        for timer in self._timeouts.values():
            timer.cancel()
        self._timeouts.clear()

    def _follow(self, transactional_id: str, now_ms: int) -> None:
        """Start what the state of an id asks for: its time-out, or its markers."""
        found = self._ids.get(transactional_id)
        timer = self._timeouts.get(transactional_id)
        if found is not None and found.state is TransactionState.ONGOING:
            if timer is None:
                timer = Timer(lambda at_ms: self._time_out(transactional_id, at_ms))
                self._timeouts[transactional_id] = timer
            self.timers.schedule(timer, found.start_ms + found.timeout_ms)
        elif timer is not None:
            timer.cancel()
            del self._timeouts[transactional_id]
        if found is not None and found.state.is_prepared:
            self._on_prepared(self, found)
        else:
            self._on_settled(transactional_id)

    # -- reading

    def find(self, transactional_id: str) -> TransactionMetadata | None:
        return self._ids.get(transactional_id)

    def all(self) -> Iterator[TransactionMetadata]:
        return iter(self._ids.values())

    def is_present(self, prepared: TransactionMetadata) -> bool:
        """Return whether the id is still in this state, so that its markers must be written."""
        return self._is_loaded and self._ids.get(prepared.transactional_id) == prepared

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, ErrorCode]:
        """Return for each partition whether it belongs to the producer's open transaction. Raise ApiException."""
        found = self._of_producer(transactional_id, producer)
        return {
            partition: ErrorCode.NONE if partition in found.partitions else ErrorCode.TRANSACTION_ABORTABLE
            for partition in partitions
        }

    # -- producers

    def init_producer(
        self, transactional_id: str, timeout_ms: int, expected: ProducerIdAndEpoch | None, now_ms: int
    ) -> CoordinatorResult[ProducerResult]:
        """Give a producer its id and epoch, which fence the producers before it. An open transaction is aborted first:
        the client repeats its request after CONCURRENT_TRANSACTIONS.

        ``expected``: what the client has, to continue after an error (KIP-360). Raise ApiException.
        """
        self._require_settled(transactional_id)
        found = self._ids.get(transactional_id)
        if found is None:
            created = TransactionMetadata(
                transactional_id, self._new_producer_id(), 0, timeout_ms, last_update_ms=now_ms
            )
            return self._change(created)
        if found.state.is_prepared:
            raise ApiException(ErrorCode.CONCURRENT_TRANSACTIONS)
        if expected is not None and not _may_continue(found, expected):
            raise ApiException(ErrorCode.PRODUCER_FENCED)
        if found.state is TransactionState.ONGOING:
            return self._fence(found, now_ms).with_response(ProducerResult(ErrorCode.CONCURRENT_TRANSACTIONS))
        is_last = expected is None or expected.epoch == found.producer_epoch
        if found.is_epoch_exhausted and is_last:
            rotated = found.with_new_producer_id(
                self._new_producer_id(), timeout_ms, now_ms, keeps_last_epoch=expected is not None
            )
            return self._change(rotated)
        following = found.with_next_epoch(timeout_ms, None if expected is None else expected.epoch, now_ms)
        if following is None:
            raise ApiException(ErrorCode.PRODUCER_FENCED)
        return self._change(following)

    # -- transactions

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: frozenset[TopicPartition],
        now_ms: int,
        *,
        client_version: int,
    ) -> CoordinatorResult[ProducerResult]:
        """Add partitions to the producer's transaction, which begins with the first of them. Raise ApiException."""
        known = self._ids.get(transactional_id)
        if known is not None and known.state.is_prepared:
            raise ApiException(ErrorCode.CONCURRENT_TRANSACTIONS)  # The producer may have the id that it has next.
        found = self._of_producer(transactional_id, producer)
        if found.state is TransactionState.ONGOING and partitions <= found.partitions:
            return CoordinatorResult(response=ProducerResult(ErrorCode.NONE, *producer))
        return self._change(found.with_partitions(partitions, now_ms, client_version=client_version))

    def end(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        now_ms: int,
        *,
        is_commit: bool,
        client_version: int,
    ) -> CoordinatorResult[ProducerResult]:
        """Decide the outcome of a transaction. The answer does not wait for its markers; its id and epoch are those of
        the producer's next transaction. Raise ApiException.
        """
        self._require_settled(transactional_id)
        found = self._ids.get(transactional_id)
        if found is None:
            raise ApiException(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        decision = decide_end(found, *producer, is_commit=is_commit, client_version=client_version)
        if decision is ErrorCode.NONE:
            return CoordinatorResult(response=_result(found))
        if decision is not None:
            raise ApiException(decision)
        is_used_up = client_version >= TRANSACTIONS_V2 and found.is_epoch_exhausted
        next_producer_id = self._new_producer_id() if is_used_up else NO_PRODUCER_ID
        prepared = found.prepared(
            is_commit=is_commit, client_version=client_version, now_ms=now_ms, next_producer_id=next_producer_id
        )
        return self._change(prepared).with_response(_result(prepared.completed(now_ms)))

    def complete(self, prepared: TransactionMetadata, now_ms: int) -> CoordinatorResult[None]:
        """End a transaction whose markers are all written. Nothing happens if it is not in that state any more.

        It is tried again if it cannot be written: nothing else ends a prepared transaction.
        """
        if not self.is_present(prepared) or prepared.transactional_id in self._under_way:
            return CoordinatorResult()
        result = self._change(prepared.completed(now_ms))

        def failed(code: ErrorCode, at_ms: int) -> None:
            if result.on_error is not None:
                result.on_error(code, at_ms)
            if self._is_loaded and self.is_present(prepared):
                timer = self._timeouts[prepared.transactional_id] = Timer(partial(self.complete, prepared))
                self.timers.schedule(timer, at_ms + _COMPLETION_RETRY_MS)

        return CoordinatorResult(result.records, on_error=failed)

    # -- time

    def _time_out(self, transactional_id: str, now_ms: int) -> CoordinatorResult[None]:
        """Abort a transaction that is open for too long, and fence its producer."""
        found = self._ids.get(transactional_id)
        if found is None or found.state is not TransactionState.ONGOING:
            return CoordinatorResult()
        if transactional_id in self._under_way:
            interval_ms = self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
            self.timers.schedule(self._timeouts[transactional_id], now_ms + interval_ms)
            return CoordinatorResult()
        result = self._fence(found, now_ms)

        def failed(code: ErrorCode, at_ms: int) -> None:
            if result.on_error is not None:
                result.on_error(code, at_ms)
            timer = self._timeouts.get(transactional_id)
            if timer is not None:
                interval_ms = self._config.transaction_abort_timed_out_transaction_cleanup_interval_ms
                self.timers.schedule(timer, at_ms + interval_ms)

        return CoordinatorResult(result.records, on_error=failed)

    def _expire_and_reschedule(self, now_ms: int) -> CoordinatorResult[None]:
        interval_ms = self._config.transaction_remove_expired_transaction_cleanup_interval_ms
        self.timers.schedule(self._expiry_timer, now_ms + interval_ms)
        return self.expire(now_ms)

    def expire(self, now_ms: int) -> CoordinatorResult[None]:
        """Remove ids that no producer has used for long."""
        used_before_ms = now_ms - self._config.transactional_id_expiration_ms
        expired = [
            found.transactional_id
            for found in self._ids.values()
            if found.state.is_at_rest
            and found.last_update_ms <= used_before_ms
            and found.transactional_id not in self._under_way
        ]
        records: list[CoordinatorRecord] = []
        for transactional_id in expired:
            self._under_way[transactional_id] = None
            records.append(TransactionRecord(transactional_id, None))
        return CoordinatorResult(records, on_error=self._given_up(expired), is_atomic=False)

    # -- pieces

    def _require_settled(self, transactional_id: str) -> None:
        if transactional_id in self._under_way:
            raise ApiException(ErrorCode.CONCURRENT_TRANSACTIONS)

    def _of_producer(self, transactional_id: str, producer: ProducerIdAndEpoch) -> TransactionMetadata:
        """Return the state of an id whose present producer asks. Raise ApiException while a transaction ends."""
        found = self._ids.get(transactional_id)
        if found is None:
            raise ApiException(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        # First, because the producer may be in the epoch that is being written.
        self._require_settled(transactional_id)
        if found.producer_id != producer.producer_id:
            raise ApiException(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if found.producer_epoch != producer.epoch:
            raise ApiException(ErrorCode.PRODUCER_FENCED)
        if found.state.is_prepared:
            raise ApiException(ErrorCode.CONCURRENT_TRANSACTIONS)
        return found

    def _new_producer_id(self) -> int:
        taken = self._take_producer_id()
        if taken is None:
            raise ApiException(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, "No producer id is available yet.")
        return taken

    def _change(self, following: TransactionMetadata) -> CoordinatorResult[ProducerResult]:
        """Write the next state of an id."""
        transactional_id = following.transactional_id
        self._under_way[transactional_id] = following
        return CoordinatorResult(
            [TransactionRecord(transactional_id, following, self._transaction_version() >= _FLEXIBLE_SINCE)],
            _result(following),
            on_error=self._given_up([transactional_id]),
        )

    def _fence(self, found: TransactionMetadata, now_ms: int) -> CoordinatorResult[ProducerResult]:
        return self._change(found.fenced(now_ms, transaction_version=self._transaction_version()))

    def _given_up(self, transactional_ids: list[str]) -> Callable[[ErrorCode, int], None]:
        def failed(code: ErrorCode, now_ms: int) -> None:
            # After a time-out the records are in the log and may still be committed: their ids stay blocked until then.
            if code is not ErrorCode.REQUEST_TIMED_OUT:
                for transactional_id in transactional_ids:
                    self._under_way.pop(transactional_id, None)

        return failed


def _result(found: TransactionMetadata) -> ProducerResult:
    return ProducerResult(ErrorCode.NONE, found.producer_id, found.producer_epoch)


def _may_continue(found: TransactionMetadata, expected: ProducerIdAndEpoch) -> bool:
    """Return whether a client with this id and epoch is the present one, or was it before its id was used up."""
    return (
        found.producer_epoch == NO_PRODUCER_EPOCH
        or expected.producer_id == found.producer_id
        or (expected.producer_id == found.previous_producer_id and expected.epoch >= LAST_EPOCH)
    )
