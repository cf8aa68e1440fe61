"""Topics to tables, each record exactly once: as rows that are added, or that replace rows with their key.

A batch is one commit of a table, which contains data and positions. A task continues from the positions in its tables.
So any task may repeat a batch, under any number: only its first offset in each topic-partition counts. A commit whose
answer was lost is not repeated. Of two tasks that both claim a partition the second is refused.

Tasks that write one table at the same time don't wait for each other. The table reports the slower one if it can't
order the commits; that task reads the table again and repeats its batch. Tasks that replace rows always conflict,
because each reads the whole table; within a worker they take turns.

A kind of table provides ``SinkTable`` (``sink_table``), and says here how its tables are named and opened.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from barnabas.connect.plugins.api import OffsetRange, SinkBatch, SinkTask, TerminalError, TopicPartition
from barnabas.connect_spark.connectors.columns.row_keys import refused_deletion
from barnabas.connect_spark.connectors.tables.sink_table import SinkTable, TableConflict, TableTransaction
from barnabas.connect_spark.connectors.tables.table_settings import TOPIC, listed
from barnabas.connect_spark.positions.sink_positions import is_written, refuse_unless_next

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

    from barnabas.connect_spark.connectors.columns.column_fitting import Widening
    from barnabas.connect_spark.connectors.tables.table_rows import TableColumns

__all__ = ["TableSinkTask", "application_of", "change_positions", "topics_of_tables"]

log = logging.getLogger(__name__)

_LONGEST_PAUSE_S = 5.0
_POSITIONS_PAUSE_S = 0.1
_FILE = "__barnabas_file"

_turns: dict[str, threading.Lock] = {}
"""Locks of tables whose rows are replaced, by name."""


def application_of(settings: Mapping[str, object], connector: str) -> str:
    """Return the name under which tables keep the connector's positions."""
    return str(settings["transaction.name"] or f"barnabas-connect:{connector}")


def topics_of_tables(pattern: str, topics: Sequence[str] | set[str]) -> dict[str, list[str]]:
    """Return the topics of each table, by the table's name."""
    found: dict[str, list[str]] = {}
    for topic in sorted(topics):
        found.setdefault(pattern.replace(TOPIC, topic), []).append(topic)
    return found


def change_positions(
    pattern: str,
    offsets: Mapping[TopicPartition, int | None],
    settings: Mapping[str, object],
    open_table: Callable[[str], SinkTable],
) -> None:
    """Set positions on request in each table that the topics have, again after a conflict. Raise TableConflict."""
    for name, topics in topics_of_tables(pattern, {partition.topic for partition in offsets}).items():
        of_table = {partition: offset for partition, offset in offsets.items() if partition.topic in topics}
        _change_table(open_table(name), of_table, int(str(settings["commit.retries"])))


def _change_table(table: SinkTable, offsets: Mapping[TopicPartition, int | None], retries: int) -> None:
    for attempt in range(retries + 1):
        try:
            table.set_positions(offsets)
            return
        except TableConflict:
            if attempt == retries:
                raise
            time.sleep(_POSITIONS_PAUSE_S)


