"""The SQL of the databases that barnabas writes to and reads from. Pure text: nothing here accesses a database.

A batch is first loaded into a staging table that only its connection sees, with three columns of ours: the partition
and the offset of the record, and whether it deletes. A few statements then merge it into the target with the same
result as if its records had been written one by one:

- **delete**: every key that some record of the batch deletes;
- **insert**: every record that no later one of its key deletes;
- **upsert, update**: the last record of each key, unless it deletes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType, Kind

__all__ = [
    "DELETED",
    "DUCKDB",
    "OFFSET",
    "PARTITION",
    "POSTGRESQL",
    "RANK",
    "SQLITE",
    "Dialect",
    "Table",
    "columns_of",
    "moment_text",
    "quoted",
    "table_name",
]

PARTITION, OFFSET, DELETED = "__barnabas_partition", "__barnabas_offset", "__barnabas_deleted"
RANK, _CUT = "__barnabas_rank", "__barnabas_cut"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MOST_DIGITS = 38

Table = tuple[str, ...]
"""Schema and name, or the name alone."""


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def table_name(table: Table) -> str:
    return ".".join(quoted(part) for part in table)


def columns_of(names: Sequence[str], alias: str = "") -> str:
    return ", ".join(f"{alias}{quoted(name)}" for name in names)


@dataclass(frozen=True, slots=True)
class Dialect:
    name: str
    types: dict[Kind, str]
    staging: str
    true: str
    locks_rows: bool = False
    clock: str = ""
    """The present time in UTC; empty where the worker's clock is that of the database."""
    schema: str = "current_schema()"
    """The schema of a table whose name has none."""
    commits_ddl: bool = False
    """Whether a statement that creates or changes a table commits the transaction."""

    # ---- tables

    def key_type(self, wanted: ColumnType) -> str:
        """Return the type of a column in a primary key: some databases limit its length."""
        return self.column_type(wanted)

    def column_type(self, wanted: ColumnType) -> str:
        text = self.types[wanted.kind]
        if wanted.kind is Kind.DECIMAL and "(" not in text and self.name != "sqlite":
            return f"{text}({wanted.precision or _MOST_DIGITS},{wanted.scale})"
        return text

    def create_table(self, table: Table, columns: dict[str, ColumnType], keys: Sequence[str]) -> str:
        lines = [
            f"{quoted(name)} {self.key_type(column_type)} NOT NULL"
            if name in keys
            else f"{quoted(name)} {self.column_type(column_type)}"
            for name, column_type in columns.items()
        ]
        if keys:
            lines.append(f"PRIMARY KEY ({columns_of(keys)})")
        return f"CREATE TABLE {table_name(table)} ({', '.join(lines)})"

    def add_column(self, table: Table, name: str, wanted: ColumnType) -> str:
        return f"ALTER TABLE {table_name(table)} ADD COLUMN {quoted(name)} {self.column_type(wanted)}"

    # ---- a batch

    def create_staging(self, table: Table, columns: Sequence[str]) -> str:
        ours = f"CAST(NULL AS INTEGER) AS {quoted(PARTITION)}, CAST(NULL AS BIGINT) AS {quoted(OFFSET)}, "
        ours += f"CAST(NULL AS {self.types[Kind.BOOLEAN]}) AS {quoted(DELETED)}"
        selected = f"{columns_of(columns)}, {ours}" if columns else ours
        return f"CREATE TEMPORARY TABLE {self._staging_name} AS SELECT {selected} FROM {table_name(table)} WHERE 1 = 0"

    @property
    def _staging_name(self) -> str:
        return quoted(self.staging.rpartition(".")[2])

    @property
    def drop_staging(self) -> str:
        return f"DROP TABLE IF EXISTS {self.staging}"

    def merge(
        self, table: Table, columns: Sequence[str], keys: Sequence[str], mode: str, *, deletes: bool
    ) -> list[str]:
        """Return the statements of a batch, for ``mode`` insert, upsert or update."""
        statements = [self._delete(table, keys)] if deletes else []
        if mode == "insert":
            return [*statements, self._insert(table, columns, keys, deletes=deletes)]
        return [*statements, (self._upsert if mode == "upsert" else self._update)(table, columns, keys)]

    def _delete(self, table: Table, keys: Sequence[str]) -> str:
        target = table_name(table)
        same = " AND ".join(f"s.{quoted(key)} = {target}.{quoted(key)}" for key in keys)
        found = f"SELECT 1 FROM {self.staging} AS s WHERE {self._deletes('s.')} AND {same}"
        return f"DELETE FROM {target} WHERE EXISTS ({found})"

    def _deletes(self, alias: str = "") -> str:
        return f"{alias}{quoted(DELETED)} = {self.true}"

    def _insert(self, table: Table, columns: Sequence[str], keys: Sequence[str], *, deletes: bool) -> str:
        place = f"{quoted(PARTITION)}, {quoted(OFFSET)}"
        head = f"INSERT INTO {table_name(table)} ({columns_of(columns)}) SELECT {columns_of(columns)} FROM "
        if not deletes:
            return f"{head}{self.staging} ORDER BY {place}"
        cut = (
            f"MAX(CASE WHEN {self._deletes()} THEN {quoted(OFFSET)} ELSE -1 END) "
            f"OVER (PARTITION BY {columns_of(keys)}, {quoted(PARTITION)}) AS {quoted(_CUT)}"
        )
        inner = f"(SELECT {columns_of([*columns, PARTITION, OFFSET, DELETED])}, {cut} FROM {self.staging}) AS r"
        return f"{head}{inner} WHERE NOT {self._deletes()} AND {quoted(OFFSET)} > {quoted(_CUT)} ORDER BY {place}"

    def _last(self, columns: Sequence[str], keys: Sequence[str]) -> str:
        order = f"ORDER BY {quoted(OFFSET)} DESC, {quoted(PARTITION)} DESC"
        rank = f"ROW_NUMBER() OVER (PARTITION BY {columns_of(keys)} {order}) AS {quoted(RANK)}"
        return f"(SELECT {columns_of([*columns, DELETED])}, {rank} FROM {self.staging}) AS r"

    def _upsert(self, table: Table, columns: Sequence[str], keys: Sequence[str]) -> str:
        others = [column for column in columns if column not in keys]
        sets = ", ".join(f"{quoted(name)} = excluded.{quoted(name)}" for name in others)
        return (
            f"INSERT INTO {table_name(table)} ({columns_of(columns)}) SELECT {columns_of(columns)} "
            f"FROM {self._last(columns, keys)} WHERE {quoted(RANK)} = 1 AND NOT {self._deletes()} "
            f"ON CONFLICT ({columns_of(keys)}) DO {f'UPDATE SET {sets}' if others else 'NOTHING'}"
        )

    def _update(self, table: Table, columns: Sequence[str], keys: Sequence[str]) -> str:
        target = table_name(table)
        others = [column for column in columns if column not in keys]
        sets = ", ".join(f"{quoted(name)} = r.{quoted(name)}" for name in others)
        same = " AND ".join(f"r.{quoted(key)} = {target}.{quoted(key)}" for key in keys)
        return (
            f"UPDATE {target} SET {sets} FROM {self._last(columns, keys)} "
            f"WHERE r.{quoted(RANK)} = 1 AND NOT {self._deletes('r.')} AND {same}"
        )

    # ---- positions

    def create_positions(self, table: Table) -> str:
        text, number = self.key_type(ColumnType(Kind.TEXT)), self.types[Kind.INT64]
        return (
            f"CREATE TABLE IF NOT EXISTS {table_name(table)} (connector {text} NOT NULL, task {number} NOT NULL, "
            f"topic {text} NOT NULL, partition_number {number} NOT NULL, next_offset {number} NOT NULL, "
            f"batch_id {number} NOT NULL, PRIMARY KEY (connector, topic, partition_number))"
        )

    def read_positions(self, table: Table, *, for_update: bool) -> str:
        lock = " FOR UPDATE" if for_update and self.locks_rows else ""
        return (
            f"SELECT topic, partition_number, next_offset, batch_id FROM {table_name(table)} WHERE connector = ?{lock}"
        )

    def write_position(self, table: Table) -> str:
        return (
            f"INSERT INTO {table_name(table)} (connector, task, topic, partition_number, next_offset, batch_id) "
            "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (connector, topic, partition_number) DO UPDATE SET "
            "task = excluded.task, next_offset = excluded.next_offset, batch_id = excluded.batch_id"
        )

    def forget_position(self, table: Table) -> str:
        return f"DELETE FROM {table_name(table)} WHERE connector = ? AND topic = ? AND partition_number = ?"

    # ---- reading

    def as_number(self, expression: str) -> str:
        return f"CAST({expression} AS BIGINT)"

    def one_row(self, query: str, offset: int) -> str:
        """Return the query, which has an order, for the row after the first ``offset`` ones."""
        return f"{query} LIMIT 1" + (f" OFFSET {offset}" if offset else "")

    def micros(self, column: str) -> str:
        """Convert a time to whole microseconds since 1970.

        SQLite has no type for times: text is read as ISO 8601, a whole number as milliseconds.
        """
        if self.name == "postgresql":
            return f"CAST(EXTRACT(EPOCH FROM {column}) * 1000000 AS BIGINT)"
        if self.name == "duckdb":
            return f"epoch_us(CAST({column} AS TIMESTAMP))"
        seconds = f"CAST(strftime('%s', {column}) AS INTEGER)"
        fraction = f"CAST(strftime('%f', {column}) AS REAL) - CAST(strftime('%S', {column}) AS REAL)"
        text = f"{seconds} * 1000000 + CAST(ROUND(({fraction}) * 1000) AS INTEGER) * 1000"
        return f"(CASE typeof({column}) WHEN 'integer' THEN {column} * 1000 ELSE {text} END)"

    def compared(self, column: str) -> str:
        """Return the expression compared with ``moment``: the column itself where an index on it helps."""
        if self.name == "duckdb":
            return f"CAST({column} AS TIMESTAMP)"
        return self.micros(column) if self.name == "sqlite" else column

    def moment(self, micros: int) -> str:
        if self.name == "sqlite":
            return str(micros)
        return f"TIMESTAMP '{moment_text(micros)}'"


