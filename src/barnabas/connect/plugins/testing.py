"""A test kit for authors of connectors: it runs one like a worker, without a worker.

``errors`` and ``task_configs`` need no Spark. ``read`` and ``write`` run one task on the test's session, as a worker
does: with settings as a user writes them. Converters, transforms and Kafka are not part of it.
"""

from __future__ import annotations

import atexit
import json
import shutil
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from barnabas.common.config_providers import ConfigProviders
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.tasks.transaction_requests import TransactionRequests
from barnabas.connect.decide.validation.connector_validation import ConnectorValidation, ValidationDefaults
from barnabas.connect.plugins.api import (
    Config,
    Connector,
    ConnectorContext,
    OffsetMap,
    OffsetRange,
    RefusedRecord,
    SinkBatch,
    SinkTask,
    SourceOffset,
    SourceTask,
    Task,
    TaskContext,
    TopicPartition,
)
from barnabas.connect.plugins.discovery import built_in_plugins, connector_plugin
from barnabas.connect.settings.plugin_config_def import ConfigValue

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

__all__ = ["ConnectorKit", "NoRecords", "SinkRecord", "SourceRun"]

_SINK_SCHEMA = (
    "topic string, partition int, offset bigint, timestamp timestamp, key {key}, value {value}, "
    "headers array<struct<key: string, value: string>>"
)


class NoRecords(AssertionError):
    """The source did not return as many records as were expected."""


@dataclass(frozen=True, slots=True)
class SinkRecord:
    """A record as a sink receives it. ``value`` fits ``value_type`` of ``ConnectorKit.write``."""

    value: Any
    key: Any = None
    topic: str = "topic"
    partition: int = 0
    offset: int = 0
    timestamp: Any = None
    headers: Sequence[tuple[str, str]] = ()


@dataclass(frozen=True, slots=True)
class SourceRun:
    """The records of a source, and the positions that the offset topic would hold."""

    records: list[Row]
    offsets: list[SourceOffset]


@dataclass(slots=True)
class _ConnectorContext:
    name: str
    config: Config
    settings: Mapping[str, ConfigValue]
    topics: Mapping[str, int]
    client_config: Config = field(default_factory=dict)
    reconfigurations: int = 0
    missing: tuple[str, ...] = ()
    error: Exception | None = None

    def partition_counts(self, topics: Sequence[str] | None = None) -> Mapping[str, int]:
        return {name: count for name, count in self.topics.items() if topics is None or name in topics}

    def report_missing(self, topics: Sequence[str]) -> None:
        """Keep them in ``missing``."""
        self.missing = tuple(topics)

    def request_task_reconfiguration(self) -> None:
        self.reconfigurations += 1

    def raise_error(self, error: Exception) -> None:
        self.error = error


@dataclass(slots=True)
class _TaskContext:
    connector: str
    task: int
    config: Config
    settings: Mapping[str, ConfigValue]
    offsets: Sequence[SourceOffset] = ()
    folder: Path | None = None
    is_exactly_once: bool = False
    transactions: TransactionRequests | None = None
    reported: dict[str, float] = field(default_factory=dict)

    def report(self, name: str, description: str, value: float) -> None:
        self.reported[name] = value

    @property
    def scratch(self) -> Path:
        """A folder that is created on first use, and removed when the process ends."""
        if self.folder is None:
            self.folder = Path(mkdtemp(prefix="barnabas-connector-kit-"))
            atexit.register(shutil.rmtree, self.folder, ignore_errors=True)
        return self.folder

    def source_offset(self, partition: OffsetMap) -> OffsetMap | None:
        found = [offset.offset for offset in self.offsets if dict(offset.partition) == dict(partition)]
        return found[-1] if found else None


class _AsWritten(ConfigProviders):
    """References to secrets count as their values: a test has no providers."""

    __slots__ = ()

    def resolve(self, text: str, given: list[str] | None = None) -> str:
        return text


