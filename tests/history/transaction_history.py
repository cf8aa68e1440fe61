"""What transactional producers and readers of committed records observed; the checks judge it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from math import inf
from typing import NamedTuple

from tests.history.payload import RecordId

__all__ = ["Appended", "Outcome", "Passed", "Seen", "Session", "Transaction", "TransactionHistory"]


class Outcome(StrEnum):
    COMMITTED = "committed"
    NOT_COMMITTED = "not committed"
    """Aborted, or its producer never asked for the commit."""
    UNKNOWN = "unknown"
    """The commit was requested, and its outcome not received."""


class Appended(NamedTuple):
    """A record of a transaction, as its producer sent it."""

    topic: str
    partition: int
    record: RecordId
    note: bytes = b""
    """The record's key: the amount of a transfer, or the source of a copy."""


class Seen(NamedTuple):
    """A record that a reader received."""

    partition: int
    offset: int
    record: RecordId
    note: bytes = b""


class Passed(NamedTuple):
    """The reader reached the end of the partition: ``offset`` is the next one."""

    partition: int
    offset: int


@dataclass(slots=True)
class Session:
    """Everything that a reader of one topic received from its start to its restart, in order. ``starts`` are the
    first offsets by partition."""

    reader: str
    topic: str
    starts: dict[int, int]
    events: list[Seen | Passed] = field(default_factory=list)


@dataclass(slots=True)
class Transaction:
    """Times are those of the monotonic clock. ``name`` is the producer of its records' ids."""

    name: str
    outcome: Outcome = Outcome.UNKNOWN
    sends_from_s: float = inf
    """When the transaction had received all that it reads, and had sent nothing."""
    ended_s: float = inf
    """When the producer learnt the outcome."""
    appended: list[Appended] = field(default_factory=list)
    received: list[Seen] = field(default_factory=list)
    """The records that its producer read before it sent any."""
    read_topic: str = ""
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The committed offsets that it replaces in each partition of ``read_topic``: (from, to)."""


@dataclass(slots=True)
class TransactionHistory:
    """Every client adds to it from its own thread; only the end of a run reads it."""

    transactions: dict[str, Transaction] = field(default_factory=dict)
    sessions: list[Session] = field(default_factory=list)
    zombies: list[str] = field(default_factory=list)
    """Transactions whose commit was acknowledged although a newer producer of the same transactional id had begun."""
    places: list[tuple[Appended, int]] = field(default_factory=list)
    """Records that were acknowledged at an offset, whatever became of their transaction."""
    spoilt: list[str] = field(default_factory=list)
    """Values that no producer created."""
