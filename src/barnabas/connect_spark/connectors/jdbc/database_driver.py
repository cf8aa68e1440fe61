"""PostgreSQL, DuckDB and others, through their drivers in the JVM of the Spark session.

A driver is loaded from its jar when the first connector needs it, in addition to the session's own jars. Python passes
statements and file names; rows go from file to database: DuckDB reads Parquet itself, PostgreSQL's driver copies CSV.
The copied form does not depend on a session's settings: bytes are hexadecimal digits, days and microseconds since 1970
are numbers.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType, Kind, TableColumn
from barnabas.connect_spark.connectors.jdbc.database import DatabaseError, Parameter
from barnabas.connect_spark.connectors.jdbc.database_address import DatabaseAddress
from barnabas.connect_spark.connectors.jdbc.dialects import dialect_of
from barnabas.connect_spark.connectors.jdbc.sql_dialect import columns_of, quoted
from barnabas.connect_spark.sessions.session_kind import is_remote
from barnabas.spark.connector_jars import (
    cache_directory,
    duckdb_jars,
    mariadb_jars,
    postgresql_jars,
    sqlserver_jars,
)
from barnabas.spark.errors import SparkUnavailable
from barnabas.spark.java_runtime import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DriverDatabase", "column_type", "is_transient_error"]

_DRIVERS = {
    "postgresql": "org.postgresql.Driver",
    "duckdb": "org.duckdb.DuckDBDriver",
    "mysql": "org.mariadb.jdbc.Driver",
    "sqlserver": "com.microsoft.sqlserver.jdbc.SQLServerDriver",
}
_LOGIN_TIMEOUT_S = "20"
_COPY_BYTES = 1 << 16
_MOST_DIGITS = 38

_lock = threading.Lock()
_drivers: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
"""The drivers that each JVM has loaded: only one class loader can load a native library of a driver."""

_DECIDED = ("22", "23", "42", "28", "3D")
"""Classes of SQLSTATE that a retry can't fix: bad data, constraint, wrong statement or password, no database."""
_SOMEBODY_WAS_FASTER = ("42P07", "42701", "42S01", "42S21")
_MADE_AT_ONCE = ("pg_type_typname_nsp_index", "pg_class_relname_nsp_index", "already exists")
"""If two tasks create the same table or column, one receives this error, and finds the table when it retries."""
_DECIDED_BY_DUCKDB = ("Constraint", "Conversion", "Binder", "Catalog", "Parser", "Out of Range", "Invalid Input")

_DECIDED_BY_SQLSERVER = frozenset(
    # Syntax, names, types, nulls, keys, lengths, rights, login, database.
    (102, 156, 207, 208, 220, 229, 241, 245, 242, 248, 515, 547, 2601, 2627, 2628, 8114, 8115, 8152, 4060, 18456)
)

_KINDS = {
    "bool": Kind.BOOLEAN,
    "boolean": Kind.BOOLEAN,
    "tinyint": Kind.INT8,
    "int2": Kind.INT16,
    "smallserial": Kind.INT16,
    "smallint": Kind.INT16,
    "utinyint": Kind.INT16,
    "int4": Kind.INT32,
    "serial": Kind.INT32,
    "integer": Kind.INT32,
    "usmallint": Kind.INT32,
    "int8": Kind.INT64,
    "bigserial": Kind.INT64,
    "bigint": Kind.INT64,
    "uinteger": Kind.INT64,
    "float4": Kind.FLOAT32,
    "float": Kind.FLOAT32,
    "float8": Kind.FLOAT64,
    "double": Kind.FLOAT64,
    "bytea": Kind.BYTES,
    "blob": Kind.BYTES,
    "date": Kind.DATE,
    "timestamp": Kind.TIMESTAMP,
    "timestamptz": Kind.TIMESTAMP,
    "timestamp with time zone": Kind.TIMESTAMP,
}


