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

**Records** are rows. The frame of ``SourceTask.read`` has the columns ``topic`` (string) and ``value`` (any type that
the value converter accepts), and may have ``key``, ``partition`` (int), ``timestamp`` (timestamp; for transforms: Spark
writes records with a time of its own), ``headers`` (``array<struct<key: string, value: any>>``), and the columns that
``SourceTask.read`` describes: ``source_partition``, ``source_offset`` and ``transaction``. The frame for
``SinkTask.write`` has ``topic``, ``partition``, ``offset``, ``timestamp``, ``key``, ``value`` and ``headers``,
after converters and transforms. Other columns are refused, so that a misspelt one is noticed.

**Threads**: no method is called on the thread that keeps the worker in its group, so any of them may block. Methods of
one object are never called concurrently, except that ``stop`` may be called while another one runs.

**Failure**: an exception from any method fails the connector or task, with its trace in the status; the worker restarts
it with growing pauses. Raise TerminalError for errors that no restart can fix, such as a table with another schema.

Nothing here imports PySpark: a worker lists and validates connectors without it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from barnabas.common.config_validators import NonEmptyString, Range, ValidString
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.identifiers import ConnectorType
from barnabas.connect.plugins.record_plugins import (
    CheckedColumn,
    Converter,
    Predicate,
    RecordColumns,
    Transform,
    UnsupportedData,
)
from barnabas.connect.plugins.sink_batch import BatchControl, OffsetRange, RefusedRecord, SinkBatch
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
    "BatchControl",
    "CheckedColumn",
    "ConfigDef",
    "ConfigException",
    "ConfigKey",
    "ConfigType",
    "ConfigValue",
    "Connector",
    "ConnectorContext",
    "ConsumedOffsets",
    "Converter",
    "Importance",
    "NonEmptyString",
    "OffsetRange",
    "Password",
    "Predicate",
    "Range",
    "Recommender",
    "RecordColumns",
    "RefusedRecord",
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
    "TransactionContext",
    "Transform",
    "UnsupportedData",
    "ValidString",
    "Width",
]

Config = Mapping[str, str]
"""Settings as written, with references to secrets resolved."""

OffsetMap = Mapping[str, Any]
"""A partition or an offset of a source: a flat object of strings, numbers and booleans, as in Connect's topic."""


class TerminalError(Exception):
    """A restart can't help. The task or connector stays FAILED until the cause is fixed."""


# ---- Services of the worker ------------------------------------------------------------------------------------------


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
        """The settings for an admin client of the worker's cluster, overrides included."""

    def partition_counts(self, topics: Sequence[str] | None = None) -> Mapping[str, int]:
        """Return the partition counts of the topics (None: all topics). Queries the cluster; omits unknown topics."""

    def request_task_reconfiguration(self) -> None:
        """Have ``task_configs`` called again, because the work to split has changed."""

    def report_missing(self, topics: Sequence[str]) -> None:
        """Show in the status that the connector waits for topics, which do not exist. Without any, it waits no more.

        The worker does so for a sink's own topics.
        """

    def raise_error(self, error: Exception) -> None:
        """Fail the connector because of an error on a thread of its own."""


class TaskContext(Protocol):
    """The services of the worker for a task. Every method may be called from any thread."""

    @property
    def connector(self) -> str: ...

    @property
    def task(self) -> int:
        """The task's number, from 0."""

    @property
    def config(self) -> Config:
        """The config that ``task_configs`` created for the task, with references to secrets resolved."""

    @property
    def settings(self) -> Mapping[str, ConfigValue]:
        """The values of ``config``, checked and typed by ``config_def``."""

    @property
    def scratch(self) -> Path:
        """A folder on this machine only for this task. It is empty when the task starts."""

    def source_offset(self, partition: OffsetMap) -> OffsetMap | None:
        """Return this connector's position in a partition of its source; None without one. For sources."""

    @property
    def is_exactly_once(self) -> bool:
        """Return whether records and positions are written in one transaction (KIP-618). For sources."""

    def report(self, name: str, description: str, value: float) -> None:
        """Show a figure of the task among its metrics, under ``name`` (snake case). A later value replaces it."""

    @property
    def transactions(self) -> TransactionContext | None:
        """Return where the task ends its transactions; None without ``transaction.boundary=connector``. For sources."""


class TransactionContext(Protocol):
    """Ends the transactions of a source's task, with ``transaction.boundary=connector`` (KIP-618).

    A transaction begins with the first batch after the end of the last one, and may have many batches. It ends after a
    batch, by a request here, or after a record with a mark in the column ``transaction`` (``SourceTask.read``). A
    request is for the batch in progress, or for the next one: in ``offsets_of`` it is for the batch of that call.

    Without a request the transaction stays open, and the broker aborts it after ``transaction.timeout.ms``, which fails
    the task. If the task is paused, stopped or fails, its open transaction is aborted. The task starts again at the
    positions of the last committed one.
    """

    def commit_transaction(self) -> None:
        """Commit the transaction after the batch."""

    def abort_transaction(self) -> None:
        """Abort the transaction after the batch: its records are never seen by readers of committed records.

        Its positions are committed, so these records are not read again. Raise an exception instead if they should be.
        """


