"""Tables and queries of a database to topics, by the settings of the widely known JDBC source connector.

Each table goes to the topic ``topic.prefix`` + table, a query to ``topic.prefix`` itself; a row is an object. Delivery
is at least once: a batch is in Kafka before its position is, and is repeated after a crash between the two.
``source_reading`` describes why no row is lost.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.connect.plugins.api import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmptyString,
    Range,
    SourceConnector,
    SourceOffset,
    TerminalError,
    ValidString,
)
from barnabas.connect_spark.connectors.jdbc.column_types import WHOLE_NUMBERS, Kind, TableColumn
from barnabas.connect_spark.connectors.jdbc.database import Database, DatabaseError
from barnabas.connect_spark.connectors.jdbc.database_access import DatabaseAccess
from barnabas.connect_spark.connectors.jdbc.jdbc_settings import CONNECTION, STAGING, connection_errors
from barnabas.connect_spark.connectors.jdbc.source_reading import Position, Reading, partition_of
from barnabas.connect_spark.queries.polled_source import Polled, PolledSourceTask

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["JdbcSource"]

_MODES = ("bulk", "incrementing", "timestamp", "timestamp+incrementing")
_TABLES = "tables"
_OTHERS_OF_JAVA = {
    "catalog.pattern": "",
    "schema.pattern": "",
    "table.blacklist": "",
    "query.suffix": "",
    "timestamp.initial": "",
    "timestamp.granularity": "connect_logical",
    "transaction.isolation.mode": "default",
    "numeric.precision.mapping": "false",
}


class _Table:
    """A table or query while its task runs."""

    def __init__(self, name: str | None, reading: Reading, position: Position) -> None:
        self.name = name
        self.reading = reading
        self.position = position
        self.due_s = 0.0


class JdbcSourceTask(PolledSourceTask):
    def start(self, spark: SparkSession) -> None:
        self._access = DatabaseAccess(self.settings, spark, must_exist=True)
        self._folder = self._access.folder()
        self._spark = spark
        self._batch = 0
        self._next = 0
        self._tables: list[_Table] = []
        names = (
            str(self.config[_TABLES]).split(",")
            if _TABLES in self.config
            else _listed(self.settings["table.whitelist"])
        )
        self._names: list[str | None] = [*names] or [None]

    def stop(self) -> None:
        self._access.close()

    def poll(self, spark: SparkSession) -> Polled | None:
        """Poll the tables in turn, so that none waits for a busy one. The rows of the previous call are now safe."""
        shutil.rmtree(self._folder / str(self._batch), ignore_errors=True)
        try:
            database = self._access.database()
            if not self._tables:
                self._tables = [self._table(database, name) for name in self._names]
            for _ in self._tables:
                table = self._tables[self._next % len(self._tables)]
                self._next += 1
                if table.due_s <= time.monotonic():
                    found = self._read(database, table)
                    if found is not None:
                        return found
        except DatabaseError as error:
            self._access.disconnect()
            if error.is_transient:
                raise
            raise TerminalError(str(error)) from error
        return None

    # ---- one table

    def _read(self, database: Database, table: _Table) -> Polled | None:
        interval_s = int(str(self.settings["poll.interval.ms"])) / 1000
        rows_max = int(str(self.settings["batch.max.rows"]))
        reading, position = table.reading, table.position
        is_full = False
        end: Position | None = position
        if reading.mode != "bulk":
            until = self._until(database) if reading.has_times else 0
            end = _position(database.rows(reading.end(position, until, rows_max)))
            is_full = end is not None
            if end is None:
                end = _position(database.rows(reading.last(position, until)))
        if not is_full:
            table.due_s = time.monotonic() + interval_s
        if end is None:
            database.rollback()
            return None
        return self._unload(database, table, reading.rows(position, end), end)

    def _unload(self, database: Database, table: _Table, query: str, end: Position) -> Polled | None:
        from pyspark.sql import functions as F

        self._batch += 1
        folder = self._folder / str(self._batch)
        folder.mkdir()
        file = folder / "rows.parquet"
        rows = database.unload(query, file)
        database.rollback()  # Nothing was changed: the next batch sees what others have committed meanwhile.
        table.position = end
        if rows == 0:
            return None
        frame = self._spark.read.parquet(file.as_uri()).coalesce(1)  # One writer, so that rows keep their order.
        topic = str(self.settings["topic.prefix"]) + (table.name or "")
        fields = [F.col(f"`{name.replace('`', '``')}`") for name in frame.columns]
        records = frame.select(F.lit(topic).alias("topic"), F.struct(*fields).alias("value"))
        offset = end.offset()
        return Polled(records, [SourceOffset(partition_of(table.name), offset)] if offset else [], rows)

    def _until(self, database: Database) -> int:
        """Return the moment before which rows are read, in microseconds."""
        delay_ms = int(str(self.settings["timestamp.delay.interval.ms"]))
        if not database.dialect.clock:
            return time.time_ns() // 1000 - delay_ms * 1000
        now = database.rows(f"SELECT {database.dialect.micros(database.dialect.clock)}")
        return int(now[0][0]) - delay_ms * 1000

    # ---- the first position

    def _table(self, database: Database, name: str | None) -> _Table:
        partition = partition_of(name)
        try:
            position = Position.of(self.context.source_offset(partition))
        except ValueError as error:
            raise TerminalError(f"the offset of {partition} can't be used: {error}. Reset or alter it.") from None
        mode = str(self.settings["mode"])
        incrementing = str(self.settings["incrementing.column.name"] or "")
        timestamps = tuple(_listed(self.settings["timestamp.column.name"]))
        target = None if name is None else tuple(name.split("."))
        reading = Reading.of(
            database.dialect, target, str(self.settings["query"] or ""), mode, incrementing, timestamps
        )
        if target is not None:
            columns = {column.name: column for column in database.columns(target)}
            check_columns(name or "", columns, reading, must_be_set=bool(self.settings["validate.non.null"]))
        return _Table(name, reading, position)


def _position(rows: Sequence[tuple[Any, ...]]) -> Position | None:
    if not rows:
        return None
    number, micros = rows[0]
    return Position(None if number is None else int(number), None if micros is None else int(micros))


def check_columns(table: str, columns: Mapping[str, TableColumn], reading: Reading, *, must_be_set: bool) -> None:
    """Raise TerminalError for a table that can't be read in this way."""
    if not columns:
        raise TerminalError(f"no table {table}, or the user may not see it. Correct table.whitelist.")
    numbers = {reading.incrementing: "incrementing.column.name"} if reading.has_numbers else {}
    times = dict.fromkeys(reading.timestamps, "timestamp.column.name") if reading.has_times else {}
    for name, setting in {**numbers, **times}.items():
        if name not in columns:
            raise TerminalError(f"{table} has no column {name} ({setting}). It has {', '.join(columns)}.")
    for name, setting in numbers.items():
        kind = columns[name].type
        if kind.kind not in WHOLE_NUMBERS and not (kind.kind is Kind.DECIMAL and kind.scale == 0):
            raise TerminalError(
                f"the column {name} of {table} is {columns[name].type_name}, but {setting} needs whole numbers."
            )
    open_times = [name for name in times if columns[name].is_nullable]
    # The first non-null time counts, so one column that is never null is enough.
    open_columns = [name for name in numbers if columns[name].is_nullable]
    open_columns += open_times if len(open_times) == len(times) else []
    if must_be_set and open_columns:
        raise TerminalError(
            f"the column {', '.join(open_columns)} of {table} may be null, and a row without it would never be read. "
            "Make it NOT NULL, or set validate.non.null=false to skip such rows."
        )


