"""What a task asks the database, besides rows: settings, publication, slot, tables, keys, types."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from psycopg import Connection, sql

from barnabas.connect_spark.connectors.postgresql.debezium.column_types import PostgresType
from barnabas.connect_spark.connectors.postgresql.debezium.events import Table
from barnabas.connect_spark.connectors.postgresql.pgoutput.messages import Column, parse_lsn

__all__ = ["Catalogue", "KeyColumn", "Publication", "SlotState", "SnapshotTable"]


@dataclass(frozen=True, slots=True)
class SlotState:
    plugin: str
    database: str
    active_pid: int | None
    confirmed_lsn: int
    restart_lsn: int | None
    wal_status: str
    """``reserved``, ``extended``, ``unreserved`` or ``lost``; before PostgreSQL 13 ``reserved``."""
    lag_bytes: int
    """The log that the server keeps for the slot."""
    unconfirmed_bytes: int
    """The log that was written after the confirmed position."""


@dataclass(frozen=True, slots=True)
class KeyColumn:
    name: str
    type_name: str
    """With its modifier, as in a cast."""
    collation: tuple[str, str] | None = None
    """Schema and name of a collation that is not the type's own."""


@dataclass(frozen=True, slots=True)
class SnapshotTable:
    """A table to read."""

    table: Table
    oid: int
    keys: tuple[KeyColumn, ...]
    """In the order of the index, by which parts are read."""
    file: int
    """The number of its file. Truncating the table gives it another one."""
    row_filter: str | None = None
    """The condition of the publication."""


@dataclass(frozen=True, slots=True)
class Publication:
    has_all_tables: bool


