"""How a source's task ends its transactions with ``transaction.boundary=connector`` (KIP-618).

A task requests a commit or an abort, from any thread. The worker takes the requests at the end of a batch: a
transaction ends only there, or after a record that the task has marked. A transaction without a request stays open.
"""

from __future__ import annotations

from collections import deque
from enum import Enum

__all__ = ["ConflictingRequests", "TransactionEnd", "TransactionRequests"]


class TransactionEnd(Enum):
    NONE = "none"
    """The transaction stays open."""
    COMMIT = "commit"
    ABORT = "abort"
    """The records are dropped. Their positions are committed, so that they are not read again."""


class ConflictingRequests(Exception):
    """A task has requested both ends of one transaction."""


class TransactionRequests:
    """The TransactionContext of a task."""

    def __init__(self) -> None:
        self._requested: deque[TransactionEnd] = deque()

    def commit_transaction(self) -> None:
        self._requested.append(TransactionEnd.COMMIT)

    def abort_transaction(self) -> None:
        self._requested.append(TransactionEnd.ABORT)

    def take(self) -> TransactionEnd:
        """Return how the transaction ends after the present batch, and forget it. Raise ConflictingRequests."""
        taken = {self._requested.popleft() for _ in range(len(self._requested))}
        if len(taken) > 1:
            raise ConflictingRequests("Connector requested both commit and abort of same transaction")
        return taken.pop() if taken else TransactionEnd.NONE

    def clear(self) -> None:
        """Forget the requests for a transaction that was abandoned."""
        self._requested.clear()