class DriverDatabase:
    def __init__(
        self, address: DatabaseAddress, user: str | None, password: str | None, spark: SparkSession | None
    ) -> None:
        from pyspark import SparkContext

        if spark is not None and is_remote(spark):
            raise DatabaseError(
                f"{address.dialect} is accessed by its driver in the JVM of a Spark of the worker's own, and this "
                "one is a Spark Connect server (sc://). Use jdbc:sqlite:, or a worker with "
                "barnabas.connect.spark.master=local[*] or spark://host:port",
                is_transient=False,
            )
        context = spark.sparkContext if spark is not None else SparkContext._active_spark_context
        if context is None:
            raise DatabaseError(
                f"{address.dialect} is accessed through the worker's Spark session, and this worker has none yet: it "
                "starts with the first task. Ask a worker that has run tasks, or start a connector on this one first.",
                is_transient=True,
            )
        self.dialect = dialect_of(address.dialect)
        self._where = address.url
        self._spark = spark
        gateway: Any = context._gateway
        self._jvm: Any = gateway.jvm
        driver = _driver(gateway, address.dialect)
        properties = self._jvm.java.util.Properties()
        for name, value in self._properties(user, password).items():
            properties.setProperty(name, value)
        with self._errors():
            self._connection = driver.connect(address.url, properties)
            self._prepare_session()
            self._connection.setAutoCommit(False)

    def _properties(self, user: str | None, password: str | None) -> dict[str, str]:
        """Return the driver's own settings."""
        if self.dialect.name != "postgresql":
            return {}
        login = {name: value for name, value in (("user", user), ("password", password)) if value}
        limits = {"loginTimeout": _LOGIN_TIMEOUT_S, "connectTimeout": _LOGIN_TIMEOUT_S}
        return {**login, **limits, "ApplicationName": "barnabas", "tcpKeepAlive": "true"}

    def _prepare_session(self) -> None:
        """Make times those of UTC."""
        self.execute("SET TIME ZONE 'UTC'" if self.dialect.name == "postgresql" else "SET TimeZone = 'UTC'")

    def begin(self) -> None:
        """Do nothing: the first statement begins a transaction."""

    def execute(self, sql: str, parameters: Sequence[Parameter] = ()) -> None:
        with self._errors(), self._statement(sql, parameters) as statement:
            statement.execute()

    def rows(self, sql: str, parameters: Sequence[Parameter] = ()) -> list[tuple[Any, ...]]:
        with self._errors(), self._statement(sql, parameters) as statement:
            result = statement.executeQuery()
            width = result.getMetaData().getColumnCount()
            found: list[tuple[Any, ...]] = []
            while result.next():
                found.append(tuple(_plain(result, at + 1) for at in range(width)))
            return found

    def columns(self, table: tuple[str, ...]) -> list[TableColumn]:
        # PostgreSQL's own catalogue lists also what the user may not read; a bare name is resolved as in statements.
        schema = self.dialect.schema if len(table) == 1 else "?"
        sql = (
            "SELECT column_name, is_nullable FROM information_schema.columns "
            f"WHERE table_schema = {schema} AND table_name = ? ORDER BY ordinal_position"
        )
        nullable = {str(name): text in ("YES", "true", "True") for name, text in self.rows(sql, table)}
        if not nullable:
            return []
        types = self._result_types(f"SELECT * FROM {'.'.join(quoted(part) for part in table)} WHERE 1 = 0")
        return [TableColumn(name, type_name, nullable.get(name, True), kind) for name, type_name, kind in types]

    def load(self, files: Sequence[Path], columns: Sequence[str], places: Sequence[int]) -> None:
        if self.dialect.name == "duckdb":
            sources = ", ".join("'" + str(file).replace("'", "''") + "'" for file in files)
            chosen = columns_of([f"c{at}" for at in places])
            self.execute(
                f"INSERT INTO {self.dialect.staging} ({columns_of(columns)}) "
                f"SELECT {chosen} FROM read_parquet([{sources}], hive_partitioning = false)"
            )
            return
        from barnabas.connect_spark.connectors.jdbc.load_files import csv_pieces

        copy = f"COPY {self.dialect.staging} ({columns_of(columns)}) FROM STDIN (FORMAT csv)"
        with self._errors(), tempfile.TemporaryDirectory(prefix="barnabas-jdbc-") as scratch:
            for piece in csv_pieces(files, places, Path(scratch)):
                stream = self._jvm.java.io.FileInputStream(str(piece))
                try:
                    self._connection.getCopyAPI().copyIn(copy, stream, _COPY_BYTES)
                finally:
                    stream.close()

    def unload(self, query: str, file: Path) -> int:
        if self.dialect.name == "duckdb":
            target = "'" + str(file).replace("'", "''") + "'"
            self.execute(f"COPY ({self._selected(query)}) TO {target} (FORMAT parquet)")
            return int(self.rows(f"SELECT COUNT(*) FROM read_parquet([{target}])")[0][0])
        from barnabas.connect_spark.connectors.jdbc.load_files import csv_to_parquet

        columns = {name: kind for name, _, kind in self._result_types(query)}
        copy = f"COPY ({self._selected(query)}) TO STDOUT (FORMAT csv, FORCE_QUOTE *)"
        with self._errors(), tempfile.TemporaryDirectory(prefix="barnabas-jdbc-") as scratch:
            source = Path(scratch) / "rows.csv"
            stream = self._jvm.java.io.FileOutputStream(str(source))
            try:
                self._connection.getCopyAPI().copyOut(copy, stream)
            finally:
                stream.close()
            return csv_to_parquet(source, columns, file)

    def commit(self) -> None:
        with self._errors():
            self._connection.commit()

    def rollback(self) -> None:
        with self._errors():
            self._connection.rollback()

    def close(self) -> None:
        with suppress(Exception):  # The JVM, and so the connection, may have ended.
            self._connection.close()

    # ---- types of results

    def _result_types(self, query: str) -> list[tuple[str, str, ColumnType]]:
        """Return name, database type and our type of each column, without running the query."""
        with self._errors(), self._statement(query, ()) as statement:
            data = statement.getMetaData()
            found = []
            for at in range(1, data.getColumnCount() + 1):
                type_name = str(data.getColumnTypeName(at)).lower()
                found.append(
                    (
                        str(data.getColumnLabel(at)),
                        type_name,
                        self._column_type(type_name, data.getPrecision(at), data.getScale(at)),
                    )
                )
        doubled = sorted({name for name, _, _ in found if [column[0] for column in found].count(name) > 1})
        if doubled:
            raise DatabaseError(
                f"the query returns more than one column {', '.join(doubled)}: name them with AS", is_transient=False
            )
        return found

    def _column_type(self, type_name: str, precision: int, scale: int) -> ColumnType:
        return column_type(_KINDS, type_name, precision, scale)

    def _selected(self, query: str) -> str:
        """Return the query with its columns in the form in which they are transferred."""
        columns = ", ".join(self._transferred(name, kind) for name, _, kind in self._result_types(query))
        return f"SELECT {columns} FROM ({query}) AS barnabas_rows"

    def _transferred(self, name: str, kind: ColumnType) -> str:
        column = quoted(name)
        if self.dialect.name == "duckdb":
            plain = {Kind.TEXT: f"CAST({column} AS VARCHAR)", Kind.TIMESTAMP: f"CAST({column} AS TIMESTAMPTZ)"}
            return f"{plain.get(kind.kind, column)} AS {column}"
        forms = {
            Kind.BYTES: f"encode({column}, 'hex')",
            Kind.DATE: f"{column} - DATE '1970-01-01'",
            Kind.TIMESTAMP: self.dialect.micros(column),
            Kind.TEXT: f"CAST({column} AS TEXT)",
        }
        return f"{forms.get(kind.kind, column)} AS {column}"

    # ---- the JVM

    @contextmanager
    def _statement(self, sql: str, parameters: Sequence[Parameter]) -> Iterator[Any]:
        statement = self._connection.prepareStatement(sql)
        try:
            for at, value in enumerate(parameters, 1):
                if isinstance(value, int):
                    statement.setLong(at, value)
                elif value is None:
                    statement.setNull(at, 0)
                else:
                    statement.setString(at, value)
            yield statement
        finally:
            with suppress(Exception):
                statement.close()

    @contextmanager
    def _errors(self) -> Iterator[None]:
        from py4j.protocol import Py4JError, Py4JJavaError

        try:
            yield
        except Py4JJavaError as error:
            raise self._error(error.java_exception) from error
        except Py4JError as error:
            raise DatabaseError(f"{self._where}: the JVM can't be reached: {error}", is_transient=True) from error

    def _error(self, thrown: Any) -> DatabaseError:
        message = str(thrown.getMessage() or thrown.getClass().getName()).strip()
        state = ""
        with suppress(Exception):
            state = str(thrown.getSQLState() or "")
        code = 0
        with suppress(Exception):
            code = int(thrown.getErrorCode())
        is_transient = is_transient_error(self.dialect.name, state, message, code)
        return DatabaseError(f"{self._where}: {message}", is_transient=is_transient)