class Catalogue:
    """Queries on a connection in autocommit, or inside of its transaction. Every method raises psycopg.Error."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    @property
    def server_version(self) -> int:
        return self._connection.info.server_version

    def _rows(self, query: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._connection.execute(query.encode(), parameters or None).fetchall()

    def setting(self, name: str) -> str:
        return str(self._rows("SELECT current_setting(%s)", [name])[0][0])

    # ---- publication

    def publication(self, name: str) -> Publication | None:
        found = self._rows("SELECT puballtables FROM pg_publication WHERE pubname = %s", [name])
        return Publication(bool(found[0][0])) if found else None

    def published(self, name: str) -> list[str]:
        """Return the tables of a publication, as ``schema.name``."""
        query = "SELECT schemaname || '.' || tablename FROM pg_publication_tables WHERE pubname = %s ORDER BY 1"
        return [str(row[0]) for row in self._rows(query, [name])]

    def ordinary_tables(self) -> list[str]:
        """Return all tables of users."""
        query = (
            "SELECT n.nspname || '.' || c.relname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relpersistence = 'p' "
            "AND n.nspname NOT IN ('pg_catalog', 'information_schema') AND n.nspname !~ '^pg_' ORDER BY 1"
        )
        return [str(row[0]) for row in self._rows(query)]

    def publish(self, name: str, tables: Iterable[str] | None, *, adds: bool = False) -> None:
        """Create the publication, for all tables without ``tables``; or add tables to it."""
        publication = sql.Identifier(name)
        if tables is None:
            self._connection.execute(sql.SQL("CREATE PUBLICATION {} FOR ALL TABLES").format(publication))
            return
        listed = sql.SQL(", ").join(sql.Identifier(*table.split(".", 1)) for table in tables)
        form = "ALTER PUBLICATION {} ADD TABLE {}" if adds else "CREATE PUBLICATION {} FOR TABLE {}"
        self._connection.execute(sql.SQL(form).format(publication, listed))

    # ---- slot

    def slot(self, name: str) -> SlotState | None:
        status = "wal_status" if self.server_version >= 130_000 else "'reserved'"
        found = self._rows(
            f"SELECT plugin, database, active_pid, confirmed_flush_lsn::text, restart_lsn::text, {status}, "
            "coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), restart_lsn), 0)::bigint, "
            "coalesce(pg_wal_lsn_diff(pg_current_wal_lsn(), confirmed_flush_lsn), 0)::bigint "
            "FROM pg_replication_slots WHERE slot_name = %s",
            [name],
        )
        if not found:
            return None
        plugin, database, pid, confirmed, restart, wal, lag, unconfirmed = found[0]
        return SlotState(
            str(plugin),
            str(database),
            pid,
            parse_lsn(confirmed) if confirmed else 0,
            parse_lsn(restart) if restart else None,
            str(wal or "lost"),
            int(lag),
            int(unconfirmed),
        )

    def create_slot(self, name: str) -> None:
        """Create the slot. Waits until the transactions that are running have ended."""
        self._rows("SELECT pg_create_logical_replication_slot(%s, 'pgoutput')", [name])

    def log_end(self) -> int:
        return parse_lsn(str(self._rows("SELECT pg_current_wal_insert_lsn()::text")[0][0]))

    # ---- snapshot

    def snapshot(self) -> str:
        """Return the snapshot of the transaction, as ``pg_current_snapshot()`` writes it."""
        function = "pg_current_snapshot" if self.server_version >= 130_000 else "txid_current_snapshot"
        return str(self._rows(f"SELECT {function}()::text")[0][0])

    def next_xid(self) -> int:
        """Return an id that no transaction before now has."""
        return int(self.snapshot().split(":")[1])

    def oldest_xid(self) -> int:
        """Return an id before which all transactions have ended."""
        return int(self.snapshot().split(":")[0])

    def export_snapshot(self) -> str:
        return str(self._rows("SELECT pg_export_snapshot()")[0][0])

    # ---- tables and types

    def types(self) -> dict[int, PostgresType]:
        labels: dict[int, list[str]] = {}
        for oid, label in self._rows("SELECT enumtypid, enumlabel FROM pg_enum ORDER BY enumtypid, enumsortorder"):
            labels.setdefault(oid, []).append(label)
        query = (
            "SELECT oid, typname, typtype::text, CASE WHEN typcategory = 'A' THEN typelem ELSE 0 END, typbasetype, "
            "typtypmod, typdelim::text FROM pg_type"
        )
        return {
            oid: PostgresType(name, kind, element, base, modifier, tuple(labels.get(oid, ())), delimiter)
            for oid, name, kind, element, base, modifier, delimiter in self._rows(query)
        }

    def key_of(self, schema: str, name: str) -> frozenset[str]:
        """Return the columns of the table's key: its identity if that is an index, else its primary key."""
        return frozenset(column.name for column in self._keys(schema, name))

    def _keys(self, schema: str, name: str) -> list[KeyColumn]:
        """Return the columns in the order of the index."""
        query = (
            "SELECT a.attname, format_type(a.atttypid, a.atttypmod), cn.nspname, co.collname FROM pg_index i "
            "JOIN pg_class c ON c.oid = i.indrelid JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1]) "
            "JOIN pg_type t ON t.oid = a.atttypid LEFT JOIN pg_collation co ON co.oid = a.attcollation "
            "AND a.attcollation <> t.typcollation LEFT JOIN pg_namespace cn ON cn.oid = co.collnamespace "
            "WHERE n.nspname = %s AND c.relname = %s AND i.indisvalid AND "
            "CASE WHEN c.relreplident = 'i' THEN i.indisreplident ELSE i.indisprimary END "
            "ORDER BY array_position(i.indkey::int2[], a.attnum)"
        )
        return [
            KeyColumn(column, type_name, None if collation is None else (space, collation))
            for column, type_name, space, collation in self._rows(query, [schema, name])
        ]

    def table(self, publication: str, full_name: str) -> SnapshotTable | None:
        """Return the table as the publication shows it; None if it does not exist."""
        schema, name = full_name.split(".", 1)
        columns, row_filter = self._published_columns(publication, schema, name)
        found = self._rows(
            "SELECT c.oid, coalesce(pg_relation_filenode(c.oid), 0), a.attname, a.atttypid, a.atttypmod "
            "FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace "
            "JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped AND a.attgenerated = '' "
            "WHERE n.nspname = %s AND c.relname = %s ORDER BY a.attnum",
            [schema, name],
        )
        if not found:
            return None
        keys = tuple(self._keys(schema, name))
        names = {key.name for key in keys}
        shown = tuple(
            Column(column, oid, modifier, column in names)
            for _, _, column, oid, modifier in found
            if columns is None or column in columns
        )
        table = Table(schema, name, shown, tuple([column.name for column in shown if column.name in names]))
        return SnapshotTable(table, int(found[0][0]), keys, int(found[0][1]), row_filter)

    def _published_columns(self, publication: str, schema: str, name: str) -> tuple[list[str] | None, str | None]:
        if self.server_version < 150_000:
            return None, None
        query = (
            "SELECT attnames, rowfilter FROM pg_publication_tables "
            "WHERE pubname = %s AND schemaname = %s AND tablename = %s"
        )
        found = self._rows(query, [publication, schema, name])
        return ([str(column) for column in found[0][0]], found[0][1]) if found else (None, None)
