"""What each error of a transaction's request means to its producer, as in Kafka's TransactionManager.

Retriable errors are repeated; some of them after a new look-up of the coordinator. A fenced producer, a missing right
and a request that contradicts the coordinator's state end the producer. The others abort the transaction.
"""

from __future__ import annotations

from enum import Enum, auto

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import ClientError
from barnabas.clients.producer.transaction_errors import (
    CommitFailed,
    FatalTransactionError,
    ProducerFenced,
    TransactionAbortable,
    TransactionError,
)
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Terminal

__all__ = ["Operation", "Verdict", "error_of", "produce_error", "verdict_of"]


class Operation(Enum):
    """A step of a transaction; the value describes it in messages."""

    INIT_PRODUCER = "the transactional id could not be initialized"
    ADD_PARTITIONS = "partitions could not be added to the transaction"
    ADD_OFFSETS = "the group could not be added to the transaction"
    COMMIT_OFFSETS = "offsets could not be committed in the transaction"
    PRODUCE = "records could not be written"
    END = "the transaction could not be ended"


class Verdict(Enum):
    DONE = auto()
    RETRY = auto()
    LOOK_UP = auto()
    """The coordinator has moved: look it up, and try again."""
    ABORTABLE = auto()
    FATAL = auto()


_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_FENCED = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_EPOCH})
_DENIED = frozenset({ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, ErrorCode.CLUSTER_AUTHORIZATION_FAILED})
_PRODUCER_UNKNOWN = frozenset({ErrorCode.UNKNOWN_PRODUCER_ID, ErrorCode.INVALID_PRODUCER_ID_MAPPING})
_GROUP_REBALANCED = frozenset({ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_INSTANCE_ID})
_NOT_ABORTABLE_FOR_LEADERS = frozenset({ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING}) | _DENIED
"""Answers of a partition's leader. Its INVALID_PRODUCER_EPOCH is confirmed, or not, by the coordinator."""
_ABORTABLE_WHEN_ENDING = _PRODUCER_UNKNOWN | {ErrorCode.TRANSACTION_ABORTABLE}


def verdict_of(operation: Operation, code: int) -> Verdict:
    """Return what follows from the code of an answer. Unknown codes of a newer Kafka are not retried."""
    if not code:
        return Verdict.DONE
    known = ErrorCode(code) if code in ErrorCode._value2member_map_ else ErrorCode.UNKNOWN_SERVER_ERROR
    if operation is Operation.PRODUCE:
        return Verdict.FATAL if known in _NOT_ABORTABLE_FOR_LEADERS else Verdict.ABORTABLE
    if known in _MOVED:
        return Verdict.LOOK_UP
    if known.retriable:
        return Verdict.RETRY
    if known in _FENCED or known in _DENIED or known is ErrorCode.INVALID_TXN_STATE:
        return Verdict.FATAL
    if operation in (Operation.INIT_PRODUCER, Operation.END):
        return Verdict.ABORTABLE if known in _ABORTABLE_WHEN_ENDING else Verdict.FATAL
    return Verdict.ABORTABLE


def error_of(operation: Operation, code: ErrorCode, text: str) -> TransactionError:
    """Return the error of a code that is not retried. ``text`` is the refusal, with its code."""
    if verdict_of(operation, code) is not Verdict.FATAL:
        kind = CommitFailed if code in _GROUP_REBALANCED else TransactionAbortable
        return kind(f"{operation.value}: {text}", code)
    if code in _FENCED:
        return ProducerFenced(
            f"{operation.value}: {text} -> another producer has started with this transactional id, or the "
            "transaction took longer than transaction.timeout.ms",
            code,
        )
    return FatalTransactionError(f"{operation.value}: {text}", code)


def produce_error(error: Exception) -> TransactionError:
    """Return what it means to a transaction that its records could not be written, for this reason."""
    found: TransactionError
    if isinstance(error, AdminError):
        found = error_of(Operation.PRODUCE, error.code, str(error))
    elif isinstance(error, ClientError) and isinstance(error, Terminal):
        found = FatalTransactionError(f"{Operation.PRODUCE.value}: {error}")
    else:
        found = TransactionAbortable(f"{Operation.PRODUCE.value}: {error}")
    found.__cause__ = error
    return found
