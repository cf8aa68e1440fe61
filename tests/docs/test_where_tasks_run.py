"""The tables of docs/connect/tasks.md that say what runs where agree with the validation of a worker.

A cell that begins with ``no`` must be refused before a task starts, and any other must be accepted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pytest

from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.validation.connector_validation import ConnectorValidation, ValidationDefaults
from barnabas.connect.plugins.api import Connector
from barnabas.connect.plugins.discovery import discover
from barnabas.connect.plugins.pipelines import InstalledPipelines, pipeline
from barnabas.connect.settings.plugin_config_def import ConfigException
from barnabas.connect_spark.sessions.spark_settings import SparkSettings
from barnabas.connect_spark.sql import python_pipeline
from barnabas.connect_spark.start_checks import start_problems
from tests.docs.tracked import PROJECT

BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"
MASTERS = {"local": "local[*]", "spark": "spark://master:7077", "sc": "sc://server:15002"}
PACKAGES = {f"barnabas.connect.spark.{name}": "true" for name in ("delta", "iceberg", "s3")}
SINK = {"topics": "orders"}
SOURCE_KAFKA = {
    "source.bootstrap.servers": "other:9092",
    "source.topics": "orders",
    "topic.format": "other.${topic}",
    **{f"{side}.converter": BYTES for side in ("key", "value", "header")},
}
SQLITE = {"connection.url": "jdbc:sqlite:/tmp/orders.db", "staging.directory": "/tmp/shared"}
READ = {"table.whitelist": "orders", "mode": "incrementing", "incrementing.column.name": "id", "topic.prefix": "db-"}
POSTGRES = {
    "database.hostname": "db",
    "database.user": "u",
    "database.password": "p",
    "database.dbname": "shop",
    "topic.prefix": "shop",
}
ICEBERG = {"catalog.type": "hadoop", "catalog.warehouse": "/lake", "table": "lake.orders"}
QUERIED = {
    "inputs": "orders",
    "inputs.orders.topic": "orders",
    "inputs.orders.format": "json",
    "inputs.orders.schema": "id INT",
    "output.topic": "large-orders",
}
CONNECTORS: dict[str, Mapping[str, str]] = {
    "FileStreamSource": {"file": "/tmp/in.txt", "topic": "lines"},
    "FileStreamSink": {**SINK, "file": "/tmp/out.txt"},
    "FilesToTopic": {"directory": "/data", "topic": "lines"},
    "TopicToFiles": {**SINK, "directory": "/data"},
    "TopicToDelta": {**SINK, "path": "/lake/orders"},
    "TopicToIceberg": {**SINK, **ICEBERG},
    "TopicToHttp": {**SINK, "http.url": "https://api.example/orders"},
    "TopicToTopic": SOURCE_KAFKA,
    "JdbcSource": {**SQLITE, **READ},
    "JdbcSink": {**SINK, **SQLITE},
    "PostgresChanges": POSTGRES,
    "SqlPipeline": {**QUERIED, "query": "SELECT id FROM orders WHERE id > 1"},
    "PythonPipeline": {**QUERIED, "pipeline": "large_orders"},
    "NexmarkSource": {"topic": "bids"},
    "Generator": {"topic": "numbers"},
    "MockSourceConnector": {},
    "MockSinkConnector": SINK,
}
ONCE = {"exactly.once.source.support": "enabled"}
CREATED = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
TOLERANT = {"errors.tolerance": "all", "errors.log.enable": "true"}
LETTERS = {
    "errors.tolerance": "all",
    "errors.deadletterqueue.topic.name": "dead",
    "errors.deadletterqueue.topic.replication.factor": "1",
}
OPTIONS: dict[str, tuple[str, Mapping[str, str], Mapping[str, str]]] = {
    "`s3a://` in TopicToFiles": ("TopicToFiles", {**SINK, "directory": "s3a://lake/orders"}, {}),
    "PostgreSQL, MariaDB, MySQL, SQL Server, DuckDB in the JDBC connectors": (
        "JdbcSink",
        {**SINK, **SQLITE, "connection.url": "jdbc:postgresql://db/shop"},
        {},
    ),
    "dead letters, logged bad records of sinks": (
        "TopicToFiles",
        {**CONNECTORS["TopicToFiles"], **LETTERS, **TOLERANT},
        {},
    ),
    "`topic.creation.*`": ("Generator", {**CONNECTORS["Generator"], **CREATED}, {}),
    "`topic.creation.*` of TopicToTopic": ("TopicToTopic", {**SOURCE_KAFKA, **CREATED}, {}),
    "logged bad records of sources": ("Generator", {**CONNECTORS["Generator"], **TOLERANT}, {}),
    "logged bad records of TopicToTopic": ("TopicToTopic", {**SOURCE_KAFKA, **TOLERANT}, {}),
    "exactly-once sources": ("Generator", CONNECTORS["Generator"], ONCE),
    "exactly-once TopicToTopic": ("TopicToTopic", SOURCE_KAFKA, ONCE),
    "`transaction.boundary=interval`": (
        "Generator",
        {**CONNECTORS["Generator"], "transaction.boundary": "interval"},
        ONCE,
    ),
    "`barnabas.tasks.autoscale.enable`": (
        "TopicToFiles",
        {**CONNECTORS["TopicToFiles"], "tasks.max": "4", "barnabas.tasks.autoscale.enable": "true"},
        {},
    ),
    "AvroConverter, Confluent's Avro": (
        "TopicToFiles",
        {
            **CONNECTORS["TopicToFiles"],
            "value.converter": "io.confluent.connect.avro.AvroConverter",
            "value.converter.schema.registry.url": "http://registry:8081",
        },
        {"barnabas.connect.spark.avro": "true"},
    ),
    "Confluent's JSON Schema and Protobuf, ProtobufConverter": (
        "TopicToFiles",
        {
            **CONNECTORS["TopicToFiles"],
            "value.converter": "io.confluent.connect.protobuf.ProtobufConverter",
            "value.converter.schema.registry.url": "http://registry:8081",
        },
        {},
    ),
    "transforms and predicates": (
        "TopicToFiles",
        {
            **CONNECTORS["TopicToFiles"],
            "transforms": "hoist",
            "transforms.hoist.type": "HoistField$Value",
            "transforms.hoist.field": "line",
        },
        {},
    ),
}


@pipeline
def large_orders(orders: Any) -> Any:
    return orders


@pytest.fixture(autouse=True)
def _installed(monkeypatch: pytest.MonkeyPatch) -> None:
    pipelines = InstalledPipelines()
    pipelines.add(large_orders, "large_orders")
    monkeypatch.setattr(python_pipeline, "installed_pipelines", pipelines)


@pytest.fixture(scope="module")
def registry() -> PluginRegistry:
    return discover()


class _Checks:
    """The checks of a runtime with these settings of its worker."""

    def __init__(self, registry: PluginRegistry, worker: Mapping[str, str]) -> None:
        self._registry = registry
        self._worker = {"bootstrap.servers": "b:9092", "key.converter": BYTES, "value.converter": BYTES, **worker}

    def setting_problems(self, connector_config: Mapping[str, str]) -> Mapping[str, list[str]]:
        connector: type[Connector] = self._registry.connector_class(connector_config)
        spark = SparkSettings.of(self._worker, worker_id="w:1")
        return start_problems(connector, connector_config, self._worker, spark)


def refusals(
    registry: PluginRegistry, name: str, config: Mapping[str, str], worker: Mapping[str, str], kind: str
) -> list[str]:
    """Return the errors of a validation with Spark at this kind of place."""
    own = {} if kind == "sc" else PACKAGES
    settings = {**own, **worker, "barnabas.connect.spark.master": MASTERS[kind]}
    defaults = ValidationDefaults(
        "workers",
        {"key": BYTES, "value": BYTES, "header": BYTES},
        is_exactly_once_enabled=bool(worker.get("exactly.once.source.support")),
    )
    validation = ConnectorValidation(registry, defaults, None, _Checks(registry, settings))
    found = validation.validate({"name": "c", "connector.class": name, **config})
    return [error for info in found.configs for error in info.value.errors]


def table(title: str) -> dict[str, dict[str, str]]:
    """Return the cells of a table below a heading of the page, by row and kind of place."""
    text = (PROJECT / "docs" / "connect" / "tasks.md").read_text()
    part = text.partition(f"\n{title}\n")[2].partition("\n###")[0].partition("\n- ")[0]
    rows = [
        [cell.strip() for cell in line.strip("| ").split(" | ")] for line in part.splitlines() if line.startswith("| ")
    ]
    return {row[0]: dict(zip(MASTERS, row[1:], strict=True)) for row in rows[1:] if not row[0].startswith("---")}


def test_the_page_has_a_row_for_every_connector(registry: PluginRegistry) -> None:
    classes = {plugin.class_name for plugin in registry.listing() if plugin.type in ("sink", "source")}
    known = {name.removesuffix("Connector") for name in CONNECTORS}
    assert {re.split(r"[:.]", name)[-1].removesuffix("Connector") for name in classes} == known
    documented = {part for row in table("#### Connectors") for part in row.split(", ")}
    assert {name.removesuffix("Connector") for name in documented} == known


@pytest.mark.parametrize("kind", MASTERS)
@pytest.mark.parametrize("name", CONNECTORS)
def test_a_connector_runs_where_the_page_says(registry: PluginRegistry, name: str, kind: str) -> None:
    (cells,) = [cells for row, cells in table("#### Connectors").items() if name in row.split(", ")]
    found = refusals(registry, name, CONNECTORS[name], {}, kind)
    assert bool(found) == cells[kind].startswith("no"), found
    assert all(name in error or MASTERS[kind].partition(":")[0] in error for error in found)


@pytest.mark.parametrize("kind", MASTERS)
@pytest.mark.parametrize("option", OPTIONS)
def test_an_option_works_where_the_page_says(registry: PluginRegistry, option: str, kind: str) -> None:
    name, config, worker = OPTIONS[option]
    found = refusals(registry, name, config, worker, kind)
    assert bool(found) == table("#### Options")[option][kind].startswith("no"), found


def test_every_option_of_the_page_is_tested() -> None:
    assert set(table("#### Options")) == set(OPTIONS)


@pytest.mark.parametrize(
    "setting",
    [
        "barnabas.connect.spark.delta",
        "barnabas.connect.spark.iceberg",
        "barnabas.connect.spark.s3",
        "barnabas.connect.spark.conf.spark.driver.memory",
        "barnabas.connect.spark.conf.spark.dynamicAllocation.enabled",
    ],
)
def test_settings_of_an_own_session_are_refused_with_a_server(setting: str) -> None:
    worker = {"barnabas.connect.spark.master": MASTERS["sc"], setting: "true"}
    with pytest.raises(ConfigException, match=re.escape(setting)):
        SparkSettings.of(worker, worker_id="w:1")
    for kind in ("local", "spark"):
        SparkSettings.of({**worker, "barnabas.connect.spark.master": MASTERS[kind]}, worker_id="w:1")
