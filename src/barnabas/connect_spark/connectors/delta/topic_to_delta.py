"""Topics to Delta Lake tables, each record exactly once: as rows that are added, or that replace rows with their key.

A batch is one commit of a table, which contains data and positions (``delta_log``). A task continues from the positions
in its tables. So any task may repeat a batch, under any number: only its first offset in each topic-partition counts. A
commit whose answer was lost is not repeated. Of two tasks that both claim a partition the second is refused.

Tasks that write one table at the same time don't wait for each other. Delta reports the slower one if it can't order
the commits; that task reads the table again and repeats its batch. Tasks that replace rows always conflict, because
each reads the whole table; within a worker they take turns.
"""

from __future__ import annotations

import logging
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import unquote, urlsplit

from barnabas.connect.plugins.api import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmptyString,
    OffsetRange,
    Range,
    SinkBatch,
    SinkConnector,
    SinkTask,
    TerminalError,
    TopicPartition,
    ValidString,
)
from barnabas.connect_spark.connectors.columns.row_keys import AUTO_EVOLVE, DELETE_ENABLED, key_errors, refused_deletion
from barnabas.connect_spark.connectors.delta.delta_log import (
    DeltaConflict,
    DeltaTable,
    DeltaTransaction,
    refusal,
    require_delta,
)
from barnabas.connect_spark.positions.sink_positions import is_written, refuse_unless_next

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from barnabas.connect_spark.connectors.delta.delta_rows import DeltaColumns

__all__ = ["TopicToDelta"]

log = logging.getLogger(__name__)

_TOPIC = "${topic}"
_RECORD_COLUMNS = ("topic", "partition", "offset", "timestamp", "key", "headers", "date", "hour")
_PROPERTY = "delta."
_LONGEST_PAUSE_S = 5.0
_FILE = "__barnabas_file"

_turns: dict[str, threading.Lock] = {}
"""Locks of tables whose rows are replaced, by path."""


