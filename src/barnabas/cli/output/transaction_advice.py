"""Messages for errors of transactions: the missing right, or what to do about another producer and about time-outs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from barnabas.cli.output.advice import problem_of
from barnabas.cli.output.answer import Problem
from barnabas.clients.admin.errors import AdminError
from barnabas.clients.producer.transaction_errors import ProducerFenced, TransactionTimedOut
from barnabas.common.error_code import ErrorCode

if TYPE_CHECKING:
    from barnabas.clients.producer.transaction_errors import TransactionError

__all__ = ["transaction_problem"]

_DENIED = ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def transaction_problem(
    error: TransactionError, *, transactional_id: str, topic: str, right: str, advice: Mapping[ErrorCode, str]
) -> Problem:
    """Return the problem. ``right`` is the right on the topic."""
    cause = error.__cause__
    if isinstance(error, ProducerFenced):
        return Problem(
            "the producer was fenced: another one has started with this transactional id, or the transaction timed out",
            transactional_id,
            "" if error.code is None else error.code.name,
            "give each producer an id of its own; for a longer transaction, use --command-property "
            "transaction.timeout.ms=..., or a smaller --transaction-size",
        )
    if error.code is _DENIED:
        return Problem(
            "you may not use this transactional id",
            transactional_id,
            _DENIED.name,
            f"this needs WRITE on TransactionalId:{transactional_id}; 'barnabas access needs --transactional-producer "
            f"{transactional_id} --topics {topic}' lists all rights of the producer, and the commands that grant them",
        )
    if error.code is ErrorCode.INVALID_TRANSACTION_TIMEOUT:
        return Problem(
            "the cluster does not allow this transaction.timeout.ms", transactional_id, error.code.name,
            "use a smaller one, or a larger transaction.max.timeout.ms on the brokers",
        )  # fmt: skip
    if isinstance(error, TransactionTimedOut) or not isinstance(cause, Exception):
        return Problem(
            str(error), transactional_id, "" if error.code is None else error.code.name,
            "check the cluster with 'barnabas cluster describe'; --timeout sets the limit",
        )  # fmt: skip
    problem = problem_of(cause, right=right, advice=advice)
    return problem if isinstance(cause, AdminError) else Problem(str(error), transactional_id, advice=problem.advice)