def is_transient_error(dialect: str, state: str, message: str, code: int = 0) -> bool:
    """Decide by SQLSTATE, which DuckDB lacks, by the message, and by SQL Server's error number."""
    if dialect == "sqlserver":
        return code not in _DECIDED_BY_SQLSERVER
    if state in _SOMEBODY_WAS_FASTER or any(text in message for text in _MADE_AT_ONCE):
        return True
    if dialect == "duckdb":
        return not any(f"{word} Error" in message for word in _DECIDED_BY_DUCKDB)
    return state[:2] not in _DECIDED


def _plain(result: Any, at: int) -> Any:
    value = result.getObject(at)
    return value if value is None or isinstance(value, str | int | bool | float) else str(value)


def column_type(kinds: Mapping[str, Kind], type_name: str, precision: int, scale: int) -> ColumnType:
    """Return our type for the database's name of a type, without its length."""
    name = type_name.partition("(")[0].strip()
    if name in ("numeric", "decimal") and 0 < precision <= _MOST_DIGITS and 0 <= scale <= precision:
        return ColumnType(Kind.DECIMAL, precision, scale)
    return ColumnType(kinds.get(name, Kind.TEXT))


def _driver(gateway: Any, dialect: str) -> Any:
    """Return the driver. Raise DatabaseError."""
    with _lock:
        known = _drivers.setdefault(gateway, {})
        if dialect not in known:
            known[dialect] = _loaded(gateway, dialect)
        return known[dialect]


def _loaded(gateway: Any, dialect: str) -> Any:
    jars: dict[str, Callable[..., list[Path]]] = {
        "postgresql": postgresql_jars,
        "duckdb": duckdb_jars,
        "mysql": mariadb_jars,
        "sqlserver": sqlserver_jars,
    }
    try:
        paths = jars[dialect](cache_directory(os.environ), find_java(os.environ), _tell)
    except SparkUnavailable as error:
        raise DatabaseError(str(error), is_transient=True) from error
    urls = gateway.new_array(gateway.jvm.java.net.URL, len(paths))
    for at, path in enumerate(paths):
        urls[at] = gateway.jvm.java.io.File(str(path)).toURI().toURL()
    loader = gateway.jvm.java.net.URLClassLoader(urls)
    return (
        loader.loadClass(_DRIVERS[dialect])
        .getDeclaredConstructor(gateway.new_array(gateway.jvm.Class, 0))
        .newInstance(gateway.new_array(gateway.jvm.Object, 0))
    )


def _tell(message: str) -> None:
    logging.getLogger(__name__).info(message)
