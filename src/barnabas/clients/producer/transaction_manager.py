"""The state of a producer with transactions. Decides which calls are allowed, and what a failure means; sends nothing.

A transaction of version 1 adds each partition with AddPartitionsToTxn before records are sent to it. One of version 2
(KIP-890) needs no such request: Produce and TxnOffsetCommit add their partitions, and each end moves the epoch.

A producer that can't know what a partition has received needs a new epoch, because the partition's sequence numbers
can't be continued (KIP-360). In version 2 the end of the transaction assigns it; in version 1 InitProducerId does,
after the transaction was aborted.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from barnabas.clients.producer.batch import NO_PRODUCER, ProducerId
from barnabas.clients.producer.transaction_errors import (
    FatalTransactionError,
    IllegalTransactionState,
    TransactionAbortable,
    TransactionError,
)
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import invariant

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.common.topic_partition import TopicPartition

__all__ = ["ProducerState", "TransactionManager"]


class ProducerState(Enum):
    """The value completes the sentence "the producer ..."."""

    UNINITIALIZED = "is not initialized"
    READY = "has no open transaction"
    IN_TRANSACTION = "has an open transaction"
    PREPARED = "has a prepared transaction"
    COMMITTING = "has begun to commit"
    ABORTING = "has begun to abort"
    ABORTABLE_ERROR = "must abort its transaction"
    FATAL_ERROR = "can't continue"


_S = ProducerState
_NEXT: dict[ProducerState, frozenset[ProducerState]] = {
    _S.UNINITIALIZED: frozenset({_S.READY, _S.FATAL_ERROR}),
    _S.READY: frozenset({_S.IN_TRANSACTION, _S.FATAL_ERROR}),
    _S.IN_TRANSACTION: frozenset({_S.PREPARED, _S.COMMITTING, _S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.PREPARED: frozenset({_S.COMMITTING, _S.ABORTING, _S.FATAL_ERROR}),
    _S.COMMITTING: frozenset({_S.READY, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.ABORTING: frozenset({_S.READY, _S.FATAL_ERROR}),
    _S.ABORTABLE_ERROR: frozenset({_S.ABORTING, _S.ABORTABLE_ERROR, _S.FATAL_ERROR}),
    _S.FATAL_ERROR: frozenset({_S.FATAL_ERROR}),
}
_MAY_COMMIT = frozenset({_S.IN_TRANSACTION, _S.PREPARED, _S.COMMITTING})
_MAY_ABORT = frozenset({_S.IN_TRANSACTION, _S.PREPARED, _S.ABORTING, _S.ABORTABLE_ERROR})
_ENDING = frozenset({_S.COMMITTING, _S.ABORTING})


class TransactionManager:
    """Methods raise the error of an earlier failure, or IllegalTransactionState for a call that is not allowed."""

    def __init__(self, transactional_id: str) -> None:
        self.transactional_id = transactional_id
        self.state = ProducerState.UNINITIALIZED
        self.producer = NO_PRODUCER
        self.is_version_2 = False
        """Whether the present transaction follows KIP-890."""
        self.error: TransactionError | None = None
        """Why the transaction must be aborted, or the producer must be closed."""
        self.needs_new_epoch = False
        """Whether InitProducerId must follow the end of the transaction."""
        self.is_ended = False
        """Whether the transaction has ended, and only the new epoch is missing."""
        self._is_started = False
        self._may_be_started = False
        self._added: set[TopicPartition] = set()
        self._to_add: set[TopicPartition] = set()

    # --- the life of a transaction

    def validate_init(self) -> None:
        self._raise_fatal()
        if self.state is not _S.UNINITIALIZED:
            raise self._illegal("init_transactions")

    def initialized(self, producer: ProducerId) -> None:
        """Take the id and epoch that the coordinator has assigned."""
        self.producer = producer
        self.needs_new_epoch = self.is_ended = False
        self._move(_S.READY)

    def begin(self, *, is_version_2: bool) -> None:
        self._raise_error()
        if self.state is not _S.READY:
            raise self._illegal("begin")
        self.is_version_2 = is_version_2
        self._move(_S.IN_TRANSACTION)

    def validate_open(self, method: str) -> None:
        """Raise unless the open transaction takes records and offsets."""
        self._raise_error()
        if self.state is not _S.IN_TRANSACTION:
            raise self._illegal(method)

    def prepared(self) -> None:
        """Note that all records are written, and that another process may end the transaction."""
        self.validate_open("prepare")
        self._move(_S.PREPARED)

    def begin_commit(self) -> None:
        self._raise_error()
        if self.state not in _MAY_COMMIT:
            raise self._illegal("commit")
        self._begin_end(_S.COMMITTING)

    def begin_abort(self) -> None:
        self._raise_fatal()
        if self.state not in _MAY_ABORT:
            raise self._illegal("abort")
        self.error = None
        self._to_add.clear()
        self._begin_end(_S.ABORTING)

    @property
    def must_send_end(self) -> bool:
        """Whether the coordinator knows of the transaction, or may know of it."""
        return self._is_started or self._may_be_started

    def is_over(self, error: TransactionError) -> bool:
        """Return whether the coordinator has refused to abort a transaction because it has none."""
        if self.state is not _S.ABORTING:
            return False
        if isinstance(error, TransactionAbortable):
            self.needs_new_epoch = True
            return True
        return error.code is ErrorCode.INVALID_TXN_STATE and not self._is_started

    def ended(self, producer: ProducerId | None, *, is_version_2_next: bool = False) -> None:
        """Note the end of the transaction. ``producer`` is what the coordinator has assigned for the next one.

        The producer is ready, unless it ``needs_new_epoch``: then ``initialized`` makes it ready. A change from version
        1 to version 2 needs one too, because version 2 begins each transaction with a new epoch.
        """
        invariant(self.state in _ENDING, f"a transaction ended, but the producer {self.state.value}")
        if self.is_version_2 and producer is not None:
            self.producer, self.needs_new_epoch = producer, False
        elif is_version_2_next and not self.is_version_2:
            self.needs_new_epoch = True
        self._is_started = self._may_be_started = False
        self._added.clear()
        self._to_add.clear()
        self.is_ended = self.needs_new_epoch
        if not self.needs_new_epoch:
            self._move(_S.READY)

    # --- partitions

    def touch(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that the transaction has records for these partitions."""
        new = set(partitions) - self._added
        if not self.is_version_2:
            self._to_add |= new
        elif new:
            self._added |= new
            self._is_started = True

    @property
    def to_add(self) -> frozenset[TopicPartition]:
        """The partitions that wait for AddPartitionsToTxn."""
        return frozenset(self._to_add) if self.state is _S.IN_TRANSACTION else frozenset()

    def adding(self) -> None:
        """Note that a request that begins the transaction is sent."""
        self._may_be_started = True

    def added(self, partitions: Iterable[TopicPartition] = ()) -> None:
        """Note that the coordinator has added the partitions, or the offsets of a group."""
        self._is_started = True
        self._added.update(partitions)
        self._to_add.difference_update(partitions)

    def may_send(self, partition: TopicPartition) -> bool:
        return self.state is _S.IN_TRANSACTION and partition in self._added

    # --- failures

    def lost_sequence(self) -> None:
        """Note that a batch was given up after it was sent: the sequence of its partition can't be continued."""
        self.needs_new_epoch = True

    def fail(self, error: TransactionError) -> None:
        """Take a failure: abortable, or fatal. While the transaction is being aborted, an abortable one is over."""
        if isinstance(error, FatalTransactionError):
            if self.state is not _S.FATAL_ERROR:
                self.error = error
            self._move(_S.FATAL_ERROR)
        elif _S.ABORTABLE_ERROR in _NEXT[self.state]:
            self.error = self.error or error
            self._move(_S.ABORTABLE_ERROR)

    # --- pieces

    def _begin_end(self, state: ProducerState) -> None:
        if self.state is not state:
            self._move(state)

    def _move(self, state: ProducerState) -> None:
        invariant(state in _NEXT[self.state], f"a producer moved from {self.state.name} to {state.name}")
        self.state = state

    def _raise_error(self) -> None:
        if self.error is not None:
            raise self.error

    def _raise_fatal(self) -> None:
        if self.state is _S.FATAL_ERROR and self.error is not None:
            raise self.error

    def _illegal(self, method: str) -> IllegalTransactionState:
        return IllegalTransactionState(
            f"{method} can't be called: the producer of {self.transactional_id} {self.state.value}"
        )