# ---- Connectors -----------------------------------------------------------------------------------------------------


class Connector:
    """The common base of sources and sinks; derive from one of these two.

    Class attributes describe the connector. An object of it exists only while the connector runs on a worker.
    """

    version: ClassVar[str | None] = None
    """The version in listings and for version ranges, such as "1.4.0"."""

    config_def: ClassVar[ConfigDef] = ConfigDef()
    """The connector's own settings. The worker adds those that all connectors have."""

    task_class: ClassVar[type[Task]]
    """The class of the connector's tasks."""

    aliases: ClassVar[tuple[str, ...]] = ()
    """Other full names, such as the Java class whose settings and offsets this one understands."""

    reference_settings: ClassVar[frozenset[str]] = frozenset()
    """Secret settings that users must write as a reference to a config provider (KIP-297), such as
    ``${file:/etc/secrets.properties:token}``. A text in its place is refused, so that no topic holds the secret."""

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
        """Return errors by setting, beyond those of ``config_def``: rules between settings, a file that must exist.

        ``settings`` has the settings without errors of their own. Called whenever a user validates, creates or
        changes a connector, so it should take well under a second.
        """
        return {}

    @classmethod
    def why_tasks_are_fixed(cls) -> str | None:
        """Return why the number of tasks may not follow the lag (``barnabas.tasks.autoscale.enable``), without a full
        stop; None if it may. The reason is a part of the error."""
        return (
            f"{cls.__name__} is a source. With another number of tasks a source divides its work anew and may read "
            "records again, so only tasks.max changes it"
        )

    def start(self) -> None:
        """Called once before ``task_configs``."""

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        """Return how the work is split: one map of settings for each task, at most ``max_tasks``."""
        raise NotImplementedError

    def stop(self) -> None:
        """Called once, at the end, also after a failure."""


class SourceConnector(Connector):
    """Reads data into topics. By default it has one task, with the connector's own settings."""

    connector_type = ConnectorType.SOURCE
    task_class: ClassVar[type[SourceTask]]

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [dict(self.config)]

    @classmethod
    def source_partition(cls, task_config: Config) -> OffsetMap | None:
        """Return the work of a task, such as ``{"table": "orders"}``, as a key for the task's own Spark positions.

        For tasks that don't override ``offsets_of``. Return the same map only for the same records in the same order,
        whatever the number of the task and of all tasks. ``task_config`` is one of ``task_configs``, with references
        instead of secrets. None, if not overridden: a task continues only where a task with the same own settings
        was, while the connector had as many tasks; any other division of the work is read from the beginning.
        """
        return None

    @classmethod
    def exactly_once_support(cls, config: Config) -> bool | None:
        """Return whether a task that starts at its last position reads the same records as before, none twice.

        The worker writes each batch and its positions in one transaction (KIP-618), so this suffices for exactly-once
        delivery. Called when a user sets ``exactly.once.support=required``. None, if not overridden: it is unknown, and
        the connector is refused.
        """
        return None

    @classmethod
    def can_define_transaction_boundaries(cls, config: Config) -> bool:
        """Return whether the tasks end their transactions (``TransactionContext``).

        Called when a user sets ``transaction.boundary=connector``. False, if not overridden: the connector is refused.
        """
        return False

    @classmethod
    def alter_offsets(cls, config: Config, offsets: Sequence[tuple[OffsetMap, OffsetMap | None]]) -> bool:
        """Check positions set by a user: partition and offset, None to start over. The connector is stopped.

        Raise to refuse; the text is the answer. True says that the connector accepts these positions as valid. The
        worker writes them to Kafka afterwards; only a source that keeps positions elsewhere must do more.
        """
        return False


class SinkConnector(Connector):
    """Writes topics to a target. By default every task has the connector's own settings.

    The connector does not choose the topic-partitions of a task: the worker spreads those of ``topics`` or
    ``topics.regex`` over the tasks, and again when topics are created or grow.
    """

    connector_type = ConnectorType.SINK
    task_class: ClassVar[type[SinkTask]]

    def task_configs(self, max_tasks: int) -> Sequence[Config]:
        return [dict(self.config) for _ in range(max_tasks)]

    @classmethod
    def why_tasks_are_fixed(cls) -> str | None:
        if cls.task_configs is SinkConnector.task_configs:
            return None
        return f"{cls.__name__} decides itself how many tasks it has"

    @classmethod
    def alter_offsets(cls, config: Config, offsets: Mapping[TopicPartition, int | None]) -> bool:
        """Check positions set by a user; None deletes one. The connector is stopped.

        Raise to refuse; the text is the answer. An exactly-once sink changes the positions in its target here.
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
        """Called once, first, to open or create the resources of the task."""

    def stop(self) -> None:
        """Called once, at the end, after the query has stopped, also after a failure."""


@dataclass(frozen=True, slots=True)
class SourceOffset:
    """A position in a source, as in the offset topic and the REST API."""

    partition: OffsetMap
    offset: OffsetMap


@dataclass(frozen=True, slots=True)
class ConsumedOffsets:
    """The next offsets of a consumer group, of topics in the worker's cluster."""

    group: str
    offsets: Mapping[TopicPartition, int]