class JdbcSource(SourceConnector):
    """New and changed rows of tables of SQLite, DuckDB, PostgreSQL, MariaDB, MySQL or SQL Server."""

    version = "1.0.0"
    aliases: ClassVar[tuple[str, ...]] = (
        "io.confluent.connect.jdbc.JdbcSourceConnector",
        "io.aiven.connect.jdbc.JdbcSourceConnector",
    )
    config_def = ConfigDef(
        [
            *CONNECTION,
            ConfigKey(
                "mode",
                ConfigType.STRING,
                REQUIRED,
                "bulk: all rows each time. incrementing: rows with a greater number than before. timestamp: rows "
                "with a later time. timestamp+incrementing: by time, and by number where times are equal.",
                ValidString(_MODES),
                Importance.HIGH,
            ),
            ConfigKey("incrementing.column.name", ConfigType.STRING, "", "A column whose number grows with each row."),
            ConfigKey(
                "timestamp.column.name",
                ConfigType.LIST,
                "",
                "A column with the time of the last change, in UTC; of several the first that is not null.",
            ),
            ConfigKey("table.whitelist", ConfigType.LIST, "", "The tables to read, with a schema if need be."),
            ConfigKey("query", ConfigType.STRING, "", "A query to read instead of tables; its rows are filtered."),
            ConfigKey(
                "topic.prefix",
                ConfigType.STRING,
                REQUIRED,
                "A table's topic is this prefix and the table's name; a query's topic is the prefix.",
                NonEmptyString(),
                Importance.HIGH,
            ),
            ConfigKey("poll.interval.ms", ConfigType.INT, "5000", "How often a table is queried.", Range(0)),
            ConfigKey("batch.max.rows", ConfigType.INT, "10000", "How many rows a batch has.", Range(1)),
            ConfigKey(
                "timestamp.delay.interval.ms",
                ConfigType.LONG,
                "0",
                "The minimum age of a row: longer than the longest transaction, so that none is committed late.",
                Range(0),
                Importance.HIGH,
            ),
            ConfigKey(
                "validate.non.null",
                ConfigType.BOOLEAN,
                "true",
                "Whether a column that may be null is refused as incrementing or timestamp column.",
            ),
            STAGING,
        ]
    )
    task_class = JdbcSourceTask

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        tables = _listed(self.settings["table.whitelist"])
        if not tables:
            return [dict(self.config)]
        count = min(max_tasks, len(tables))
        return [{**self.config, _TABLES: ",".join(tables[first::count])} for first in range(count)]

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
        errors = connection_errors(config, settings, _OTHERS_OF_JAVA)
        mode = str(settings.get("mode") or "")
        if bool(settings.get("query")) == bool(settings.get("table.whitelist")):
            errors["table.whitelist"] = ["Set either table.whitelist, or query."]
        if "incrementing" in mode and not settings.get("incrementing.column.name"):
            errors["incrementing.column.name"] = [f"mode={mode} needs the name of the column."]
        if "timestamp" in mode and not settings.get("timestamp.column.name"):
            errors["timestamp.column.name"] = [f"mode={mode} needs the name of the column."]
        return errors

    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool:
        return config.get("mode") != "bulk"  # It reads all rows each time.

    @classmethod
    def alter_offsets(
        cls, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, object], Mapping[str, object] | None]]
    ) -> bool:
        """Check the offsets. Raise ValueError."""
        settings = cls.config_def.parse(config)
        tables = _listed(settings["table.whitelist"])
        known = [partition_of(table) for table in tables] or [partition_of(None)]
        for partition, offset in offsets:
            if offset is None:
                continue  # Tables that are no longer configured may be forgotten.
            if dict(partition) not in known:
                raise ValueError(f"{dict(partition)} is not a partition of this connector: it has {known}")
            Position.of(offset)
        return True


def _listed(value: Any) -> list[str]:
    return [str(item) for item in value or ()]