def moment_text(micros: int) -> str:
    return (_EPOCH + timedelta(microseconds=micros)).strftime("%Y-%m-%d %H:%M:%S.%f")


SQLITE = Dialect(
    "sqlite",
    {
        **dict.fromkeys((Kind.BOOLEAN, Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64), "INTEGER"),
        **dict.fromkeys((Kind.FLOAT32, Kind.FLOAT64), "REAL"),
        Kind.DECIMAL: "NUMERIC",
        **dict.fromkeys((Kind.TEXT, Kind.DATE, Kind.TIMESTAMP), "TEXT"),
        Kind.BYTES: "BLOB",
    },
    "temp.barnabas_staging",
    "1",
)
POSTGRESQL = Dialect(
    "postgresql",
    {
        Kind.BOOLEAN: "BOOLEAN",
        Kind.INT8: "SMALLINT",
        Kind.INT16: "SMALLINT",
        Kind.INT32: "INTEGER",
        Kind.INT64: "BIGINT",
        Kind.FLOAT32: "REAL",
        Kind.FLOAT64: "DOUBLE PRECISION",
        Kind.DECIMAL: "DECIMAL",
        Kind.TEXT: "TEXT",
        Kind.BYTES: "BYTEA",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "TIMESTAMP",
    },
    "pg_temp.barnabas_staging",
    "TRUE",
    locks_rows=True,
    clock="clock_timestamp()",
)
DUCKDB = Dialect(
    "duckdb",
    {
        Kind.BOOLEAN: "BOOLEAN",
        Kind.INT8: "TINYINT",
        Kind.INT16: "SMALLINT",
        Kind.INT32: "INTEGER",
        Kind.INT64: "BIGINT",
        Kind.FLOAT32: "FLOAT",
        Kind.FLOAT64: "DOUBLE",
        Kind.DECIMAL: "DECIMAL",
        Kind.TEXT: "VARCHAR",
        Kind.BYTES: "BLOB",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "TIMESTAMP",
    },
    "temp.main.barnabas_staging",
    "TRUE",
    clock="now()",
)