class ConnectorKit:
    """One connector with its settings. It sets ``name`` and ``connector.class``, and a sink's ``topics``."""

    def __init__(
        self, connector: type[Connector], config: Mapping[str, str], *, topics: Mapping[str, int] | None = None
    ) -> None:
        """``topics`` are those of the cluster, with their partitions."""
        self._class = connector
        self._plugin = connector_plugin(connector, "test")
        self.config: dict[str, str] = {"name": "test", "connector.class": self._plugin.name, **config}
        if self._plugin.type.text == "sink" and not {"topics", "topics.regex"} & set(config):
            self.config["topics"] = ",".join(topics or ["topic"])
        self._topics = dict(topics or {})
        self.refused: list[RefusedRecord] = []
        """The records that the last ``write`` reported as refused by the target."""

    @property
    def errors(self) -> dict[str, list[str]]:
        """Return validation errors by setting; empty for a valid configuration."""
        registry = PluginRegistry([*built_in_plugins(), self._plugin])
        converters = {"key": "StringConverter", "value": "StringConverter", "header": "SimpleHeaderConverter"}
        defaults = ValidationDefaults("test-workers", converters)
        infos = ConnectorValidation(registry, defaults, _AsWritten({})).validate(self.config)
        return {config.value.name: config.value.errors for config in infos.configs if config.value.errors}

    @property
    def settings(self) -> dict[str, ConfigValue]:
        return self._class.config_def.parse(self.config)

    def task_configs(self, max_tasks: int = 1) -> list[Config]:
        """Start the connector, request its task configs, and stop it."""
        context: ConnectorContext = _ConnectorContext("test", self.config, self.settings, self._topics)
        connector = self._class(context)
        connector.start()
        try:
            configs = list(connector.task_configs(max_tasks))
        finally:
            connector.stop()
        if len(configs) > max_tasks:
            raise AssertionError(f"the connector created {len(configs)} tasks, but {max_tasks} are allowed")
        wrong = [
            (name, value) for config in configs for name, value in config.items() if not (
                isinstance(name, str) and isinstance(value, str)
            )
        ]  # fmt: skip
        if wrong:
            raise AssertionError(f"settings of tasks are strings, not {wrong[0]!r}")
        return configs

    def task(self, number: int = 0, *, max_tasks: int = 1, offsets: Sequence[SourceOffset] = ()) -> Task:
        """Return one of its tasks, not started."""
        config = self.task_configs(max_tasks)[number]
        ends_transactions = self.config.get("transaction.boundary", "").strip().lower() == "connector"
        context: TaskContext = _TaskContext(
            "test",
            number,
            config,
            self._class.config_def.parse(config),
            offsets,
            is_exactly_once=ends_transactions,
            transactions=TransactionRequests() if ends_transactions else None,
        )
        return self._class.task_class(context)

    def read(
        self,
        spark: SparkSession,
        *,
        records: int | None = None,
        offsets: Sequence[SourceOffset] = (),
        timeout_s: float = 60,
    ) -> SourceRun:
        """Run a source's first task from ``offsets`` until it has returned this many records (None: all available
        ones).

        Raise NoRecords on a time-out, or the error of the query.
        """
        task = self.task(offsets=offsets)
        if not isinstance(task, SourceTask):
            raise TypeError(f"{self._class.__name__} is not a source")
        found: list[Row] = []
        enough = threading.Event()

        def collect(df: DataFrame, batch_id: int) -> None:
            found.extend(df.collect())
            if records is not None and len(found) >= records:
                enough.set()

        task.start(spark)
        try:
            writer = task.read(spark).writeStream.foreachBatch(collect)
            query = (writer.trigger(availableNow=True) if records is None else writer).start()
            try:
                self._wait(query, enough, records, found, timeout_s)
                return SourceRun(found, list(self._positions(task, query)))
            finally:
                query.stop()
        finally:
            task.stop()

    @staticmethod
    def _wait(query: Any, enough: threading.Event, records: int | None, found: list[Row], timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        while query.isActive and not enough.is_set() and time.monotonic() < deadline:
            enough.wait(0.05)
        if not query.isActive and query.exception() is not None:
            raise query.exception()
        while records is not None and enough.is_set() and not query.recentProgress and time.monotonic() < deadline:
            time.sleep(0.05)
        if (records is None and query.isActive) or (records is not None and not enough.is_set()):
            raise NoRecords(f"after {timeout_s} s there are {len(found)} records, not {records or 'all'}")

    @staticmethod
    def _positions(task: SourceTask, query: Any) -> Sequence[SourceOffset]:
        progress = [batch for batch in query.recentProgress if batch["numInputRows"]] or query.recentProgress
        if not progress:
            return []
        ends = [_parsed(source["endOffset"]) for source in progress[-1]["sources"]]
        return task.offsets_of(ends) or []

    def write(
        self,
        spark: SparkSession,
        records: Sequence[SinkRecord],
        *,
        batch_id: int = 0,
        key_type: str = "string",
        value_type: str = "string",
    ) -> SinkTask:
        """Start a sink's first task, have it write one batch, and stop it. The types are Spark's, as in DDL."""
        task = self.task()
        if not isinstance(task, SinkTask):
            raise TypeError(f"{self._class.__name__} is not a sink")
        rows = [
            (
                record.topic,
                record.partition,
                record.offset,
                record.timestamp,
                record.key,
                record.value,
                list(record.headers),
            )
            for record in records
        ]
        frame = spark.createDataFrame(rows, _SINK_SCHEMA.format(key=key_type, value=value_type))
        task.start(spark)
        try:
            if any(name.startswith("original_") for name in task.columns() or ()):
                frame = _with_places(frame)
            self.refused = list(task.write(frame, SinkBatch(batch_id, _ranges(records))) or ())
        finally:
            task.stop()
        return task


def _with_places(frame: DataFrame) -> DataFrame:
    """Return the frame with the columns that a task may name besides the common ones."""
    return frame.selectExpr("*", *(f"{name} AS original_{name}" for name in ("topic", "partition", "offset")))


def _ranges(records: Sequence[SinkRecord]) -> dict[TopicPartition, OffsetRange]:
    ranges: dict[TopicPartition, OffsetRange] = {}
    for record in records:
        partition = TopicPartition(record.topic, record.partition)
        known = ranges.get(partition, OffsetRange(record.offset, record.offset + 1))
        ranges[partition] = OffsetRange(min(known.start, record.offset), max(known.end, record.offset + 1))
    return ranges


def _parsed(offset: Any) -> Any:
    """Parse an offset of Spark's progress: JSON in JSON, or text that is not JSON."""
    if not isinstance(offset, str):
        return offset
    try:
        return json.loads(offset)
    except ValueError:
        return offset
