"""The state of one transactional id, and its transitions: each returns the next state and changes nothing.

Three producer ids may belong to it: the present one, the one before, which a client may still use after its last epoch
was used up, and the next one, which a transaction that ends in the last epoch continues with (KIP-360, KIP-890).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from enum import Enum

from barnabas.common.errors import invariant
from barnabas.common.topic_partition import TopicPartition

__all__ = [
    "LAST_EPOCH",
    "NO_PRODUCER_EPOCH",
    "NO_PRODUCER_ID",
    "TRANSACTIONS_V2",
    "TransactionMetadata",
    "TransactionState",
]

NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
LAST_EPOCH = 2**15 - 2
"""The last epoch of a client. The one after it is kept for fencing this client."""
TRANSACTIONS_V2 = 2
"""The version of clients whose epoch advances with each transaction (KIP-890)."""
_NO_TIME = -1


class TransactionState(Enum):
    """The values are those of ``TransactionLogValue``."""

    EMPTY = 0
    ONGOING = 1
    PREPARE_COMMIT = 2
    PREPARE_ABORT = 3
    COMPLETE_COMMIT = 4
    COMPLETE_ABORT = 5
    DEAD = 6
    PREPARE_EPOCH_FENCE = 7

    @property
    def shown(self) -> str:
        """The name that clients see, such as ``PrepareCommit``."""
        return self.name.title().replace("_", "")

    @property
    def is_prepared(self) -> bool:
        """Whether the outcome is decided, and its markers are not written everywhere yet."""
        return self in (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)

    @property
    def is_at_rest(self) -> bool:
        """Whether no transaction is open."""
        return self in (TransactionState.EMPTY, TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT)


@dataclass(frozen=True, slots=True)
class TransactionMetadata:
    """Times are milliseconds of the wall clock, -1 while unknown."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: TransactionState = TransactionState.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    """The partitions that may hold records or offsets of the open transaction."""
    start_ms: int = _NO_TIME
    last_update_ms: int = _NO_TIME
    last_producer_epoch: int = NO_PRODUCER_EPOCH
    """The epoch before the present one, if the same client had it. It is not in the log: a new coordinator has -1."""
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    client_version: int = 0
    """The transaction version of the client that last added partitions or ended a transaction."""

    @property
    def is_epoch_exhausted(self) -> bool:
        return self.producer_epoch >= LAST_EPOCH

    def with_next_epoch(self, timeout_ms: int, expected_epoch: int | None, now_ms: int) -> TransactionMetadata | None:
        """Begin with the next epoch, for a client that starts or recovers. None for a client with an old epoch.

        A client that repeats its request is in the epoch before, and is given the present one again.
        """
        epoch, last_epoch = self.producer_epoch + 1, NO_PRODUCER_EPOCH
        if expected_epoch is not None:
            if self.producer_epoch in (NO_PRODUCER_EPOCH, expected_epoch):
                last_epoch = self.producer_epoch
            elif expected_epoch == self.last_producer_epoch:
                epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
            else:
                return None
        invariant(epoch <= LAST_EPOCH, "an exhausted producer id gets no further epoch")
        return self._at_rest(self.producer_id, epoch, last_epoch, timeout_ms, now_ms)

    def with_new_producer_id(
        self, producer_id: int, timeout_ms: int, now_ms: int, *, keeps_last_epoch: bool
    ) -> TransactionMetadata:
        """Continue with the first epoch of a new producer id, after the last epoch of the present one."""
        last_epoch = self.producer_epoch if keeps_last_epoch else NO_PRODUCER_EPOCH
        rotated = self._at_rest(producer_id, 0, last_epoch, timeout_ms, now_ms)
        return replace(rotated, previous_producer_id=self.producer_id)

    def _at_rest(
        self, producer_id: int, epoch: int, last_epoch: int, timeout_ms: int, now_ms: int
    ) -> TransactionMetadata:
        return replace(
            self,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            timeout_ms=timeout_ms,
            state=TransactionState.EMPTY,
            partitions=frozenset(),
            start_ms=_NO_TIME,
            last_update_ms=now_ms,
        )

    def with_partitions(
        self, added: Iterable[TopicPartition], now_ms: int, *, client_version: int
    ) -> TransactionMetadata:
        """Open a transaction with these partitions, or add them to the open one."""
        is_open = self.state is TransactionState.ONGOING
        return replace(
            self,
            state=TransactionState.ONGOING,
            partitions=self.partitions | frozenset(added),
            start_ms=self.start_ms if is_open else now_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def prepared(
        self, *, is_commit: bool, client_version: int, now_ms: int, next_producer_id: int = NO_PRODUCER_ID
    ) -> TransactionMetadata:
        """Decide the outcome. A client of version 2 is in the next epoch from here on.

        ``next_producer_id``: what it continues with if its last epoch is used up by that.
        """
        epoch, last_epoch = self.producer_epoch, self.last_producer_epoch
        if client_version >= TRANSACTIONS_V2:
            epoch, last_epoch = epoch + 1, epoch
        return replace(
            self,
            state=TransactionState.PREPARE_COMMIT if is_commit else TransactionState.PREPARE_ABORT,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            next_producer_id=next_producer_id,
            # An abort without a partition opens and ends a transaction at once.
            start_ms=self.start_ms if self.state is TransactionState.ONGOING else now_ms,
            last_update_ms=now_ms,
            client_version=client_version,
        )

    def fenced(self, now_ms: int, *, transaction_version: int) -> TransactionMetadata:
        """Abort the open transaction in an epoch that no client has.

        In ``transaction_version`` 2 of the cluster, the fenced client may still ask for its next epoch, as long as no
        other client has asked for one.
        """
        invariant(self.state is TransactionState.ONGOING, "only an open transaction is fenced")
        aborted = self.prepared(is_commit=False, client_version=transaction_version, now_ms=now_ms)
        if transaction_version >= TRANSACTIONS_V2:
            return aborted
        return replace(aborted, producer_epoch=self.producer_epoch + 1, last_producer_epoch=NO_PRODUCER_EPOCH)

    def completed(self, now_ms: int) -> TransactionMetadata:
        """End the transaction, once all its markers are written."""
        invariant(self.state.is_prepared, f"a transaction cannot be completed in state {self.state.shown}")
        is_commit = self.state is TransactionState.PREPARE_COMMIT
        done = replace(
            self,
            state=TransactionState.COMPLETE_COMMIT if is_commit else TransactionState.COMPLETE_ABORT,
            partitions=frozenset(),
            last_update_ms=now_ms,
            next_producer_id=NO_PRODUCER_ID,
        )
        if self.client_version >= TRANSACTIONS_V2 and self.next_producer_id != NO_PRODUCER_ID:
            return replace(
                done, producer_id=self.next_producer_id, previous_producer_id=self.producer_id, producer_epoch=0
            )
        return done
