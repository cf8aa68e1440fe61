"""Read a table in parts, in parallel, all in one snapshot of the database.

``SnapshotSession`` is in the worker: it holds the snapshot open, finds where parts end, and keeps the table locked
against statements that would rewrite it, because a snapshot does not see rows that were written anew. ``read_part``
is in Spark's executors: it imports the snapshot and copies the rows of a part. A part of a table with a key is a range
of the key; a table without one is read whole in one batch, in parts that are ranges of its pages.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from psycopg import Connection, sql
from psycopg.sql import Composable

from barnabas.connect_spark.connectors.postgresql.catalogue import Catalogue, KeyColumn, SnapshotTable
from barnabas.connect_spark.connectors.postgresql.connection import DatabaseLogin, connect
from barnabas.connect_spark.connectors.postgresql.debezium.column_types import Modes, PostgresType
from barnabas.connect_spark.connectors.postgresql.debezium.envelope import event_plan
from barnabas.connect_spark.connectors.postgresql.debezium.events import Event, Origin
from barnabas.connect_spark.connectors.postgresql.event_frames import EventSource, event_batches
from barnabas.connect_spark.connectors.postgresql.handover.progress import Key, Run
from barnabas.connect_spark.connectors.postgresql.handover.visibility import Snapshot

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Part", "PartReading", "SnapshotSession", "compared_keys", "read_part"]

_LOCK_TIMEOUT = "10s"
_PAGES_A_PART = 16_384
"""128 MiB: parts of a table without a key."""


@dataclass(frozen=True, slots=True)
class Part:
    after: Key | None = None
    until: Key | None = None
    first_page: int | None = None
    end_page: int | None = None


@dataclass(frozen=True, slots=True)
class PartReading:
    """All that an executor needs to read parts of a table."""

    login: DatabaseLogin
    snapshot_id: str
    table: SnapshotTable
    types: Mapping[int, PostgresType]
    modes: Modes
    source: EventSource
    lsn: int
    at_us: int

    def read(self, batches: Iterator[pa.RecordBatch], parts: Sequence[Part]) -> Iterator[pa.RecordBatch]:
        """Read the parts whose numbers are in ``batches``."""
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield from read_part(self, parts[number])


class SnapshotSession:
    """One run. Every method raises psycopg.Error."""

    def __init__(self, login: DatabaseLogin, table: str) -> None:
        """Begin with a table, ``schema.name``. Waits while another transaction alters it."""
        self._connection = connect(login)
        self.catalogue = Catalogue(self._connection)
        name = sql.Identifier(*table.split(".", 1))
        try:
            self._connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            # The snapshot is taken by the first query after this.
            self._connection.execute(sql.SQL("LOCK TABLE {} IN ACCESS SHARE MODE").format(name))
            self.snapshot_id = self.catalogue.export_snapshot()
            self.text = self.catalogue.snapshot()
            self.lsn = self.catalogue.log_end()
            self.at_us = time.time_ns() // 1000
        except BaseException:
            self._connection.close()
            raise

    def run(self, until: Key | None) -> Run:
        return Run(Snapshot.parse(self.text), self.text, self.lsn, until)

    def parts(self, table: SnapshotTable, after: Key | None, rows: int, count: int) -> list[Part]:
        """Return the next parts after a key. The last part of a table has no end."""
        if not table.keys:
            return self._pages(table)
        found: list[Part] = []
        while len(found) < count:
            until = self._end(table, after, rows)
            found.append(Part(after, until))
            if until is None:
                break
            after = until
        return found

    def close(self) -> None:
        self._connection.close()

    def _end(self, table: SnapshotTable, after: Key | None, rows: int) -> Key | None:
        keys = sql.SQL(", ").join(sql.Identifier(key.name) for key in table.keys)
        texts = sql.SQL(", ").join(sql.SQL("{}::text").format(sql.Identifier(key.name)) for key in table.keys)
        query = sql.SQL("SELECT {} FROM {}{} ORDER BY {} LIMIT 1 OFFSET {}").format(
            texts, _name(table), _where(table, Part(after)), keys, sql.Literal(rows - 1)
        )
        row = self._connection.execute(query).fetchone()
        return None if row is None else tuple([str(value) for value in row])

    def _pages(self, table: SnapshotTable) -> list[Part]:
        query = sql.SQL("SELECT coalesce(pg_relation_size({}), 0) / 8192").format(sql.Literal(table.oid))
        row = self._connection.execute(query).fetchone()
        pages = int(row[0]) if row else 0
        if table.file == 0 or self.catalogue.server_version < 140_000:
            return [Part()]
        starts = [*range(0, max(pages, 1), _PAGES_A_PART)]
        ends = [*starts[1:], None]
        return [Part(first_page=start, end_page=end) for start, end in zip(starts, ends, strict=True)]


def read_part(reading: PartReading, part: Part) -> Iterator[pa.RecordBatch]:
    """Read a part in the snapshot. Raise psycopg.Error or UnusableValue."""
    plan = event_plan(reading.source.prefix, reading.table.table, reading.types, reading.modes)
    with connect(reading.login) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(reading.snapshot_id)))
        # A statement that waits for the session's lock makes this one wait behind it, and would never see its end.
        connection.execute(sql.SQL("SET LOCAL lock_timeout = {}").format(sql.Literal(_LOCK_TIMEOUT)))
        yield from event_batches(_events(connection, reading, part), plan, reading.source)


def _events(connection: Connection, reading: PartReading, part: Part) -> Iterator[Event]:
    table = reading.table.table
    origin = Origin(reading.lsn, None, reading.at_us, is_snapshot=True)
    columns = sql.SQL(", ").join(sql.Identifier(column.name) for column in table.columns)
    query = sql.SQL("COPY (SELECT {} FROM {}{}) TO STDOUT").format(
        columns, _name(reading.table), _where(reading.table, part)
    )
    places = table.key_places
    with connection.cursor() as cursor, cursor.copy(query) as copy:
        for row in copy.rows():
            key = tuple([row[at] for at in places]) if places else None
            yield Event(table, "r", None, row, key, origin)


def _name(table: SnapshotTable) -> Composable:
    return sql.Identifier(table.table.schema, table.table.name)


def _where(table: SnapshotTable, part: Part) -> Composable:
    conditions: list[Composable] = []
    if table.row_filter:
        conditions.append(sql.SQL(f"({table.row_filter})"))
    conditions += [_bound(table.keys, ">", part.after)] if part.after is not None else []
    conditions += [_bound(table.keys, "<=", part.until)] if part.until is not None else []
    if part.first_page is not None:
        conditions.append(sql.SQL("ctid >= {}::tid").format(sql.Literal(f"({part.first_page},0)")))
    if part.end_page is not None:
        conditions.append(sql.SQL("ctid < {}::tid").format(sql.Literal(f"({part.end_page},0)")))
    if not conditions:
        return sql.SQL("")
    return sql.SQL(" WHERE {}").format(sql.SQL(" AND ").join(conditions))


def _bound(keys: Sequence[KeyColumn], operator: str, values: Key) -> Composable:
    names = sql.SQL(", ").join(sql.Identifier(key.name) for key in keys)
    bounds = sql.SQL(", ").join(
        sql.SQL("{}::{}").format(sql.Literal(value), _type(key)) for key, value in zip(keys, values, strict=True)
    )
    return sql.SQL("({}) {} ({})").format(names, sql.SQL(operator), bounds)


def _type(key: KeyColumn) -> Composable:
    """Return the type's name for a cast; the catalogue has quoted it."""
    return sql.SQL(key.type_name)


