"""The interface for authors of connectors: a connector splits the work, and a task is one Spark query.

A connector is a class with its settings and the class of its tasks::

    class Ticks(SourceConnector):
        version = "1.0"
        config_def = ConfigDef([ConfigKey("topic", documentation="The topic to write to.")])
        task_class = TicksTask

    class TicksTask(SourceTask):
        def read(self, spark):
            ticks = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 10).load()
            return ticks.selectExpr(f"'{self.settings['topic']}' AS topic", "CAST(value AS STRING) AS value")

The worker does the rest: it checks settings, runs ``read`` or ``write`` inside a named streaming query with its own
checkpoint, applies converters and transforms, keeps positions in Kafka, restarts what failed, and shows all of it.

**Records** are rows. What ``SourceTask.read`` returns has the columns ``topic`` (string) and ``value`` (any type that
the value converter takes), and may have ``key``, ``partition`` (int), ``timestamp`` (timestamp; for transforms: Spark
writes records with a time of its own) and ``headers`` (``array<struct<key: string, value: any>>``). What
``SinkTask.write`` is given has ``topic``, ``partition``, ``offset``, ``timestamp``, ``key``, ``value`` and ``headers``,
after converters and transforms. Other columns are refused, so that a misspelt one is noticed.

**Threads**: no method is called on the thread that keeps the worker in its group, so any of them may wait. Methods of
one object are never called at the same time, except that ``stop`` may come while another one runs.

**Failure**: an exception from any method fails the connector or task, with its trace in the status; the worker restarts
it with growing pauses. Raise TerminalError for what no restart can cure, such as a table that has another shape.

Nothing here imports PySpark: a worker lists and validates connectors without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from barnabas.common.config_validators import NonEmptyString, Range, ValidString
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.identifiers import ConnectorType
from barnabas.connect.settings.plugin_config_def import (
    REQUIRED,
    ConfigDef,
    ConfigException,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Password,
    Recommender,
    Width,
)

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import Column, DataFrame, SparkSession

__all__ = [
    "REQUIRED",
    "ConfigDef",
    "ConfigException",
    "ConfigKey",
    "ConfigType",
    "ConfigValue",
    "Connector",
    "ConnectorContext",
    "Importance",
    "NonEmptyString",
    "OffsetRange",
    "Password",
    "Range",
    "Recommender",
    "SinkBatch",
    "SinkConnector",
    "SinkTask",
    "SourceConnector",
    "SourceOffset",
    "SourceTask",
    "Task",
    "TaskContext",
    "TerminalError",
    "TopicPartition",
    "ValidString",
    "Width",
]

Config = Mapping[str, str]
"""Settings as they were written, with references to secrets resolved."""

OffsetMap = Mapping[str, Any]
"""A partition or an offset of a source: a flat object of strings, numbers and booleans, as Connect's topic has it."""


class TerminalError(Exception):
    """Restarting can't help. The task or connector stays FAILED until its cause is changed."""


# ---- What the worker gives ------------------------------------------------------------------------------------------


class ConnectorContext(Protocol):
    """The services of the worker for a running connector. Every method may be called from any thread."""

    @property
    def name(self) -> str:
        """The name of the connector."""

    @property
    def config(self) -> Config: ...

    @property
    def settings(self) -> Mapping[str, ConfigValue]:
        """The settings of ``config_def``, checked and typed."""

    @property
    def client_config(self) -> Config:
        """The settings with which to make an admin client for the cluster of the worker, overrides included."""

    def partition_counts(self, topics: Sequence[str] | None = None) -> Mapping[str, int]:
        """How many partitions each of the topics has (None: all topics). Asks the cluster; leaves unknown ones out."""

    def request_task_reconfiguration(self) -> None:
        """Have ``task_configs`` called again, because the work to split has changed."""

    def raise_error(self, error: Exception) -> None:
        """Fail the connector because of something that it noticed on a thread of its own."""


