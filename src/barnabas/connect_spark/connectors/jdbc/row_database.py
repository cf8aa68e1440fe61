"""MariaDB, MySQL and SQL Server: their drivers load and return rows, and no files.

Rows go to the database as INSERT statements of up to a megabyte. Rows of a query are fetched in the JVM, by Spark's own
reader of results, and come to Python as Arrow, some ten thousand at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.connect_spark.connectors.jdbc.column_types import ColumnType, Kind
from barnabas.connect_spark.connectors.jdbc.database import DatabaseError
from barnabas.connect_spark.connectors.jdbc.database_driver import DriverDatabase, column_type
from barnabas.connect_spark.connectors.jdbc.mysql_dialect import MYSQL
from barnabas.connect_spark.connectors.jdbc.sql_dialect import columns_of

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import Column, DataFrame

__all__ = ["RowDatabase", "mysql_type", "sqlserver_type"]

_LOGIN_TIMEOUT_MS = "20000"
_ROWS_AT_A_TIME = 20_000
_SQL_MODE = (
    "ANSI_QUOTES,STRICT_ALL_TABLES,NO_ZERO_DATE,NO_ZERO_IN_DATE,ERROR_FOR_DIVISION_BY_ZERO,NO_ENGINE_SUBSTITUTION"
)
_ROWS_OF_A_STATEMENT = {"mysql": _ROWS_AT_A_TIME, "sqlserver": 1000}

_BYTES = dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob", "geometry"), Kind.BYTES)
_MYSQL_KINDS = {
    **_BYTES,
    "boolean": Kind.BOOLEAN,
    "tinyint": Kind.INT8,
    "smallint": Kind.INT16,
    "year": Kind.INT16,
    "mediumint": Kind.INT32,
    "int": Kind.INT32,
    "integer": Kind.INT32,
    "bigint": Kind.INT64,
    "float": Kind.FLOAT32,
    "double": Kind.FLOAT64,
    "date": Kind.DATE,
    "datetime": Kind.TIMESTAMP,
    "timestamp": Kind.TIMESTAMP,
}
_LARGER = {Kind.INT8: Kind.INT16, Kind.INT16: Kind.INT32, Kind.INT32: Kind.INT64}
_SQLSERVER_KINDS = {
    "bit": Kind.BOOLEAN,
    "tinyint": Kind.INT16,  # 0 to 255.
    "smallint": Kind.INT16,
    "int": Kind.INT32,
    "bigint": Kind.INT64,
    "real": Kind.FLOAT32,
    "float": Kind.FLOAT64,
    "binary": Kind.BYTES,
    "varbinary": Kind.BYTES,
    "image": Kind.BYTES,
    "timestamp": Kind.BYTES,  # A row version, and no time.
    "date": Kind.DATE,
    "datetime": Kind.TIMESTAMP,
    "datetime2": Kind.TIMESTAMP,
    "smalldatetime": Kind.TIMESTAMP,
    "datetimeoffset": Kind.TIMESTAMP,
}
_MONEY = {"money": ColumnType(Kind.DECIMAL, 19, 4), "smallmoney": ColumnType(Kind.DECIMAL, 10, 4)}

_FETCHED = {
    **dict.fromkeys((Kind.BOOLEAN, Kind.INT8, Kind.INT16, Kind.INT32, Kind.INT64), "bigint"),
    **dict.fromkeys((Kind.FLOAT32, Kind.FLOAT64), "double"),
    Kind.BYTES: "binary",
}
"""The types in which the driver returns values; others are text, which depends on no time zone of the JVM."""
_FINAL = {
    Kind.BOOLEAN: "boolean",
    Kind.INT8: "tinyint",
    Kind.INT16: "smallint",
    Kind.INT32: "int",
    Kind.FLOAT32: "float",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
}


def mysql_type(type_name: str, precision: int, scale: int) -> ColumnType:
    """Return our type for MariaDB's and MySQL's name, which may end with UNSIGNED."""
    name = type_name.partition("(")[0].replace("zerofill", "").strip()
    plain = name.removesuffix("unsigned").strip()
    if plain == "bit":
        return ColumnType(Kind.BOOLEAN if precision <= 1 else Kind.BYTES)
    found = column_type(_MYSQL_KINDS, plain, precision, scale)
    if plain == name or found.kind not in (*_LARGER, Kind.INT64):
        return found
    return ColumnType(Kind.DECIMAL, 20) if found.kind is Kind.INT64 else ColumnType(_LARGER[found.kind])


def sqlserver_type(type_name: str, precision: int, scale: int) -> ColumnType:
    name = type_name.removesuffix("identity").strip()
    return _MONEY.get(name) or column_type(_SQLSERVER_KINDS, name, precision, scale)


class RowDatabase(DriverDatabase):
    def _properties(self, user: str | None, password: str | None) -> dict[str, str]:
        login = {name: value for name, value in (("user", user), ("password", password)) if value}
        if self.dialect.name == "sqlserver":
            return {**login, "loginTimeout": "20", "applicationName": "barnabas", "sendTimeAsDatetime": "false"}
        return {**login, "connectTimeout": _LOGIN_TIMEOUT_MS, "tcpKeepAlive": "true", "allowLocalInfile": "false"}

    def _prepare_session(self) -> None:
        if self.dialect.name == "sqlserver":
            self.execute("SET QUOTED_IDENTIFIER, ANSI_NULLS, ANSI_WARNINGS, XACT_ABORT ON")
            return
        self.execute(f"SET SESSION sql_mode = '{_SQL_MODE}'")
        self.execute("SET SESSION time_zone = '+00:00'")
        if "mariadb" not in str(self.rows("SELECT VERSION()")[0][0]).lower():
            self.dialect = MYSQL

    def _column_type(self, type_name: str, precision: int, scale: int) -> ColumnType:
        kind = mysql_type if self.dialect.name == "mysql" else sqlserver_type
        return kind(type_name, precision, scale)

    def load(self, files: Sequence[Path], columns: Sequence[str], places: Sequence[int]) -> None:
        from barnabas.connect_spark.connectors.jdbc.insert_literals import insert_statements

        name = self.dialect.name
        staging = self._result_types(f"SELECT {columns_of(columns)} FROM {self.dialect.staging}")
        bytes_at = {place for place, (_, _, kind) in zip(places, staging, strict=True) if kind.kind is Kind.BYTES}
        head = f"INSERT INTO {self.dialect.staging} ({columns_of(columns)}) VALUES"
        with self._errors():
            statement = self._connection.createStatement()
            try:
                for sql in insert_statements(head, files, places, bytes_at, name, rows_max=_ROWS_OF_A_STATEMENT[name]):
                    statement.execute(sql)
            finally:
                statement.close()

    def unload(self, query: str, file: Path) -> int:
        import pyarrow.parquet as pq

        kinds = {name: kind for name, _, kind in self._result_types(query)}
        rows, writer = 0, None
        try:
            for table in self._tables(query, kinds):
                if writer is None:
                    writer = pq.ParquetWriter(file, table.schema)
                writer.write_table(table)
                rows += table.num_rows
        finally:
            if writer is not None:
                writer.close()
        return rows

    def _tables(self, query: str, kinds: Mapping[str, ColumnType]) -> Iterator[pa.Table]:
        """Yield the rows of a query in pieces. The cursor of the driver has a limited memory, too."""
        if self._spark is None:
            raise DatabaseError("a query needs the worker's Spark session", is_transient=True)
        ddl = ", ".join(f"`{_escaped(name)}`: {_FETCHED.get(kind.kind, 'string')}" for name, kind in kinds.items())
        from pyspark.sql.types import DataType

        struct = DataType.fromDDL(f"struct<{ddl}>").json()
        schema = self._jvm.org.apache.spark.sql.types.DataType.fromJson(struct)
        with self._errors(), self._statement(query, ()) as statement:
            statement.setFetchSize(_ROWS_AT_A_TIME)
            reader = self._jvm.org.apache.spark.sql.execution.datasources.jdbc.JdbcUtils
            found = reader.resultSetToRows(statement.executeQuery(), schema)
            as_java = self._jvm.scala.jdk.javaapi.CollectionConverters.asJava
            while found.hasNext():
                piece = self._jvm.java.util.ArrayList(as_java(found.take(_ROWS_AT_A_TIME).toList()))
                yield self._frame(piece, schema).select(*_restored(kinds)).toArrow()

    def _frame(self, rows: Any, schema: Any) -> DataFrame:
        from pyspark.sql import DataFrame as ClassicFrame

        spark: Any = self._spark
        return ClassicFrame(spark._jsparkSession.createDataFrame(rows, schema), spark)


def _restored(kinds: Mapping[str, ColumnType]) -> list[Column]:
    """Return the columns in their own types."""
    from pyspark.sql import functions as F

    columns = []
    for name, kind in kinds.items():
        column = F.col(f"`{_escaped(name)}`")
        if kind.kind is Kind.DECIMAL:
            column = column.cast(f"decimal({kind.precision},{kind.scale})")
        elif kind.kind is Kind.TIMESTAMP:
            has_zone = column.rlike("[+-][0-9]{2}:[0-9]{2}$")
            column = F.when(has_zone, column).otherwise(F.concat(column, F.lit("Z"))).cast("timestamp")
        elif kind.kind in _FINAL:
            column = column.cast(_FINAL[kind.kind])
        columns.append(column.alias(name))
    return columns


def _escaped(name: str) -> str:
    return name.replace("`", "``")
