"""The SQL of Microsoft SQL Server 2016 and later, by its documented grammar. No SQL Server runs in the tests.

Double quotes are for names (QUOTED_IDENTIFIER ON, the default of its driver). Staging is a local temporary table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType, Kind
from barnabas.connect_spark.connectors.jdbc.sql_dialect import (
    DELETED,
    OFFSET,
    PARTITION,
    RANK,
    Dialect,
    Table,
    columns_of,
    moment_text,
    quoted,
    table_name,
)

__all__ = ["SQLSERVER", "SqlServerDialect"]

_KEY_TEXT = "NVARCHAR(255) COLLATE Latin1_General_100_BIN2"
_POSITION = ("connector", "task", "topic", "partition_number", "next_offset", "batch_id")
_POSITION_KEY = ("connector", "topic", "partition_number")


@dataclass(frozen=True, slots=True)
class SqlServerDialect(Dialect):
    def key_type(self, wanted: ColumnType) -> str:
        if wanted.kind is Kind.TEXT:
            return _KEY_TEXT
        return "VARBINARY(255)" if wanted.kind is Kind.BYTES else self.column_type(wanted)

    def add_column(self, table: Table, name: str, wanted: ColumnType) -> str:
        return f"ALTER TABLE {table_name(table)} ADD {quoted(name)} {self.column_type(wanted)}"

    def create_staging(self, table: Table, columns: Sequence[str]) -> str:
        # An outer join makes every column nullable, and keeps no IDENTITY.
        ours = f"CAST(NULL AS INT) AS {quoted(PARTITION)}, CAST(NULL AS BIGINT) AS {quoted(OFFSET)}, "
        ours += f"CAST(NULL AS BIT) AS {quoted(DELETED)}"
        selected = f"{columns_of(columns, 't.')}, {ours}" if columns else ours
        return (
            f"SELECT {selected} INTO {self.staging} FROM (SELECT 1 AS one) AS d "
            f"LEFT JOIN {table_name(table)} AS t ON 1 = 0 WHERE 1 = 0"
        )

    def _upsert(self, table: Table, columns: Sequence[str], keys: Sequence[str]) -> str:
        last = (
            f"(SELECT {columns_of(columns)} FROM {self._last(columns, keys)} "
            f"WHERE {quoted(RANK)} = 1 AND NOT {self._deletes()})"
        )
        return _merge(table_name(table), last, columns, keys)

    def _update(self, table: Table, columns: Sequence[str], keys: Sequence[str]) -> str:
        others = [column for column in columns if column not in keys]
        sets = ", ".join(f"{quoted(name)} = r.{quoted(name)}" for name in others)
        same = " AND ".join(f"r.{quoted(key)} = t.{quoted(key)}" for key in keys)
        return (
            f"UPDATE t SET {sets} FROM {table_name(table)} AS t INNER JOIN {self._last(columns, keys)} ON {same} "
            f"WHERE r.{quoted(RANK)} = 1 AND NOT {self._deletes('r.')}"
        )

    def create_positions(self, table: Table) -> str:
        number = self.types[Kind.INT64]
        name = table_name(table)
        return (
            f"IF OBJECT_ID(N'{name.replace(chr(39), chr(39) * 2)}', N'U') IS NULL CREATE TABLE {name} "
            f"(connector {_KEY_TEXT} NOT NULL, task {number} NOT NULL, topic {_KEY_TEXT} NOT NULL, "
            f"partition_number {number} NOT NULL, next_offset {number} NOT NULL, batch_id {number} NOT NULL, "
            "PRIMARY KEY NONCLUSTERED (connector, topic, partition_number))"
        )

    def read_positions(self, table: Table, *, for_update: bool) -> str:
        lock = " WITH (UPDLOCK, HOLDLOCK)" if for_update else ""
        return (
            f"SELECT topic, partition_number, next_offset, batch_id FROM {table_name(table)}{lock} WHERE connector = ?"
        )

    def write_position(self, table: Table) -> str:
        marks = ", ".join("?" for _ in _POSITION)
        row = f"(SELECT * FROM (VALUES ({marks})) AS v ({columns_of(_POSITION)}))"
        return _merge(table_name(table), row, _POSITION, _POSITION_KEY)

    def one_row(self, query: str, offset: int) -> str:
        return f"{query} OFFSET {offset} ROWS FETCH NEXT 1 ROWS ONLY"

    def micros(self, column: str) -> str:
        return f"DATEDIFF_BIG(MICROSECOND, CAST('1970-01-01' AS DATETIME2(6)), {column})"

    def moment(self, micros: int) -> str:
        return f"CAST('{moment_text(micros)}' AS DATETIME2(6))"


def _merge(target: str, rows: str, columns: Sequence[str], keys: Sequence[str]) -> str:
    """Return a MERGE. HOLDLOCK: without it two sessions may both insert a key."""
    same = " AND ".join(f"t.{quoted(key)} = r.{quoted(key)}" for key in keys)
    sets = ", ".join(f"{quoted(name)} = r.{quoted(name)}" for name in columns if name not in keys)
    matched = f" WHEN MATCHED THEN UPDATE SET {sets}" if sets else ""
    return (
        f"MERGE INTO {target} WITH (HOLDLOCK) AS t USING {rows} AS r ON {same}{matched} "
        f"WHEN NOT MATCHED THEN INSERT ({columns_of(columns)}) VALUES ({columns_of(columns, 'r.')});"
    )


SQLSERVER = SqlServerDialect(
    "sqlserver",
    {
        Kind.BOOLEAN: "BIT",
        Kind.INT8: "SMALLINT",  # TINYINT has no negative numbers.
        Kind.INT16: "SMALLINT",
        Kind.INT32: "INT",
        Kind.INT64: "BIGINT",
        Kind.FLOAT32: "REAL",
        Kind.FLOAT64: "FLOAT",
        Kind.DECIMAL: "DECIMAL",
        Kind.TEXT: "NVARCHAR(MAX)",
        Kind.BYTES: "VARBINARY(MAX)",
        Kind.DATE: "DATE",
        Kind.TIMESTAMP: "DATETIME2(6)",
    },
    "#barnabas_staging",
    "1",
    locks_rows=True,
    clock="SYSUTCDATETIME()",
    schema="SCHEMA_NAME()",
)
