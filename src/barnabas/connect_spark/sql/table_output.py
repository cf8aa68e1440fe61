"""Rows of a query to tables, through the sinks of topics to tables: each batch once, by a position in the table.

A sink stores data and the positions of its topic-partitions together. A pipeline has one pseudo partition, whose
offsets are the numbers of its batches. So a batch that the table has already is not written again, whatever was lost
after it, and of two tasks that write as the same pipeline the second is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING

from barnabas.connect.plugins.api import OffsetRange, SinkBatch, SinkConnector, SinkTask, TaskContext, TopicPartition
from barnabas.connect.settings.plugin_config_def import ConfigException
from barnabas.connect_spark.connectors.delta.topic_to_delta import TopicToDelta
from barnabas.connect_spark.connectors.files.topic_to_files import TopicToFiles
from barnabas.connect_spark.connectors.iceberg.topic_to_iceberg import TopicToIceberg
from barnabas.connect_spark.connectors.jdbc.jdbc_sink import JdbcSink
from barnabas.connect_spark.queries.kept_rows import kept
from barnabas.connect_spark.queries.record_path import used_columns
from barnabas.connect_spark.sql.declarations import OutputDeclaration, OutputMode, TableKind
from barnabas.connect_spark.sql.rows import key_column, value_column

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from barnabas.connect.plugins.api import BatchControl

__all__ = ["TableOutput", "TableSink", "table_problems", "table_sink"]

_PARTITION = TopicPartition("pipeline", 0)
_PLACES: Mapping[TableKind, tuple[type[SinkConnector], str]] = {
    TableKind.PARQUET: (TopicToFiles, "directory"),
    TableKind.DELTA: (TopicToDelta, "path"),
    TableKind.ICEBERG: (TopicToIceberg, "table"),
    TableKind.JDBC: (JdbcSink, "connection.url"),
}
_NAME, _NAME_OF_SINK = "table.name", "table.name.format"
_KEYS = ("insert.mode", "pk.mode", "pk.fields", "delete.enabled")


@dataclass(frozen=True, slots=True)
class TableSink:
    """The sink that writes a table, with its settings."""

    connector: type[SinkConnector]
    place: str
    """The setting with the table's place, which is ``output.table`` here."""
    config: Mapping[str, str]


def table_sink(output: OutputDeclaration) -> TableSink:
    if output.table is None:
        raise AssertionError("the output is a topic")
    connector, place = _PLACES[output.table.kind]
    given = {(_NAME_OF_SINK if name == _NAME else name): text for name, text in output.options.items()}
    config = {place: output.table.address, **given}
    if output.table.kind is TableKind.PARQUET:
        return TableSink(connector, place, {**config, "format": "parquet"})
    if output.table.kind is TableKind.JDBC:
        config.setdefault("auto.create", "true")
    if output.mode is OutputMode.APPEND:
        return TableSink(connector, place, {**config, "insert.mode": "insert"})
    keys = {"insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": ",".join(output.key)}
    deletes = "false" if output.delete_when is None else "true"
    return TableSink(connector, place, {**config, **keys, "delete.enabled": deletes})


def table_problems(output: OutputDeclaration) -> dict[str, list[str]]:
    """Return the errors of the settings of a table, by the settings of the pipeline."""
    sink = table_sink(output)
    known = {key.name for key in sink.connector.config_def} - {sink.place, *_KEYS}
    problems: dict[str, list[str]] = {}
    for name in sorted(output.options):
        of_sink = _NAME_OF_SINK if name == _NAME else name
        if of_sink not in known and not name.startswith(("catalog.", "delta.", "iceberg.")):
            problems[f"output.{name}"] = [f"No such setting for {output.table}. There are {', '.join(sorted(known))}."]
    if output.table is not None and output.table.kind is TableKind.JDBC and _NAME not in output.options:
        problems[f"output.{_NAME}"] = ["Set it: the name of the table in the database."]
    values: dict[str, object] = {}
    for key in sink.connector.config_def:
        try:
            values[key.name] = key.parse(sink.config[key.name]) if key.name in sink.config else key.default
        except ConfigException as error:
            problems.setdefault(_ours(error.name, sink), [str(error)])
    for name, texts in sink.connector.validate(sink.config, values).items():
        problems.setdefault(_ours(name, sink), []).extend(texts)
    return problems


def _ours(name: str, sink: TableSink) -> str:
    if name == sink.place:
        return "output.table"
    if name in ("pk.fields", "pk.mode"):
        return "output.key"
    return "output." + (_NAME if name == _NAME_OF_SINK else name)


class TableOutput:
    def __init__(
        self, output: OutputDeclaration, context_of: Callable[[Mapping[str, str], Mapping[str, object]], TaskContext]
    ) -> None:
        """``context_of`` creates the context of the sink's task, from its settings as texts and as values.

        Raise ConfigException.
        """
        self._output = output
        sink = table_sink(output)
        values = sink.connector.config_def.parse(sink.config)
        self._task: SinkTask = sink.connector.task_class(context_of(sink.config, values))
        self._is_started = False
        self._columns: Sequence[str] = ()

    def start(self, spark: SparkSession) -> None:
        if not self._is_started:
            self._columns = used_columns(self._task)
            self._is_started = True
            self._task.start(spark)

    def delivered(self) -> int | None:
        """Return the number of the last batch that the table has; None for none."""
        noted = (self._task.positions([_PARTITION]) or {}).get(_PARTITION)
        return None if noted is None else noted - 1

    def write(self, rows: DataFrame, batch_id: int, control: BatchControl, *, keeps: bool) -> None:
        """Write the rows of a batch, unless the table has it. ``keeps``: the rows are computed only once."""
        with kept(rows) if keeps else nullcontext(rows) as held:
            batch = SinkBatch(batch_id, {_PARTITION: OffsetRange(batch_id, batch_id + 1)}, control)
            records = self._records(held)
            self._task.write(records.select(*self._columns), batch)

    def stop(self) -> None:
        if self._is_started:
            self._task.stop()

    def _records(self, rows: DataFrame) -> DataFrame:
        """Return the rows as records of one partition. Their offsets are the order in which the query returns them."""
        from pyspark.sql import functions as F

        key = key_column(self._output, is_object=True)
        return rows.select(
            F.lit(_PARTITION.topic).alias("topic"),
            F.lit(_PARTITION.partition).alias("partition"),
            F.monotonically_increasing_id().alias("offset"),
            F.current_timestamp().alias("timestamp"),
            (F.lit(None).cast("string") if key is None else key).alias("key"),
            value_column(rows, self._output).alias("value"),
            F.lit(None).cast("array<struct<key: string, value: string>>").alias("headers"),
        )