class TopicToDeltaTask(SinkTask):
    exactly_once: ClassVar[bool] = True

    def start(self, spark: SparkSession) -> None:
        require_delta(spark)
        self._spark = spark
        self._stopping = threading.Event()
        _refuse_unwritable(str(self.settings["path"]))

    def stop(self) -> None:
        if hasattr(self, "_stopping"):
            self._stopping.set()

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for path, topics in _tables(self.settings, {partition.topic for partition in partitions}).items():
            transaction = self._table(self._spark, path).begin()
            found |= transaction.positions([partition for partition in partitions if partition.topic in topics])
        return found

    def refused(self, df: DataFrame) -> Column | None:
        """Return the records that lack what the settings need, or whose values do not fit the type of a column."""
        from pyspark.sql import functions as F

        from barnabas.connect_spark.connectors.delta.delta_rows import has_no_schema

        reasons = refused_deletion(self.settings)
        if has_no_schema(df):  # Only ``write`` sees the fields of the whole batch.
            return F.coalesce(*reasons) if reasons else None
        columns = self._columns(df)
        for name in columns.keys:
            text = f"{name} is null, but it identifies the row"
            reasons.append(F.when(columns.sources[name].column.isNull(), F.lit(text)))
        path = str(self.settings["path"])
        if _TOPIC not in path:
            reasons += self._misfits(columns, path)
        return F.coalesce(*reasons) if reasons else None

    def _misfits(self, columns: DeltaColumns, path: str) -> list[Column]:
        transaction = self._table(self._spark, path).begin()
        if not transaction.exists:
            return []
        return columns.misfits(self._wanted(transaction, columns, path), path)

    def write(self, df: DataFrame, batch: SinkBatch) -> None:
        from pyspark.sql import functions as F

        topics = sorted({partition.topic for partition in batch.ranges})
        tables = _tables(self.settings, topics)
        if _TOPIC in str(self.settings["path"]):
            text = F.concat(
                F.lit("a transform has made the topic "), "topic", F.lit(f": path has {_TOPIC}, the one that is read")
            )
            is_other = ~F.col("topic").isin(topics)
            df = df.withColumn("topic", F.when(is_other, F.raise_error(text).cast("string")).otherwise(F.col("topic")))
        for path, of_table in tables.items():
            rows = df if len(tables) == 1 else df.where(F.col("topic").isin(of_table))
            ranges = {partition: offsets for partition, offsets in batch.ranges.items() if partition.topic in of_table}
            self._write_table(rows, path, ranges)

    # ---- one table

    def _write_table(self, df: DataFrame, path: str, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        left, pause_s = int(str(self.settings["commit.retries"])), 0.1
        with self._turn(path) if self._replaces else nullcontext():
            while True:
                try:
                    return self._write_once(df, path, ranges)
                except DeltaConflict as error:
                    if left == 0 or self._stopping.is_set():
                        raise
                    log.info("task %d of %s: %s", self.context.task, self.context.connector, error)
                except Exception as error:
                    reason = refusal(error)
                    if reason is None:
                        raise
                    raise TerminalError(f"the table {path} rejects the records: {reason}") from error
                left -= 1
                self._stopping.wait(pause_s * (0.5 + random.random()))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _write_once(self, df: DataFrame, path: str, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        table = self._table(df.sparkSession, path)
        transaction = table.begin()
        noted = transaction.positions(ranges)
        if is_written(noted, ranges):
            return
        refuse_unless_next(noted, ranges, path)
        if not transaction.exists and not self.settings["auto.create"]:
            raise TerminalError(
                f"{path} is not a Delta table, and auto.create is false: create the table, or correct path."
            )
        columns = self._columns(df)
        wanted = self._wanted(transaction, columns, path)
        if not len(wanted):
            return  # The batch only deletes, and the table does not exist.
        rows = columns.rows(df, wanted, path)
        if self._replaces:
            self._replace(transaction, rows, columns.named_keys(wanted))
        else:
            self._add(transaction, _without_ours(rows))
        transaction.commit({partition: offsets.end for partition, offsets in ranges.items()})

    def _add(self, transaction: DeltaTransaction, rows: DataFrame) -> None:
        partition_by = _list(self.settings["partition.by"])
        missing = [column for column in partition_by if column not in rows.columns]
        if missing and not transaction.exists:
            raise TerminalError(
                f"partition.by has {', '.join(missing)}, but records have {', '.join(rows.columns)}. Columns of the "
                "record must also be in record.columns."
            )
        properties = {name: value for name, value in self.config.items() if name.startswith(_PROPERTY)}
        if rows.columns:
            transaction.add(
                rows,
                merges_schema=bool(self.settings["auto.evolve"]),
                partition_by=partition_by,
                properties=properties,
            )

    def _replace(self, transaction: DeltaTransaction, rows: DataFrame, keys: list[str]) -> None:
        """Rewrite files that have a row with one of the keys, without that row, and add the last record of each key.

        A batch that only deletes may contain no keys in a value: then it does nothing.
        """
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window

        from barnabas.connect_spark.connectors.delta.delta_rows import DELETES, OFFSET, PARTITION

        if not keys:
            return
        order = Window.partitionBy(*(F.col(f"`{key}`") for key in keys)).orderBy(F.desc(PARTITION), F.desc(OFFSET))
        number = "__barnabas_number"
        latest = rows.withColumn(number, F.row_number().over(order)).where(F.col(number) == 1).drop(number)
        latest = latest.persist()
        try:
            added = _without_ours(latest.where(~F.col(DELETES)))
            if not transaction.exists:
                self._add(transaction, added)
                return
            replaced = latest.select(*(F.col(f"`{key}`") for key in keys))
            latest.count()  # Spark then knows the number of rows when it plans the joins.
            file = F.col("_metadata.file_path")
            current = transaction.rows()
            named = current.select(*(F.col(f"`{key}`") for key in keys), file.alias(_FILE))
            touched = [row[0] for row in named.join(replaced, keys, "left_semi").select(_FILE).distinct().collect()]
            transaction.remove(touched)
            if touched:
                kept = current.where(file.isin(touched)).join(replaced, keys, "left_anti").select(*current.columns)
                added = kept.unionByName(added, allowMissingColumns=True)
            self._add(transaction, added)
        finally:
            latest.unpersist()

    # ---- meaning of settings

    @property
    def _replaces(self) -> bool:
        return self.settings["insert.mode"] == "upsert"

    def _table(self, spark: SparkSession, path: str) -> DeltaTable:
        return DeltaTable(spark, path, _application(self.settings, self.context.connector))

    def _columns(self, df: DataFrame) -> DeltaColumns:
        from barnabas.connect_spark.connectors.delta.delta_rows import DeltaColumns

        return DeltaColumns.of(df, self.settings)

    def _wanted(self, transaction: DeltaTransaction, columns: DeltaColumns, path: str) -> Any:
        if not transaction.exists:
            return columns.type
        return columns.wanted(transaction.schema, evolves=bool(self.settings["auto.evolve"]), what=path)

    @contextmanager
    def _turn(self, path: str) -> Iterator[None]:
        lock = _turns.setdefault(path, threading.Lock())
        while not lock.acquire(timeout=0.25):
            if self._stopping.is_set():
                raise DeltaConflict(f"the task stops while another one writes {path}")
        try:
            yield
        finally:
            lock.release()


class TopicToDelta(SinkConnector):
    """Records of topics in tables of Delta Lake, each exactly once."""

    version = "1.0.0"
    config_def = ConfigDef(
        [
            ConfigKey(
                "path",
                ConfigType.STRING,
                REQUIRED,
                "The table: a path that is the same on all workers, or a URL that Spark can write to. "
                "With ${topic} in it, each topic has its own table.",
                NonEmptyString(),
                Importance.HIGH,
            ),
            ConfigKey(
                "insert.mode",
                ConfigType.STRING,
                "insert",
                "insert: each record is a row. upsert: it replaces the row of its key.",
                ValidString(("insert", "upsert")),
                Importance.HIGH,
            ),
            ConfigKey(
                "pk.mode",
                ConfigType.STRING,
                "none",
                "Where the key of a row comes from. Needed for upsert.",
                ValidString(("none", "record_key", "record_value")),
                Importance.HIGH,
            ),
            ConfigKey(
                "pk.fields",
                ConfigType.LIST,
                "",
                "The columns of the key: fields of the key or value. A key that is not an object needs one name.",
            ),
            DELETE_ENABLED,
            ConfigKey("auto.create", ConfigType.BOOLEAN, "true", "Whether missing tables are created."),
            AUTO_EVOLVE,
            ConfigKey(
                "partition.by", ConfigType.LIST, "", "The columns by which a table that is created is partitioned."
            ),
            ConfigKey(
                "record.columns",
                ConfigType.LIST,
                "",
                "Parts of the record that are written beside its value, as columns that begin with _: any of "
                f"{', '.join(_RECORD_COLUMNS)}. Date and hour are those of the record's timestamp, in UTC.",
            ),
            ConfigKey(
                "commit.retries",
                ConfigType.INT,
                "20",
                "How often a batch is written again because another writer has changed the table meanwhile.",
                Range(0),
            ),
            ConfigKey(
                "transaction.name",
                ConfigType.STRING,
                "",
                "The name under which tables keep the connector's positions. Empty: barnabas-connect:<connector>. "
                "with the same name in several clusters that write one table need different names.",
                importance=Importance.LOW,
            ),
        ]
    )
    task_class = TopicToDeltaTask

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
        errors = key_errors(settings)
        path = str(settings.get("path") or "/")
        parts = urlsplit(path)
        if not parts.scheme and not path.startswith("/"):
            errors["path"] = [f"{path} is not an absolute path: workers may run in different folders."]
        mode, keys = settings.get("pk.mode"), _list(settings.get("pk.fields"))
        if settings.get("insert.mode") == "upsert" and mode == "none":
            errors["pk.mode"] = ["insert.mode=upsert needs a key: set record_key or record_value."]
        if settings.get("insert.mode") == "insert" and mode != "none":
            errors["pk.mode"] = [f"{mode} is for insert.mode=upsert: set that, or omit pk.mode."]
        if mode == "record_value" and not keys:
            errors["pk.fields"] = ["pk.mode=record_value needs the fields of the value that are the key."]
        wrong = [column for column in _list(settings.get("record.columns")) if column not in _RECORD_COLUMNS]
        if wrong:
            errors["record.columns"] = [f"{', '.join(wrong)}: allowed: {', '.join(_RECORD_COLUMNS)}."]
        return errors

    @classmethod
    def alter_offsets(cls, config: Mapping[str, str], offsets: Mapping[TopicPartition, int | None]) -> bool:
        spark = _running_session()
        settings = cls.config_def.parse(config)
        for path, topics in _tables(settings, {partition.topic for partition in offsets}).items():
            table = DeltaTable(spark, path, _application(settings, config["name"]))
            of_table = {partition: offset for partition, offset in offsets.items() if partition.topic in topics}
            for attempt in range(int(str(settings["commit.retries"])) + 1):
                try:
                    table.set_positions(of_table)
                    break
                except DeltaConflict:
                    if attempt == int(str(settings["commit.retries"])):
                        raise
                    time.sleep(0.1)
        return True


def _running_session() -> SparkSession:
    """Return the session. A worker that changes offsets may have no task, and then no session."""
    try:
        from pyspark.sql import SparkSession

        spark: Any = SparkSession._instantiatedSession
    except ImportError:
        spark = None
    if spark is None or spark.sparkContext._jsc is None:
        raise TerminalError(
            "positions are in the Delta table, and this worker has not started Spark yet: resume any connector on it, "
            "then try again."
        )
    require_delta(spark)
    session: SparkSession = spark
    return session


def _application(settings: Mapping[str, object], connector: str) -> str:
    return str(settings["transaction.name"] or f"barnabas-connect:{connector}")


def _tables(settings: Mapping[str, object], topics: Sequence[str] | set[str]) -> dict[str, list[str]]:
    """Return the topics of each table, by the table's path."""
    path = str(settings["path"])
    found: dict[str, list[str]] = {}
    for topic in sorted(topics):
        found.setdefault(path.replace(_TOPIC, topic), []).append(topic)
    return found


def _without_ours(rows: DataFrame) -> DataFrame:
    from barnabas.connect_spark.connectors.delta.delta_rows import DELETES, OFFSET, PARTITION

    return rows.drop(PARTITION, OFFSET, DELETES)


def _refuse_unwritable(path: str) -> None:
    """Check a local path; for other paths Spark reports the error."""
    parts = urlsplit(path)
    if parts.scheme not in ("", "file"):
        return
    folder = Path((unquote(parts.path) if parts.scheme else path).partition(_TOPIC)[0])
    while not folder.exists():
        folder = folder.parent
    if not folder.is_dir() or not os.access(folder, os.W_OK | os.X_OK):
        raise TerminalError(
            f"path: {path} can't be written: {folder} is not a folder, or the worker may not write to it."
        )


def _list(value: Any) -> list[str]:
    return [str(item) for item in value or ()]
