"""Errors of a producer with transactions, by what the caller does next (as KIP-1050 groups them).

* ``TransactionTimedOut``: call the same method again.
* ``TransactionAbortable``: abort the transaction; then begin another one.
* ``FatalTransactionError``: close the producer. Another one with the same transactional id may start.
* ``IllegalTransactionState``: the program calls methods in an order that is not allowed.

Errors that a repetition can remove are retried by the producer, and never raised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.errors import Terminal, Transient

if TYPE_CHECKING:
    from barnabas.common.error_code import ErrorCode

__all__ = [
    "CommitFailed",
    "FatalTransactionError",
    "IllegalTransactionState",
    "ProducerFenced",
    "TransactionAbortable",
    "TransactionError",
    "TransactionTimedOut",
]


class TransactionError(Exception):
    """``code`` is Kafka's; None if the cluster did not refuse a request."""

    def __init__(self, message: str, code: ErrorCode | None = None) -> None:
        super().__init__(message)
        self.code = code


class TransactionTimedOut(TransactionError, Transient):
    """The cluster did not answer in time. It is unknown whether it performed the request: call the method again."""


class TransactionAbortable(TransactionError):
    """The transaction can't be committed; ``abort`` ends it (TRANSACTION_ABORTABLE of KIP-890, and others)."""


class CommitFailed(TransactionAbortable):
    """The group has given the consumer's partitions to another member, so their offsets were not committed."""


class FatalTransactionError(TransactionError, Terminal):
    """The producer can't continue. An open transaction is aborted by its successor, or when it times out."""


class ProducerFenced(FatalTransactionError):
    """Another producer has started with the transactional id, or the transaction has timed out."""


class IllegalTransactionState(TransactionError):
    """The method can't be called in the producer's present state."""
