"""SqlPipeline: a query over topics and tables, whose rows go to a topic or a table.

One task runs the query; it is as parallel as ``shuffle.partitions`` and the partitions of its topics are. The connector
waits for topics that do not exist.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, ClassVar

from barnabas.clients.admin import AdminClient
from barnabas.connect.plugins.api import (
    REQUIRED,
    ConfigDef,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmptyString,
    Range,
    SourceConnector,
    SourceTask,
    ValidString,
)
from barnabas.connect_spark.connectors.iceberg.iceberg_catalog import catalog_errors
from barnabas.connect_spark.queries.connector_topics import partition_counts
from barnabas.connect_spark.sql.declarations import (
    InputDeclaration,
    InvalidDeclaration,
    OutputMode,
    TableKind,
    parse_inputs,
    parse_output,
)
from barnabas.connect_spark.sql.pipeline_positions import check_altered
from barnabas.connect_spark.sql.pipeline_task import SqlPipelineTask
from barnabas.connect_spark.sql.query import statement_problem
from barnabas.connect_spark.sql.table_output import table_problems

__all__ = ["SqlPipeline"]

log = logging.getLogger(__name__)

_QUERY = "query"
_LOCATION, _PARTITIONS, _BATCH = "state.location", "shuffle.partitions", "batch.records.max"
_LOOK_S = 10.0


class SqlPipeline(SourceConnector):
    """A query in SQL over topics and tables, to a topic or a table."""

    version = "1.0.0"
    config_def = ConfigDef(
        [
            ConfigKey(
                "inputs",
                ConfigType.LIST,
                REQUIRED,
                "The names of the inputs in the query. The settings of each begin with inputs.<name>., such as "
                "inputs.orders.topic, inputs.orders.format and inputs.orders.schema.",
                importance=Importance.HIGH,
            ),
            ConfigKey(
                _QUERY,
                ConfigType.STRING,
                REQUIRED,
                "The query in Spark's SQL: SELECT or WITH. Inputs are its tables.",
                NonEmptyString(),
                Importance.HIGH,
            ),
            ConfigKey("output.topic", ConfigType.STRING, "", "The topic for the rows.", importance=Importance.HIGH),
            ConfigKey(
                "output.table",
                ConfigType.STRING,
                "",
                "Or the table: parquet:/path, delta:/path, iceberg:namespace.table, or the URL of a database, jdbc:... "
                "Further settings that begin with output. are those of TopicToFiles, TopicToDelta, TopicToIceberg or "
                "JdbcSink, such as output.partition.by.",
                importance=Importance.HIGH,
            ),
            ConfigKey(
                "output.mode",
                ConfigType.STRING,
                "append",
                "append: rows are added. upsert: a row replaces the one of its key, in a table, or for readers of a "
                "compacted topic. Groups without a watermark change with each record, and need upsert.",
                ValidString(tuple(OutputMode)),
                Importance.HIGH,
            ),
            ConfigKey("output.key", ConfigType.LIST, "", "The columns of the key. Needed for upsert."),
            ConfigKey(
                "output.delete.when",
                ConfigType.STRING,
                "",
                "A condition on columns of the query. Such rows delete the row of their key: a topic gets a tombstone.",
            ),
            ConfigKey(
                "output.format",
                ConfigType.STRING,
                "",
                "The format of values in the topic. Empty: as value.converter of the connector or the worker says.",
            ),
            ConfigKey("output.key.format", ConfigType.STRING, "", "The format of keys in the topic, likewise."),
            ConfigKey(
                _LOCATION,
                ConfigType.STRING,
                "",
                "A folder for the state of queries that group, join topics or deduplicate. Empty: a folder of the "
                "worker. In a folder that all workers share, the task can move to another worker.",
            ),
            ConfigKey(
                _PARTITIONS,
                ConfigType.INT,
                None,
                "The number of partitions of the state, and of what is grouped or joined. It can't change while the "
                "state is kept. Empty: as spark.sql.shuffle.partitions of the worker.",
                Range(1, 10_000),
            ),
            ConfigKey(
                _BATCH,
                ConfigType.LONG,
                None,
                "The most records that a batch reads from each topic. Empty: as barnabas.batch.records.max.",
                Range(1),
            ),
        ]
    )
    task_class: ClassVar[type[SourceTask]] = SqlPipelineTask

    @classmethod
    def validate(cls, config: Mapping[str, str], settings: Mapping[str, object]) -> Mapping[str, Sequence[str]]:
        errors: dict[str, list[str]] = {}
        _add_declaration_errors(config, errors)
        problem = statement_problem(str(settings.get(_QUERY) or "SELECT"))
        if problem is not None:
            errors[_QUERY] = [problem]
        location = str(settings.get(_LOCATION) or "")
        if location and not PurePosixPath(location).is_absolute():
            errors[_LOCATION] = [f"{location} is not an absolute path: state is in a folder that workers may share."]
        if config.get("transforms", "").strip():
            errors["transforms"] = ["The query says what becomes of records: remove transforms."]
        if config.get("transaction.boundary", "poll").strip().lower() == "connector":
            errors["transaction.boundary"] = ["Each batch is a transaction: write poll or interval."]
        return errors

    @classmethod
    def exactly_once_support(cls, config: Mapping[str, str]) -> bool:
        return True

    @classmethod
    def alter_offsets(
        cls, config: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Check the offsets. Raise ValueError."""
        inputs = parse_inputs(config)
        check_altered(offsets, {declared.name: declared.topic for declared in inputs if declared.topic is not None})
        return True

    # ---- The running connector

    def start(self) -> None:
        self._stopping = threading.Event()
        self._missing: list[str] = []
        self._thread = threading.Thread(target=self._watch, name="connect-pipeline", daemon=True)
        self._thread.start()

    def task_configs(self, max_tasks: int) -> Sequence[Mapping[str, str]]:
        self._missing = self._find_missing()
        self.context.report_missing(self._missing)
        return [] if self._missing else [dict(self.config)]

    def stop(self) -> None:
        self._stopping.set()

    def _watch(self) -> None:
        """Look for topics that were missing."""
        while not self._stopping.wait(_LOOK_S):
            try:
                if self._missing and self._find_missing() != self._missing:
                    self.context.request_task_reconfiguration()
            except Exception as error:
                log.warning("connector %s can't look for the topics of its inputs: %s", self.context.name, error)

    def _find_missing(self) -> list[str]:
        """Return the topics that do not exist. Raise AdminError or ClientError."""
        missing: list[str] = []
        for declaration in parse_inputs(self.config):
            if declaration.topic is not None:
                found = self._partition_counts(declaration, declaration.topic)
                missing += [] if declaration.topic in found else [declaration.topic]
        return missing

    def _partition_counts(self, declaration: InputDeclaration, topic: str) -> Mapping[str, int]:
        if "bootstrap.servers" not in declaration.consumer:
            return self.context.partition_counts([topic])
        with AdminClient.sync(properties=dict(declaration.consumer)) as admin:
            return partition_counts(admin, [topic])


def _add_declaration_errors(config: Mapping[str, str], errors: dict[str, list[str]]) -> None:
    """Add the errors of inputs and output."""
    if "inputs" in config:
        found = _problems(lambda: parse_inputs(config)) or _catalog_problems(config)
        for name, texts in found.items():
            errors.setdefault(name, []).extend(texts)
    found = _problems(lambda: parse_output(config))
    for name, texts in found.items():
        errors.setdefault(name, []).extend(texts)
    output = None if found else parse_output(config)
    if output is not None and output.table is not None:
        errors.update(table_problems(output))


def _catalog_problems(config: Mapping[str, str]) -> Mapping[str, Sequence[str]]:
    """Return the errors of the catalogs of inputs, which can be parsed. Those of an output its sink reports."""
    return {
        f"inputs.{declared.name}.{name}": texts
        for declared in parse_inputs(config)
        if declared.table is not None and declared.table.kind is TableKind.ICEBERG
        for name, texts in catalog_errors(declared.options).items()
    }


def _problems(parse: Any) -> Mapping[str, Sequence[str]]:
    try:
        parse()
    except InvalidDeclaration as error:
        return error.problems
    return {}