class TaskContext(Protocol):
    """The services of the worker for a task. Every method may be called from any thread."""

    @property
    def connector(self) -> str: ...

    @property
    def task(self) -> int:
        """The task's number, from 0."""

    @property
    def config(self) -> Config:
        """The task's: what ``task_configs`` made for it, with references to secrets resolved."""

    @property
    def settings(self) -> Mapping[str, ConfigValue]:
        """The values of ``config``, checked and typed by ``config_def``."""

    @property
    def scratch(self) -> Path:
        """A folder on this machine for this task alone. It is empty when the task starts."""

    def source_offset(self, partition: OffsetMap) -> OffsetMap | None:
        """Where this connector was in a partition of its source, None if it was never there. For sources."""


# ---- Connectors -----------------------------------------------------------------------------------------------------


class Connector:
    """The common base of sources and sinks; derive from one of these two.

    Class attributes say what the connector is. An object of it exists only while the connector runs on a worker.
    """

    version: ClassVar[str | None] = None
    """The version in listings and for version ranges, such as "1.4.0"."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    """The connector's own settings. Those that all connectors have are added by the worker."""

    task_class: ClassVar[type[Task]]
    """The class of the connector's tasks."""

    aliases: ClassVar[tuple[str, ...]] = ()
    """Other full names, such as the Java class whose settings and offsets this one understands."""

    connector_type: ClassVar[ConnectorType]

    def __init__(self, context: ConnectorContext) -> None:
        self.context = context

    @property
    def config(self) -> Config:
        return self.context.config

    @property
    def settings(self) -> Mapping[str, ConfigValue]:
        return self.context.settings

    @classmethod
    def validate(cls, config: Config, settings: Mapping[str, ConfigValue]) -> Mapping[str, Sequence[str]]:
        """Errors by setting, beyond those of ``config_def``: rules between settings, a file that has to exist.

        ``settings`` has the settings that were good on their own. Called whenever a user validates, creates or
        changes a connector, so it should take well under a second.
        """
        return {}

    def start(self) -> None:
        """Called once before ``task_configs``."""

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        """How the work is split: one map of settings for each task, at most ``max_tasks``."""
        raise NotImplementedError

    def stop(self) -> None:
        """Called once, at the end. After a failure it is called as well."""


class SourceConnector(Connector):
    """Reads something into topics. Unless it says otherwise it has one task, with the connector's own settings."""

    connector_type = ConnectorType.SOURCE
    task_class: ClassVar[type[SourceTask]]

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [dict(self.config)]

    @classmethod
    def source_partition(cls, task_config: Config) -> OffsetMap | None:
        """What a task reads, such as ``{"table": "orders"}``: Spark's own positions of the task are kept under it.

        For tasks that don't override ``offsets_of``. Give the same map only for the same records in the same order,
        whatever the number of the task and of all tasks. ``task_config`` is one of ``task_configs``, with references
        instead of secrets. None, if not overridden: a task goes on only where a task with the same settings of its own
        was, while the connector had as many tasks; any other division of the work is read from the beginning.
        """
        return None

    @classmethod
    def alter_offsets(cls, config: Config, offsets: Sequence[tuple[OffsetMap, OffsetMap | None]]) -> bool:
        """Check positions set by a user: partition and offset, None to start over. The connector is stopped.

        Raise to refuse; the text is the answer. True says that the connector knows these positions to be good. The
        worker writes them to Kafka afterwards; only a source that keeps positions elsewhere has to do anything.
        """
        return False


