"""What would fail when a task of a connector starts, found before the connector is created.

The checks repeat the steps of a start that need no Spark session and no other machine: they parse the settings that
only tasks parse, create converters and transforms, and compare what a connector needs with what the worker's session
has. A schema in Spark's syntax is checked once the worker has started Spark, whose parser it needs. Folders, tables and
servers are not contacted: they may exist on another worker, or later.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from pyspark import SparkContext
from pyspark.sql.types import DataType, StructType

from barnabas.clients.client_config import client_config
from barnabas.clients.errors import InvalidClientConfig
from barnabas.connect.plugins.api import Connector, SinkConnector, SourceTask, TerminalError
from barnabas.connect.plugins.record_plugins import RecordPlugin
from barnabas.connect.settings.plugin_config_def import ConfigException
from barnabas.connect_spark.connectors.delta.topic_to_delta import TopicToDelta
from barnabas.connect_spark.connectors.files.files_to_topic import FilesToTopic
from barnabas.connect_spark.connectors.files.topic_to_files import TopicToFiles
from barnabas.connect_spark.connectors.iceberg.topic_to_iceberg import TopicToIceberg
from barnabas.connect_spark.connectors.jdbc.jdbc_settings import STAGING_DIRECTORY, URL
from barnabas.connect_spark.connectors.jdbc.jdbc_sink import JdbcSink
from barnabas.connect_spark.connectors.jdbc.jdbc_source import JdbcSource
from barnabas.connect_spark.connectors.postgresql.connection import require_psycopg
from barnabas.connect_spark.connectors.postgresql.postgres_changes import PostgresChanges
from barnabas.connect_spark.converters.avro_converter import AvroConverter
from barnabas.connect_spark.converters.record_converter import RecordConverter
from barnabas.connect_spark.converters.registry.avro_converter import ConfluentAvroConverter
from barnabas.connect_spark.positions.group_positions import check_reset
from barnabas.connect_spark.queries.connector_topics import TopicRules
from barnabas.connect_spark.queries.error_policy import ErrorPolicy
from barnabas.connect_spark.queries.followed_query import unfollowable
from barnabas.connect_spark.queries.kafka_settings import admin_settings, consumer_settings, producer_settings
from barnabas.connect_spark.queries.polled_source import PolledSourceTask
from barnabas.connect_spark.sessions.object_stores import is_object_store
from barnabas.connect_spark.sessions.spark_packages import (
    AVRO,
    DELTA,
    ICEBERG,
    OWN_SPARK,
    S3,
    SparkPackage,
    package_problem,
)
from barnabas.connect_spark.sessions.spark_settings import QuerySettings, SparkSettings
from barnabas.connect_spark.sql.declarations import (
    InputDeclaration,
    InvalidDeclaration,
    OutputDeclaration,
    TableKind,
    parse_inputs,
    parse_output,
)
from barnabas.connect_spark.sql.pipeline_program import NOT_REMOTE
from barnabas.connect_spark.sql.pipeline_task import PipelineTask
from barnabas.connect_spark.transforms.transform_chain import TransformChain

__all__ = ["start_problems"]

_CLASS = "connector.class"
_REPLICATION = "errors.deadletterqueue.topic.replication.factor"
_RESET = "consumer.override.auto.offset.reset"
_SCHEMA_OF_JSON = ".barnabas.schema"
_SIDES = ("key.converter", "value.converter", "header.converter")
_PACKAGES: Mapping[type[Connector], SparkPackage] = {TopicToDelta: DELTA, TopicToIceberg: ICEBERG}
_TABLE_PACKAGES: Mapping[TableKind, SparkPackage] = {TableKind.DELTA: DELTA, TableKind.ICEBERG: ICEBERG}
_AVRO_CONVERTERS = frozenset({AvroConverter.java_class, "AvroConverter", ConfluentAvroConverter.java_class})
_PLACES: Mapping[type[Connector], str] = {TopicToFiles: "directory", TopicToIceberg: "catalog.warehouse"}
"""The settings that may be URLs of an object store."""

Problems = dict[str, list[str]]


def start_problems(
    connector: type[Connector],
    config: Mapping[str, str],
    worker: Mapping[str, str],
    spark: SparkSettings,
    record_plugins: Mapping[str, type[RecordPlugin]] | None = None,
) -> Problems:
    """Return the errors by setting. Names of classes in ``config`` are full. May read files.

    ``record_plugins`` are the transforms, predicates and converters of other packages.
    """
    found: Problems = {}
    is_sink = issubclass(connector, SinkConnector)
    steps: list[Callable[[], object]] = [
        lambda: _check_policy(ErrorPolicy.of(config)),
        lambda: QuerySettings.of(config, worker),
        lambda: _check_converters(config, worker, record_plugins),
        lambda: TransformChain.of(config, record_plugins),
    ]
    if is_sink:
        steps += [lambda: _check_reset(config, worker), lambda: _check_regex(config)]
    else:
        is_enabled = worker.get("topic.creation.enable", "true").strip().lower() != "false"
        steps.append(lambda: TopicRules.of(config, is_enabled=is_enabled))
    for kind in ("consumer",) if is_sink else ("producer", "admin"):
        steps.append(lambda kind=kind: _check_client(kind, config, worker))  # type: ignore[misc]
    if config.get("errors.deadletterqueue.topic.name"):
        steps += [lambda: _check_client("producer", config, worker), lambda: _check_client("admin", config, worker)]
    for step in steps:
        try:
            step()
        except ConfigException as error:
            found.setdefault(error.name, []).append(str(error))
    for name, text in [*_session_problems(connector, config, worker, spark), *_schema_problems(connector, config)]:
        found.setdefault(name, []).append(text)
    return found


def _check_policy(policy: ErrorPolicy) -> None:
    factor = policy.dead_letter_replication_factor
    if policy.dead_letter_topic and factor != -1 and factor < 1:
        raise ConfigException(_REPLICATION, factor, "Write a number from 1, or -1 for the brokers' default")


def _check_reset(config: Mapping[str, str], worker: Mapping[str, str]) -> None:
    reset = consumer_settings(worker, config)["auto.offset.reset"]
    check_reset(reset, _RESET if _RESET in config else "consumer.auto.offset.reset")


def _check_regex(config: Mapping[str, str]) -> None:
    pattern = config.get("topics.regex", "")
    try:
        re.compile(pattern)
    except re.error as error:
        raise ConfigException("topics.regex", pattern, f"The worker can't use this expression: {error}") from None


def _check_converters(
    config: Mapping[str, str], worker: Mapping[str, str], plugins: Mapping[str, type[RecordPlugin]] | None
) -> None:
    if not _has_session():
        config, worker = _without_spark_schemas(config), _without_spark_schemas(worker)
    RecordConverter.of(config, worker, plugins)


def _without_spark_schemas(config: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in config.items() if not name.endswith(_SCHEMA_OF_JSON)}


def _has_session() -> bool:
    return SparkContext._active_spark_context is not None


def _check_client(kind: str, config: Mapping[str, str], worker: Mapping[str, str]) -> None:
    """Check a connector's own settings of a client. Those of the worker are checked when it starts."""
    prefix = f"{kind}.override."
    own = [name for name in config if name.startswith(prefix)]
    if not own:
        return
    settings = {"consumer": consumer_settings, "producer": producer_settings, "admin": admin_settings}[kind]
    try:
        client_config(settings(worker, config), source=f"{kind}.override.*")
    except InvalidClientConfig as error:
        named = [name for name in own if name.removeprefix(prefix) in str(error)]
        name = named[0] if named else own[0]
        raise ConfigException(name, config[name], "; ".join(error.problems)) from None


