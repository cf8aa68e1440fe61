"""The SQL of MariaDB and MySQL. A session has ANSI_QUOTES, so that names are quoted as in the other databases.

A statement that creates or changes a table commits the transaction, so a batch creates what is missing first. A key is
text of at most 255 characters, compared byte by byte. UPDATE and INSERT have forms of their own.
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
    quoted,
    table_name,
)

__all__ = ["MARIADB", "MYSQL", "MySqlDialect"]

_KEY_LENGTH = 255


@dataclass(frozen=True, slots=True)
class MySqlDialect(Dialect):
    key_collation: str = ""
    """A collation that distinguishes case, accents and spaces at the end."""

    def key_type(self, wanted: ColumnType) -> str:
        if wanted.kind is Kind.TEXT:
            return f"VARCHAR({_KEY_LENGTH}) CHARACTER SET utf8mb4 COLLATE {self.key_collation}"
        return f"VARBINARY({_KEY_LENGTH})" if wanted.kind is Kind.BYTES else self.column_type(wanted)

    def create_staging(self, table: Table, columns: Sequence[str]) -> str:
        # An outer join makes every column nullable, as records that delete have nulls.
        ours = f"{quoted(PARTITION)} INT, {quoted(OFFSET)} BIGINT, {quoted(DELETED)} BOOLEAN"
        found = f"(SELECT 1 AS one) AS d LEFT JOIN {table_name(table)} AS t ON 1 = 0 WHERE 1 = 0"
        selected = f" AS SELECT {columns_of(columns, 't.')} FROM {found}" if columns else ""
        return f"CREATE TEMPORARY TABLE {self._staging_name} ({ours}){selected}"

    @property
    def drop_staging(self) -> str:
        return f"DROP TEMPORARY TABLE IF EXISTS {self.staging}"

    def _upsert(self, table: Table, columns: Sequence[str], keys: Sequence[str]) -> str:
        changed = [column for column in columns if column not in keys] or list(keys[:1])
        sets = ", ".join(f"{quoted(name)} = VALUES({quoted(name)})" for name in changed)
        return (
            f"INSERT INTO {table_name(table)} ({columns_of(columns)}) SELECT {columns_of(columns)} "
            f"FROM {self._last(columns, keys)} WHERE {quoted(RANK)} = 1 AND NOT {self._deletes()} "
            f"ON DUPLICATE KEY UPDATE {sets}"
        )

    def _update(self, table: Table, columns: Sequence[str], keys: Sequence[str]) -> str:
        others = [column for column in columns if column not in keys]
        sets = ", ".join(f"t.{quoted(name)} = r.{quoted(name)}" for name in others)
        same = " AND ".join(f"r.{quoted(key)} = t.{quoted(key)}" for key in keys)
        return (
            f"UPDATE {table_name(table)} AS t INNER JOIN {self._last(columns, keys)} ON {same} SET {sets} "
            f"WHERE r.{quoted(RANK)} = 1 AND NOT {self._deletes('r.')}"
        )

    def write_position(self, table: Table) -> str:
        return (
            f"INSERT INTO {table_name(table)} (connector, task, topic, partition_number, next_offset, batch_id) "
            "VALUES (?, ?, ?, ?, ?, ?) ON DUPLICATE KEY UPDATE "
            "task = VALUES(task), next_offset = VALUES(next_offset), batch_id = VALUES(batch_id)"
        )

    def as_number(self, expression: str) -> str:
        return f"CAST({expression} AS SIGNED)"

    def micros(self, column: str) -> str:
        return f"TIMESTAMPDIFF(MICROSECOND, TIMESTAMP '1970-01-01 00:00:00', {column})"


_TYPES = {
    Kind.BOOLEAN: "BOOLEAN",
    Kind.INT8: "TINYINT",
    Kind.INT16: "SMALLINT",
    Kind.INT32: "INT",
    Kind.INT64: "BIGINT",
    Kind.FLOAT32: "FLOAT",
    Kind.FLOAT64: "DOUBLE",
    Kind.DECIMAL: "DECIMAL",
    Kind.TEXT: "LONGTEXT CHARACTER SET utf8mb4",
    Kind.BYTES: "LONGBLOB",
    Kind.DATE: "DATE",
    Kind.TIMESTAMP: "DATETIME(6)",
}


def _made(name: str, collation: str) -> MySqlDialect:
    return MySqlDialect(
        name,
        _TYPES,
        "barnabas_staging",
        "TRUE",
        locks_rows=True,
        clock="UTC_TIMESTAMP(6)",
        schema="DATABASE()",
        commits_ddl=True,
        key_collation=collation,
    )


MARIADB = _made("mysql", "utf8mb4_nopad_bin")
MYSQL = _made("mysql", "utf8mb4_0900_bin")
"""Since MySQL 8.0. MariaDB has no such collation, and MySQL not MariaDB's."""