class SourceTask(Task):
    """Returns a streaming DataFrame, which the worker writes to topics."""

    def read(self, spark: SparkSession) -> DataFrame:
        """Return the records as a streaming DataFrame. Called once each time the task starts.

        A task that overrides ``offsets_of`` begins at ``context.source_offset``. Others begin at Spark's own position,
        which the worker has stored for them.

        Records may have positions of their own: the columns ``source_partition`` and ``source_offset``, both structs or
        maps. Then the worker stores, for each partition, the offset of the last record, in the order of the rows. Such
        a task begins at ``context.source_offset``.

        With these columns, the column ``transaction`` ends a transaction after a record: ``commit`` or ``abort`` in its
        last record, null in others. It is ignored without ``transaction.boundary=connector``.
        """
        raise NotImplementedError

    def offsets_of(self, ends: Sequence[Any]) -> Sequence[SourceOffset] | None:
        """Return Connect's positions for the end of a batch that is safely in Kafka.

        ``ends`` has Spark's end offset of each streaming source in the query, parsed from JSON, in the order of the
        plan. None, if not overridden: the worker stores Spark's own offsets unchanged.
        """
        return None

    def consumed_offsets(self, ends: Sequence[Any]) -> ConsumedOffsets | None:
        """Return offsets to commit in the transaction of the batch, for a source that reads the worker's own cluster.

        They show the lag of the source to tools; the task itself begins at ``offsets_of``. Called only with
        exactly-once delivery. ``ends`` is as in ``offsets_of``. None, if not overridden.
        """
        return None


class SinkTask(Task):
    """Writes batches of records."""

    exactly_once: ClassVar[bool] = False
    """Promises that ``write`` stores data and ``batch.positions`` together or not at all, and that ``positions`` reads
    them back. Then each record arrives once, whatever fails. Without the promise a batch may be repeated."""

    repeats_batches: ClassVar[bool] = False
    """Asks the worker to note the end of a batch in Kafka before ``write``. Then a batch that is repeated after a crash
    has the same records on any worker, also on one without the task's checkpoint. Each batch has one more commit."""

    def write(self, df: DataFrame, batch: SinkBatch) -> Sequence[RefusedRecord] | None:
        """Write one batch; returning means that it is safe. Batches are written one after another.

        Return the records that the target refused, if any: they become bad records of the stage TASK_PUT, as those of
        ``refused``. Without ``errors.tolerance=all`` they fail the task. Only a task that uses all columns
        (``columns``) or names one of ``original_topic``, ``original_partition``, ``original_offset`` may do this.
        """
        raise NotImplementedError

    @property
    def takes_variant(self) -> bool:
        """Return whether ``df`` has data without a schema as VARIANT.

        By default such a column has the type that holds all data of the batch, so its type may differ between batches.
        Override it for a sink that keeps one schema.
        """
        return False

    def columns(self) -> Sequence[str] | None:
        """Return the columns that ``write`` uses: ``df`` has only these. None, if not overridden: it has all.

        ``original_topic``, ``original_partition`` and ``original_offset`` (KIP-793) exist only if they are named here:
        the record's place in Kafka, whatever transforms have changed.

        Override it where the columns are known: unused columns are not computed. If the types of these columns don't
        depend on the records, batches are not planned one by one. Called once, before ``start``.
        """
        return None

    def refused(self, df: DataFrame) -> Column | None:
        """Return why a record can't be written, as text, null where it can: an expression on the columns of ``df``.

        Refused records are bad records, like those that a converter rejects: ``errors.tolerance`` and the dead-letter
        topic are for them. An exception of ``write`` fails the whole batch. None, if not overridden: none is refused.

        Keys and values have the types in which ``write`` receives them. ``failure`` is a column of ``df`` as well: rows
        in which it is not null are bad already. Called once for each attempt to write a batch, before ``write``.
        """
        return None

    def positions(self, partitions: Sequence[TopicPartition]) -> Mapping[TopicPartition, int] | None:
        """Return the next positions for ``exactly_once``, as the target has stored them.

        Read after ``start`` and before the first batch. Omit partitions that the target has no position for: they
        begin where the consumer group of the connector says.
        """
        return None