def _session_problems(
    connector: type[Connector], config: Mapping[str, str], worker: Mapping[str, str], spark: SparkSettings
) -> list[tuple[str, str]]:
    """Return what the connector needs and the worker's Spark, or its Python, does not have."""
    problems = [
        (setting, text)
        for setting, package, user in _packages(connector, config)
        if (text := package_problem(spark, package, user)) is not None
    ]
    if issubclass(connector, JdbcSink | JdbcSource):
        problems += _database_problems(config, spark)
    if issubclass(connector, PostgresChanges):
        problems += _client_problems()
    task = connector.task_class
    if issubclass(task, PipelineTask):
        return [*problems, *_pipeline_problems(config, spark)]
    if spark.is_connect and issubclass(task, SourceTask) and not issubclass(task, PolledSourceTask):
        problems += _followed_problems(task, config, worker)
    return problems


def _pipeline_problems(config: Mapping[str, str], spark: SparkSettings) -> list[tuple[str, str]]:
    if spark.is_connect:
        return [(_CLASS, f"{NOT_REMOTE}.")]
    try:
        inputs, output = parse_inputs(config), parse_output(config)
    except InvalidDeclaration:
        return []  # The connector itself reports it.
    problems = [problem for declared in inputs for problem in _input_problems(declared)]
    for setting, package, user in _pipeline_packages(inputs, output):
        problem = package_problem(spark, package, user)
        problems += [] if problem is None else [(setting, problem)]
    return problems


