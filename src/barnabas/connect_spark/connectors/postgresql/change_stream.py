"""Batches of changes from the stream of the slot, as events grouped by table."""

from __future__ import annotations

import time
from collections import deque

from barnabas.connect_spark.connectors.postgresql.catalogue import Catalogue
from barnabas.connect_spark.connectors.postgresql.debezium.column_types import PostgresType
from barnabas.connect_spark.connectors.postgresql.debezium.events import Event, Table, events_of
from barnabas.connect_spark.connectors.postgresql.pgoutput.decoder import protocol_version
from barnabas.connect_spark.connectors.postgresql.pgoutput.messages import Relation
from barnabas.connect_spark.connectors.postgresql.pgoutput.transactions import Change, Place, TransactionReader
from barnabas.connect_spark.connectors.postgresql.replication_stream import ReplicationStream, Streamed
from barnabas.connect_spark.connectors.postgresql.settings import ChangesSettings

__all__ = ["ChangeStream"]

_TAKE_BYTES = 1 << 20
_WAIT_S = 0.2
_WHOLE_TRANSACTION_S = 2.0
_OVERSIZE = 10
"""A batch ends between two transactions, unless it would have this many times the usual changes."""


class ChangeStream:
    def __init__(self, settings: ChangesSettings, catalogue: Catalogue, place: Place) -> None:
        """Raise psycopg.Error, SlotInUse or StreamEnded."""
        self._settings = settings
        self._catalogue = catalogue
        self._reader = TransactionReader(place)
        self._left: deque[Streamed] = deque()
        self._tables: dict[int, tuple[Relation, Table]] = {}
        self.types: dict[int, PostgresType] = {}
        protocol = protocol_version(catalogue.server_version)
        self._stream = ReplicationStream(settings.login, settings.slot, [settings.publication], place.lsn, protocol)

    @property
    def place(self) -> Place:
        """The place after the events that were taken."""
        return self._reader.place

    @property
    def is_between_transactions(self) -> bool:
        return self._reader.is_between_transactions

    def confirm(self, lsn: int) -> None:
        self._stream.confirm(lsn)

    def close(self) -> None:
        self._stream.close()

    def take(self) -> list[Event]:
        """Return the next events. Raise StreamEnded or ProtocolError."""
        changes = self._changes()
        tombstones, skipped = self._settings.has_tombstones, self._settings.skipped
        return [
            event
            for change in changes
            if self._settings.includes(f"{change.relation.schema}.{change.relation.name}")
            for event in events_of(change, self._table(change.relation), has_tombstones=tombstones, skipped=skipped)
        ]

    def _changes(self) -> list[Change]:
        found: list[Change] = []
        most = self._settings.batch_changes
        deadline_s = time.monotonic() + _WHOLE_TRANSACTION_S
        while not self._is_full(len(found), most):
            if not self._left:
                is_inside = not self._reader.is_between_transactions
                wait_s = _WAIT_S if is_inside or not found else 0
                self._left.extend(self._stream.take(_TAKE_BYTES, wait_s))
            if not self._left:
                if self._reader.is_between_transactions or time.monotonic() > deadline_s:
                    break
                continue
            streamed = self._left.popleft()
            if streamed.data is None:
                self._reader.idle(streamed.lsn)
            else:
                found += self._reader.receive(streamed.lsn, streamed.data)
        return found

    def _is_full(self, count: int, most: int) -> bool:
        return count >= most and (self._reader.is_between_transactions or count >= most * _OVERSIZE)

    def _table(self, relation: Relation) -> Table:
        known = self._tables.get(relation.oid)
        if known is not None and known[0] is relation:
            return known[1]
        table = self._described(relation)
        if known is not None and known[1] == table:
            table = known[1]
        self._tables[relation.oid] = (relation, table)
        self.types = self._catalogue.types()
        return table

    def _described(self, relation: Relation) -> Table:
        """Return the table. Its key is in the message, unless that marks all columns or none."""
        if relation.replica_identity in "di":
            names = frozenset(column.name for column in relation.columns if column.is_identity)
        else:
            names = self._catalogue.key_of(relation.schema, relation.name)
        key = tuple([column.name for column in relation.columns if column.name in names])
        return Table(relation.schema, relation.name, relation.columns, key)