def compared_keys(connection: Connection, keys: Sequence[KeyColumn], until: Key, asked: Sequence[Key]) -> list[bool]:
    """Return which keys are after ``until`` in the order of the table. Raise psycopg.Error."""
    columns = [sql.SQL("k{}").format(sql.SQL(str(at))) for at in range(len(keys))]
    given = [_typed(column, key) for column, key in zip(columns, keys, strict=True)]
    bounds = [_typed(sql.Literal(value), key) for value, key in zip(until, keys, strict=True)]
    query = sql.SQL("SELECT ({}) > ({}) FROM unnest({}) WITH ORDINALITY AS u({}, n) ORDER BY n").format(
        sql.SQL(", ").join(given),
        sql.SQL(", ").join(bounds),
        sql.SQL(", ").join(sql.SQL("%s::text[]") for _ in keys),
        sql.SQL(", ").join(columns),
    )
    parameters: list[Any] = [[key[at] for key in asked] for at in range(len(keys))]
    return [bool(row[0]) for row in connection.execute(query, parameters)]


def _typed(value: Composable, key: KeyColumn) -> Composable:
    typed = sql.SQL("{}::{}").format(value, _type(key))
    if key.collation is None:
        return typed
    return sql.SQL("{} COLLATE {}").format(typed, sql.Identifier(*key.collation))