class SinkConnector(Connector):
    """Writes topics into something. Unless it says otherwise every task has the connector's own settings.

    Which topic-partitions a task reads is not the connector's business: the worker spreads those of ``topics`` or
    ``topics.regex`` over the tasks, and again when topics come or grow.
    """

    connector_type = ConnectorType.SINK
    task_class: ClassVar[type[SinkTask]]

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [dict(self.config) for _ in range(max_tasks)]

    @classmethod
    def alter_offsets(cls, config: Config, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Check positions set by a user; None deletes one. The connector is stopped.

        Raise to refuse; the text is the answer. An exactly-once sink changes here what its target has noted.
        """
        return False


# ---- Tasks ----------------------------------------------------------------------------------------------------------


class Task:
    """The common base of source and sink tasks."""

    def __init__(self, context: TaskContext) -> None:
        self.context = context

    @property
    def config(self) -> Config:
        return self.context.config

    @property
    def settings(self) -> Mapping[str, ConfigValue]:
        return self.context.settings

    def start(self, spark: SparkSession) -> None:
        """Called once, first: the place to open or to create what the task needs."""

    def stop(self) -> None:
        """Called once, at the end, after the query has stopped. After a failure it is called as well."""


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """A position in a source, as the offset topic and the REST API have it."""

    partition: OffsetMap
    offset: OffsetMap


class SourceTask(Task):
    """Gives a streaming DataFrame, which the worker writes to topics."""

    def read(self, spark: SparkSession) -> DataFrame:
        """The records, as a streaming DataFrame. Called once each time the task starts.

        Where to begin is what ``context.source_offset`` says, for a task that overrides ``offsets_of``. Others begin
        at the position of Spark's own that the worker has kept for them.
        """
        raise NotImplementedError

    def offsets_of(self, ends: Sequence[Any]) -> Sequence[SourceOffset] | None:
        """Connect's positions for the end of a batch that is safely in Kafka.

        ``ends`` has Spark's end offset of each streaming source in the query, parsed from JSON, in the order of the
        plan. None, if not overridden: the worker keeps Spark's own offsets as they are.
        """
        return None


@dataclass(frozen=True, slots=True)
class OffsetRange:
    """Offsets from ``start`` to before ``end``. Some of them may not exist: compacted, or marks of transactions."""

    start: int
    end: int


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """Which records a DataFrame has. The same ``id`` comes again only with the same ranges, after a failure."""

    id: int
    ranges: Mapping[TopicPartition, OffsetRange]

    @property
    def positions(self) -> dict[TopicPartition, int]:
        """Where the next batch begins."""
        return {partition: offsets.end for partition, offsets in self.ranges.items()}


class SinkTask(Task):
    """Writes batches of records."""

    exactly_once: ClassVar[bool] = False
    """Promises that ``write`` stores data and ``batch.positions`` together or not at all, and that ``positions`` reads
    the latter back. No record then arrives twice, whatever fails. Without the promise a batch may come again."""

    def write(self, df: DataFrame, batch: SinkBatch) -> None:
        """Write one batch; returning means that it is safe. Batches come one after the other."""
        raise NotImplementedError

    @property
    def takes_variant(self) -> bool:
        """Whether ``df`` has data without a schema as VARIANT. If not overridden, it has the type that holds all that
        the batch has: then a column's type may be another one in each batch. For a sink that keeps one schema."""
        return False

    def columns(self) -> Sequence[str] | None:
        """The columns that ``write`` uses: ``df`` has these alone. None, if not overridden: it has all.

        Tell them where it is known: what nobody uses is not carried along, and where the types of these don't depend on
        the records either, batches are not planned one by one. Asked once, before ``start``.
        """
        return None

    def refused(self, df: DataFrame) -> Column | None:
        """Why a record can't be written, as a text, null where it can: an expression on the columns of ``df``.

        Refused records are bad records, like those that a converter rejects: ``errors.tolerance`` and the dead-letter
        topic are for them. An exception of ``write`` fails the whole batch. None, if not overridden: none is refused.

        Keys and values have the types in which ``write`` gets them. ``failure`` is a column of ``df`` as well: rows in
        which it is not null are bad already. Called once for each attempt to write a batch, before ``write``.
        """
        return None

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """The next positions for ``exactly_once``, as the target has stored them.

        Read after ``start`` and before the first batch. Partitions that the target knows nothing of are left out and
        begin where the consumer group of the connector says.
        """
        return None
