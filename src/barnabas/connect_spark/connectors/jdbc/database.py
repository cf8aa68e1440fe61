"""One connection to a database, as the connectors use it: run statements, load whole files, write whole results.

Rows don't pass through Python one by one where the database can do better: DuckDB reads and writes Parquet itself, and
PostgreSQL copies. SQLite is part of Python. Everything between two commits is one transaction.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType, Kind, TableColumn
from barnabas.connect_spark.connectors.jdbc.database_address import DatabaseAddress
from barnabas.connect_spark.connectors.jdbc.dialects import dialect_of
from barnabas.connect_spark.connectors.jdbc.sql_dialect import Dialect, columns_of

__all__ = ["Database", "DatabaseError", "SqliteDatabase"]

Parameter = str | int | None
_ROWS_AT_A_TIME = 20_000
_SQLITE_BUSY_S = 30


class DatabaseError(Exception):
    """The database refused, or was unreachable. ``is_transient`` says that a retry may succeed."""

    def __init__(self, message: str, *, is_transient: bool) -> None:
        super().__init__(message)
        self.is_transient = is_transient


class Database(Protocol):
    """Every method raises DatabaseError."""

    @property
    def dialect(self) -> Dialect: ...

    def begin(self) -> None:
        """Start a transaction that will write."""

    def execute(self, sql: str, parameters: Sequence[Parameter] = ()) -> None: ...

    def rows(self, sql: str, parameters: Sequence[Parameter] = ()) -> list[tuple[Any, ...]]: ...

    def columns(self, table: tuple[str, ...]) -> list[TableColumn]:
        """Return the columns of a table or view, in its order; empty if it does not exist."""

    def load(self, files: Sequence[Path], columns: Sequence[str], places: Sequence[int]) -> None:
        """Load Parquet files into the staging table. Columns are given with their place among those of the files."""

    def unload(self, query: str, file: Path) -> int:
        """Write the result of a query to a Parquet file. Return the number of rows."""

    def commit(self) -> None: ...

    def rollback(self) -> None: ...

    def close(self) -> None: ...


class SqliteDatabase:
    def __init__(self, address: DatabaseAddress) -> None:
        self.dialect = dialect_of("sqlite")
        self._path = address.path
        try:
            # Batches of one task come from different threads of Spark, one after another.
            self._connection = sqlite3.connect(
                str(address.path), timeout=_SQLITE_BUSY_S, isolation_level=None, check_same_thread=False
            )
        except sqlite3.Error as error:
            raise self._error(error) from error

    def _error(self, error: sqlite3.Error) -> DatabaseError:
        code = getattr(error, "sqlite_errorcode", None)
        is_transient = code is not None and code & 0xFF in (
            sqlite3.SQLITE_BUSY,
            sqlite3.SQLITE_LOCKED,
            sqlite3.SQLITE_FULL,
        )
        return DatabaseError(f"{self._path}: {error}", is_transient=is_transient)

    def begin(self) -> None:
        self.execute("BEGIN IMMEDIATE")

    def execute(self, sql: str, parameters: Sequence[Parameter] = ()) -> None:
        self.rows(sql, parameters)

    def rows(self, sql: str, parameters: Sequence[Parameter] = ()) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(sql, parameters).fetchall()
        except sqlite3.Error as error:
            raise self._error(error) from error

    def columns(self, table: tuple[str, ...]) -> list[TableColumn]:
        marks = ", ".join("?" for _ in table)
        sql = f'SELECT name, type, "notnull", pk FROM pragma_table_info({marks})'
        found = self.rows(sql, tuple(reversed(table)))
        alone = sum(1 for row in found if row[3]) == 1
        return [
            TableColumn(name, kind, not (notnull or (alone and pk and kind.upper() == "INTEGER")), _sqlite_type(kind))
            for name, kind, notnull, pk in found
        ]

    def load(self, files: Sequence[Path], columns: Sequence[str], places: Sequence[int]) -> None:
        import pyarrow.parquet as pq

        marks = ", ".join("?" for _ in columns)
        sql = f"INSERT INTO {self.dialect.staging} ({columns_of(columns)}) VALUES ({marks})"
        for file in files:
            for batch in pq.ParquetFile(file).iter_batches(_ROWS_AT_A_TIME, columns=[f"c{at}" for at in places]):
                rows = zip(*(column.to_pylist() for column in batch.columns), strict=True)
                try:
                    self._connection.executemany(sql, rows)
                except sqlite3.Error as error:
                    raise self._error(error) from error
                except OverflowError as error:
                    raise DatabaseError(f"{self._path}: {error}", is_transient=False) from error

    def unload(self, query: str, file: Path) -> int:
        from barnabas.connect_spark.connectors.jdbc.load_files import write_untyped

        try:
            cursor = self._connection.execute(query)
            names = [column[0] for column in cursor.description]
            return write_untyped(names, iter(lambda: cursor.fetchmany(_ROWS_AT_A_TIME), []), file)
        except sqlite3.Error as error:
            raise self._error(error) from error
        except ValueError as error:
            raise DatabaseError(f"{self._path}: {error}", is_transient=False) from error

    def commit(self) -> None:
        if self._connection.in_transaction:
            self.execute("COMMIT")

    def rollback(self) -> None:
        if self._connection.in_transaction:
            self.execute("ROLLBACK")

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()


def _sqlite_type(declared: str) -> ColumnType:
    """Return the type by SQLite's rules of affinity."""
    name = declared.upper()
    for parts, kind in (
        (("BOOL",), Kind.BOOLEAN),
        (("INT",), Kind.INT64),
        (("CHAR", "CLOB", "TEXT"), Kind.TEXT),
        (("BLOB",), Kind.BYTES),
        (("REAL", "FLOA", "DOUB"), Kind.FLOAT64),
        (("TIMESTAMP", "DATETIME"), Kind.TIMESTAMP),
        (("DATE",), Kind.DATE),
    ):
        if any(part in name for part in parts):
            return ColumnType(kind)
    return ColumnType(Kind.DECIMAL)
