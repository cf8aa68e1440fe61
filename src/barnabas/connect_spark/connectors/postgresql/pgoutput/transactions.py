"""Put changes back into their transactions: messages in, changes with their place in the log out. No I/O.

Without streaming (the stream does not request it) a transaction arrives whole, when it has committed, and transactions
arrive in the order of their commits. So a position is ``Place``: the end of the last whole transaction, and how many
changes of the next one are done. A transaction that is repeated has the same changes in the same order, because the log
is decoded with the catalogue of its time.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.connect_spark.connectors.postgresql.pgoutput.decoder import Decoder, ProtocolError
from barnabas.connect_spark.connectors.postgresql.pgoutput.messages import (
    Begin,
    Commit,
    Delete,
    Insert,
    LogicalMessage,
    Message,
    Origin,
    Relation,
    Row,
    Truncate,
    TypeName,
    Update,
)

__all__ = ["Change", "Place", "TransactionReader"]


@dataclass(frozen=True, slots=True)
class Place:
    lsn: int
    """All transactions that end up to here are done."""
    changes: int = 0
    """The changes of the next transaction that are done."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of a row, or the truncation of a table."""

    relation: Relation
    operation: str
    """``c``, ``u``, ``d`` or ``t``: create, update, delete, truncate."""
    old: Row | None
    is_old_complete: bool
    new: Row | None
    lsn: int
    begin: Begin
    number: int
    """The place among the changes of the transaction, from 1."""
    previous_lsn: int
    """The end of the previous transaction."""


class TransactionReader:
    def __init__(self, place: Place) -> None:
        self._decoder = Decoder()
        self._relations: dict[int, Relation] = {}
        self._begin: Begin | None = None
        self._number = 0
        self._skipped = place.changes
        self._done_lsn = place.lsn
        self.place = place
        """The place after everything that was received."""

    @property
    def is_between_transactions(self) -> bool:
        return self._begin is None

    def receive(self, lsn: int, data: bytes) -> list[Change]:
        """Return the changes of a message, without those before the first place. Raise ProtocolError."""
        message = self._decoder.decode(data)
        if isinstance(message, Relation):
            self._relations[message.oid] = message
            return []
        if isinstance(message, TypeName | Origin | LogicalMessage):
            return []
        if isinstance(message, Begin):
            self._begin, self._number = message, 0
            return []
        if isinstance(message, Commit):
            self._end(message)
            return []
        return self._changes(lsn, message)

    def idle(self, lsn: int) -> None:
        """Note that the server has sent everything up to the LSN."""
        if self._begin is None and lsn > self.place.lsn and not self._skipped:
            self.place = Place(lsn)

    def _end(self, message: Commit) -> None:
        self._begin = None
        if message.end_lsn > self.place.lsn:
            self._skipped = 0
            self.place = Place(message.end_lsn)

    def _changes(self, lsn: int, message: Message) -> list[Change]:
        begin = self._begin
        if begin is None or not isinstance(message, Insert | Update | Delete | Truncate):
            raise ProtocolError(f"{type(message).__name__} is not expected here: {message}")
        found: list[Change] = []
        for relation, operation, old, is_complete, new in self._parts(message):
            self._number += 1
            if begin.final_lsn < self._done_lsn or self._number <= self._skipped:
                continue
            found.append(Change(relation, operation, old, is_complete, new, lsn, begin, self._number, self.place.lsn))
            self.place = Place(self.place.lsn, self._number)
        return found

    def _parts(self, message: Message) -> list[tuple[Relation, str, Row | None, bool, Row | None]]:
        if isinstance(message, Truncate):
            return [(self._relation(oid), "t", None, False, None) for oid in message.relations]
        if isinstance(message, Insert):
            return [(self._relation(message.relation), "c", None, False, message.new)]
        if isinstance(message, Update):
            relation = self._relation(message.relation)
            return [(relation, "u", message.old, message.is_old_complete, message.new)]
        if isinstance(message, Delete):
            return [(self._relation(message.relation), "d", message.old, message.is_old_complete, None)]
        return []

    def _relation(self, oid: int) -> Relation:
        try:
            return self._relations[oid]
        except KeyError:
            raise ProtocolError(f"a change of the relation {oid}, which was not described") from None