def _input_problems(declared: InputDeclaration) -> list[tuple[str, str]]:
    """Return what is wrong with the converters of an input, by its setting as the converter names it."""
    converters = declared.converters if _has_session() else _without_spark_schemas(declared.converters)
    try:
        RecordConverter.of(converters, {})
    except ConfigException as error:
        return [(f"inputs.{declared.name}.{error.name}", str(error))]
    return []


def _pipeline_packages(
    inputs: Sequence[InputDeclaration], output: OutputDeclaration
) -> Iterator[tuple[str, SparkPackage, str]]:
    tables = [(f"inputs.{declared.name}.table", declared.table) for declared in inputs]
    for setting, table in [*tables, ("output.table", output.table)]:
        if table is not None and table.kind in _TABLE_PACKAGES:
            yield setting, _TABLE_PACKAGES[table.kind], str(table)
    for declared in inputs:
        if declared.value.class_name in _AVRO_CONVERTERS:
            yield f"inputs.{declared.name}.format", AVRO, "AvroConverter"


def _packages(connector: type[Connector], config: Mapping[str, str]) -> Iterator[tuple[str, SparkPackage, str]]:
    """Yield the packages of Spark that are needed, each with the setting and the class or URL that needs it."""
    for known, package in _PACKAGES.items():
        if issubclass(connector, known):
            yield _CLASS, package, known.__name__
    for side in _SIDES:
        if config.get(side) in _AVRO_CONVERTERS:
            yield side, AVRO, "AvroConverter"
    for known, setting in _PLACES.items():
        url = config.get(setting, "").strip()
        if issubclass(connector, known) and is_object_store(url):
            yield setting, S3, url


def _client_problems() -> list[tuple[str, str]]:
    try:
        require_psycopg()
    except TerminalError as error:
        return [(_CLASS, str(error))]
    return []


def _database_problems(config: Mapping[str, str], spark: SparkSettings) -> list[tuple[str, str]]:
    problems: list[tuple[str, str]] = []
    if spark.is_connect and not config.get(URL, "").startswith("jdbc:sqlite:"):
        text = f"a Spark Connect server (sc://) can use jdbc:sqlite: only. Use that, or {OWN_SPARK}."
        problems.append((URL, text))
    if (spark.is_connect or spark.is_cluster) and not config.get(STAGING_DIRECTORY, "").strip():
        text = f"Spark runs on {spark.shown_master}: set a folder that the worker and the executors share."
        problems.append((STAGING_DIRECTORY, text))
    return problems


def _followed_problems(
    task: type[SourceTask], config: Mapping[str, str], worker: Mapping[str, str]
) -> list[tuple[str, str]]:
    """Return what is impossible where the server runs the query of a source."""
    problems: list[tuple[str, str]] = []
    if worker.get("exactly.once.source.support", "").strip().lower() == "enabled":
        text = f"exactly-once delivery of {task.__name__} is impossible on a Spark Connect server. Use {OWN_SPARK}."
        problems.append((_CLASS, text))
    try:
        rules, policy = TopicRules.of(config, is_enabled=True), ErrorPolicy.of(config)
    except ConfigException:
        return problems  # Reported above.
    reason = unfollowable(task, rules, policy)
    return problems if reason is None else [*problems, (_CLASS, reason)]


def _schema_problems(connector: type[Connector], config: Mapping[str, str]) -> Sequence[tuple[str, str]]:
    """Check the columns of files, once Spark can parse them."""
    given = config.get("schema", "").strip()
    if not given or not issubclass(connector, TopicToFiles | FilesToTopic) or not _has_session():
        return []
    example = "write it as in CREATE TABLE, for example: id BIGINT, price DOUBLE."
    try:
        is_table = isinstance(DataType.fromDDL(given), StructType)
    except Exception as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        return [("schema", f"{given} can't be read; {example} Spark says: {reason}")]
    return [] if is_table else [("schema", f"{given} has no column names; {example}")]