class TableSinkTask(SinkTask):
    exactly_once: ClassVar[bool] = True

    pattern_setting: ClassVar[str]
    """The setting with the table's name, which may have ``${topic}``."""

    property_prefix: ClassVar[str]
    """The prefix of settings that are properties of a new table."""

    @abstractmethod
    def open_table(self, spark: SparkSession, name: str) -> SinkTable: ...

    @abstractmethod
    def refusal(self, error: Exception) -> str | None:
        """Return why a table rejects records, by its types or constraints; None for other errors."""

    @property
    def pattern(self) -> str:
        """The table's name, which may have ``${topic}``."""
        return str(self.settings[self.pattern_setting])

    @property
    def widening(self) -> Widening | None:
        """How types of columns may change; None if they never do."""
        return None

    @property
    def partition_columns(self) -> list[str]:
        """The columns that ``partition.by`` needs."""
        return listed(self.settings["partition.by"])

    @property
    def partition_by(self) -> list[str]:
        return listed(self.settings["partition.by"])

    @property
    def properties(self) -> Mapping[str, str]:
        """The properties of a new table."""
        return {name: value for name, value in self.config.items() if name.startswith(self.property_prefix)}

    def start(self, spark: SparkSession) -> None:
        self._spark = spark
        self._stopping = threading.Event()

    def stop(self) -> None:
        if hasattr(self, "_stopping"):
            self._stopping.set()

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        for name, topics in self._tables({partition.topic for partition in partitions}).items():
            transaction = self.open_table(self._spark, name).begin()
            found |= transaction.positions([partition for partition in partitions if partition.topic in topics])
        return found

    def refused(self, df: DataFrame) -> Column | None:
        """Return the records that lack what the settings need, or whose values do not fit the type of a column."""
        from pyspark.sql import functions as F

        from barnabas.connect_spark.connectors.tables.table_rows import has_no_schema

        reasons = refused_deletion(self.settings)
        if has_no_schema(df):  # Only ``write`` sees the fields of the whole batch.
            return F.coalesce(*reasons) if reasons else None
        columns = self._columns(df)
        for name in columns.keys:
            text = f"{name} is null, but it identifies the row"
            reasons.append(F.when(columns.sources[name].column.isNull(), F.lit(text)))
        if TOPIC not in self.pattern:
            reasons += self._misfits(columns, self.pattern)
        return F.coalesce(*reasons) if reasons else None

    def _misfits(self, columns: TableColumns, name: str) -> list[Column]:
        transaction = self.open_table(self._spark, name).begin()
        if not transaction.exists:
            return []
        return columns.misfits(self._wanted(transaction, columns, name), name)

    def write(self, df: DataFrame, batch: SinkBatch) -> None:
        from pyspark.sql import functions as F

        topics = sorted({partition.topic for partition in batch.ranges})
        tables = self._tables(topics)
        if TOPIC in self.pattern:
            text = F.concat(
                F.lit("a transform has made the topic "),
                "topic",
                F.lit(f": {self.pattern_setting} has {TOPIC}, the one that is read"),
            )
            is_other = ~F.col("topic").isin(topics)
            df = df.withColumn("topic", F.when(is_other, F.raise_error(text).cast("string")).otherwise(F.col("topic")))
        for name, of_table in tables.items():
            rows = df if len(tables) == 1 else df.where(F.col("topic").isin(of_table))
            ranges = {partition: offsets for partition, offsets in batch.ranges.items() if partition.topic in of_table}
            self._write_table(rows, name, ranges)

    # ---- one table

    def _write_table(self, df: DataFrame, name: str, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        left, pause_s = int(str(self.settings["commit.retries"])), 0.1
        with self._turn(name) if self._replaces else nullcontext():
            while True:
                try:
                    return self._write_once(df, name, ranges)
                except TableConflict as error:
                    if left == 0 or self._stopping.is_set():
                        raise
                    log.info("task %d of %s: %s", self.context.task, self.context.connector, error)
                except Exception as error:
                    reason = self.refusal(error)
                    if reason is None:
                        raise
                    raise TerminalError(f"the table {name} rejects the records: {reason}") from error
                left -= 1
                self._stopping.wait(pause_s * (0.5 + random.random()))
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _write_once(self, df: DataFrame, name: str, ranges: Mapping[TopicPartition, OffsetRange]) -> None:
        transaction = self.open_table(df.sparkSession, name).begin()
        noted = transaction.positions(ranges)
        if is_written(noted, ranges):
            return
        refuse_unless_next(noted, ranges, name)
        if not transaction.exists and not self.settings["auto.create"]:
            raise TerminalError(self.missing(name))
        columns = self._columns(df)
        wanted = self._wanted(transaction, columns, name)
        if not len(wanted):
            return  # The batch only deletes, and the table does not exist.
        rows = columns.rows(df, wanted, name)
        if self._replaces:
            self._replace(transaction, rows, columns.named_keys(wanted))
        else:
            self._add(transaction, _without_ours(rows))
        transaction.commit({partition: offsets.end for partition, offsets in ranges.items()})

    def missing(self, name: str) -> str:
        """Return the error for a table that does not exist, and is not created."""
        return f"the table {name} does not exist, and auto.create is false: create it, or correct the name."

    def _add(self, transaction: TableTransaction, rows: DataFrame) -> None:
        missing = [column for column in self.partition_columns if column not in rows.columns]
        if missing and not transaction.exists:
            raise TerminalError(
                f"partition.by has {', '.join(missing)}, but records have {', '.join(rows.columns)}. Columns of the "
                "record must also be in record.columns."
            )
        if rows.columns:
            transaction.add(
                rows,
                merges_schema=bool(self.settings["auto.evolve"]),
                partition_by=self.partition_by,
                properties=self.properties,
            )

    def _replace(self, transaction: TableTransaction, rows: DataFrame, keys: list[str]) -> None:
        """Rewrite files that have a row with one of the keys, without that row, and add the last record of each key.

        A batch that only deletes may contain no keys in a value: then it does nothing.
        """
        from pyspark.sql import functions as F
        from pyspark.sql.window import Window

        from barnabas.connect_spark.connectors.tables.table_rows import DELETES, OFFSET, PARTITION

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
            file = F.col(transaction.file_column)
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

    def _tables(self, topics: Sequence[str] | set[str]) -> dict[str, list[str]]:
        return topics_of_tables(self.pattern, topics)

    def _columns(self, df: DataFrame) -> TableColumns:
        from barnabas.connect_spark.connectors.tables.table_rows import TableColumns

        return TableColumns.of(df, self.settings)

    def _wanted(self, transaction: TableTransaction, columns: TableColumns, name: str) -> Any:
        if not transaction.exists:
            return columns.type
        evolves = bool(self.settings["auto.evolve"])
        return columns.wanted(transaction.schema, evolves=evolves, widens=self.widening, what=name)

    @contextmanager
    def _turn(self, name: str) -> Iterator[None]:
        lock = _turns.setdefault(name, threading.Lock())
        while not lock.acquire(timeout=0.25):
            if self._stopping.is_set():
                raise TableConflict(f"the task stops while another one writes {name}")
        try:
            yield
        finally:
            lock.release()


def _without_ours(rows: DataFrame) -> DataFrame:
    from barnabas.connect_spark.connectors.tables.table_rows import DELETES, OFFSET, PARTITION

    return rows.drop(PARTITION, OFFSET, DELETES)
