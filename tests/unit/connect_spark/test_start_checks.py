"""Settings that would fail when a task starts are reported by the validation."""

from __future__ import annotations

import sys
from collections.abc import Mapping

import pytest

from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.decide.validation.connector_validation import ConnectorValidation, ValidationDefaults
from barnabas.connect.plugins.api import ConfigDef, Connector
from barnabas.connect.plugins.discovery import discover
from barnabas.connect.plugins.record_plugins import Converter, RecordPlugin, Transform
from barnabas.connect_spark.connectors.files.topic_to_files import TopicToFiles
from barnabas.connect_spark.sessions.spark_settings import SparkSettings
from barnabas.connect_spark.start_checks import start_problems

SINK = {"name": "c", "topics": "orders", "value.converter": "StringConverter"}
FILES = {**SINK, "connector.class": "TopicToFiles", "directory": "/tmp/orders"}
PIPELINE = {
    "name": "c", "connector.class": "SqlPipeline", "inputs": "orders", "inputs.orders.topic": "orders",
    "inputs.orders.format": "json", "query": "SELECT * FROM orders", "output.topic": "out",
}  # fmt: skip
DELTA = {**SINK, "connector.class": "TopicToDelta", "path": "/tmp/orders"}
DATABASE = {**SINK, "connector.class": "JdbcSink", "connection.url": "jdbc:sqlite:/tmp/orders.db"}
COPY = {
    "name": "c",
    "connector.class": "TopicToTopic",
    "source.bootstrap.servers": "other:9092",
    "source.topics": "orders",
    "topic.format": "other.${topic}",
}
ICEBERG = {
    **SINK,
    "connector.class": "TopicToIceberg",
    "catalog.type": "hadoop",
    "catalog.warehouse": "/tmp/lake",
    "table": "lake.orders",
}
REST = {"catalog.type": "rest", "catalog.uri": "http://catalog:8181"}
CONFLUENT = "io.confluent.connect.avro.AvroConverter"
NUMBERS = {"name": "c", "connector.class": "Generator", "topic": "numbers"}
CLUSTER, SERVER = "spark://master:7077", "sc://server:15002"
MASTER, AVRO, LETTERS = "barnabas.connect.spark.master", "barnabas.connect.spark.avro", "errors.deadletterqueue.topic"
BYTES = "org.apache.kafka.connect.converters.ByteArrayConverter"


@pytest.fixture(scope="module")
def registry() -> PluginRegistry:
    return discover()


class Shout(Transform):
    config_def = ConfigDef([])


class Morse(Converter):
    config_def = ConfigDef([])


OWN: dict[str, type[RecordPlugin]] = {"shop.Shout": Shout, "shop.Morse": Morse}


class Checks:
    """The checks of a runtime with these settings of its worker."""

    def __init__(self, registry: PluginRegistry, worker: Mapping[str, str]) -> None:
        self._registry = registry
        self._worker = {"bootstrap.servers": "b:9092", "key.converter": BYTES, "value.converter": BYTES, **worker}

    def setting_problems(self, connector_config: Mapping[str, str]) -> Mapping[str, list[str]]:
        connector: type[Connector] = self._registry.connector_class(connector_config)
        spark = SparkSettings.of(self._worker, worker_id="w:1")
        return start_problems(connector, connector_config, self._worker, spark)


def errors(registry: PluginRegistry, config: Mapping[str, str], **worker: str) -> dict[str, str]:
    """Return the errors that a validation reports, by setting. Dots of the worker's settings are underscores."""
    settings = {name.replace("_", "."): text for name, text in worker.items()}
    converters = {"key": BYTES, "value": BYTES, "header": BYTES}
    defaults = ValidationDefaults("workers", converters)
    found = ConnectorValidation(registry, defaults, None, Checks(registry, settings)).validate(config)
    by_name = {info.value.name: " ".join(info.value.errors) for info in found.configs if info.value.errors}
    assert found.error_count == sum(len(info.value.errors) for info in found.configs)
    assert len({info.value.name for info in found.configs}) == len(found.configs)
    return by_name


def test_a_connector_without_problems_has_no_errors(registry: PluginRegistry) -> None:
    for config in (FILES, DATABASE, NUMBERS):
        assert errors(registry, config) == {}
    assert errors(registry, DELTA, barnabas_connect_spark_delta="true") == {}


def test_delta_needs_the_setting_of_its_worker(registry: PluginRegistry) -> None:
    (text,) = errors(registry, DELTA).values()
    assert text == (
        "TopicToDelta needs Delta Lake, and this worker's Spark starts without it: set "
        "barnabas.connect.spark.delta=true in the worker's settings, and restart the worker."
    )


def test_a_pipeline_needs_a_spark_of_its_worker_and_what_its_tables_and_formats_need(registry: PluginRegistry) -> None:
    assert errors(registry, PIPELINE) == {}
    server = errors(registry, PIPELINE, barnabas_connect_spark_master="sc://host:15002")
    assert "does not run on a Spark Connect server (sc://)" in server["connector.class"]
    tables = {
        **PIPELINE, "inputs": "orders,shops", "inputs.shops.table": "delta:/lake/shops", "output.topic": "",
        "output.table": "iceberg:lake.out", "output.catalog.type": "hadoop", "output.catalog.warehouse": "/lake",
    }  # fmt: skip
    found = errors(registry, tables)
    assert "barnabas.connect.spark.delta=true" in found["inputs.shops.table"]
    assert "barnabas.connect.spark.iceberg=true" in found["output.table"]
    avro = {**PIPELINE, "inputs.orders.format": "avro", "inputs.orders.schema": '"string"'}
    assert "barnabas.connect.spark.avro=true" in errors(registry, avro)["inputs.orders.format"]
    converter = {"inputs.orders.format": "", "inputs.orders.value.converter": "NoConverter"}
    assert "no such converter" in errors(registry, {**PIPELINE, **converter})["inputs.orders.value.converter"]


def test_avro_needs_the_setting_of_its_worker(registry: PluginRegistry) -> None:
    config = {**FILES, "value.converter": "AvroConverter", "value.converter.barnabas.avro.schema": '"string"'}
    assert "barnabas.connect.spark.avro=true" in errors(registry, config)["value.converter"]
    assert errors(registry, config, barnabas_connect_spark_avro="true") == {}


@pytest.mark.parametrize(
    ("config", "setting", "text"),
    [
        ({LETTERS + ".name": "dead", LETTERS + ".replication.factor": "0"}, LETTERS + ".replication.factor", "or -1"),
        (
            {"consumer.override.auto.offset.reset": "by_duration:PT1H"},
            "consumer.override.auto.offset.reset",
            "earliest, latest",
        ),
        ({"consumer.override.interceptor.classes": "x.Y"}, "consumer.override.interceptor.classes", "can't be used"),
        (
            {"consumer.override.sasl.kerberos.service.name": "kafka"},
            "consumer.override.sasl.kerberos.service.name",
            "Kerberos",
        ),
        (
            {LETTERS + ".name": "dead", "producer.override.transactional.id": "x"},
            "producer.override.transactional.id",
            "",
        ),
        (
            {"value.converter": "JsonConverter", "value.converter.schema.content": "{"},
            "value.converter.schema.content",
            "",
        ),
        (
            {
                "value.converter": "ProtobufConverter",
                "value.converter.barnabas.protobuf.message": "a.B",
                "value.converter.barnabas.protobuf.descriptor.file": "/no/such/file",
            },
            "value.converter.barnabas.protobuf.descriptor.file",
            "can't be read",
        ),
        (
            {
                "transforms": "t",
                "transforms.t.type": "org.apache.kafka.connect.transforms.InsertField$Value",
            },
            "transforms.t.topic.field",
            "No field insertion configured",
        ),
    ],
)
def test_what_only_a_task_parses_is_an_error_of_the_validation(
    registry: PluginRegistry, config: dict[str, str], setting: str, text: str
) -> None:
    found = errors(registry, {**FILES, **config})
    assert list(found) == [setting]
    assert text in found[setting]


def test_databases_need_what_the_session_gives(registry: PluginRegistry) -> None:
    def on(master: str, **config: str) -> set[str]:
        settings = {name.replace("_", "."): text for name, text in config.items()}
        return set(errors(registry, {**DATABASE, **settings}, barnabas_connect_spark_master=master))

    assert on("local[*]") == set()
    assert on(CLUSTER) == on(SERVER) == {"staging.directory"}
    assert on(SERVER, staging_directory="/shared") == set()
    assert on(SERVER, connection_url="jdbc:duckdb:/tmp/x", staging_directory="/shared") == {"connection.url"}
    assert on(CLUSTER, connection_url="jdbc:duckdb:/tmp/x", staging_directory="/shared") == set()


def test_a_spark_connect_server_can_not_do_everything(registry: PluginRegistry) -> None:
    server = {"barnabas_connect_spark_master": SERVER}
    copy = {**COPY, "key.converter": BYTES, "value.converter": BYTES, "header.converter": BYTES}
    assert errors(registry, copy, **server) == {}
    logged = {**copy, "errors.tolerance": "all", "errors.log.enable": "true"}
    assert "bad records can't be logged" in errors(registry, logged, **server)["connector.class"]
    created = {"topic.creation.default.partitions": "1", "topic.creation.default.replication.factor": "1"}
    assert "topics are missing" in errors(registry, copy | created, **server)["connector.class"]
    assert errors(registry, NUMBERS | created, **server) == {}
    exactly_once = errors(registry, copy, **server, exactly_once_source_support="enabled")
    assert "exactly-once delivery" in exactly_once["connector.class"]
    assert "does not run on a Spark Connect server" in errors(registry, DELTA, **server)["connector.class"]


def test_an_error_that_is_known_already_is_not_repeated(registry: PluginRegistry) -> None:
    found = errors(registry, {**FILES, "errors.tolerance": "some", "value.converter": "NoSuchConverter"})
    assert set(found) == {"errors.tolerance", "value.converter"}
    assert found["errors.tolerance"].count("Invalid value some") == 1


def test_a_check_that_breaks_does_not_break_the_validation(registry: PluginRegistry) -> None:
    class Broken:
        def setting_problems(self, connector_config: Mapping[str, str]) -> Mapping[str, list[str]]:
            raise ImportError("no Spark here")

    defaults = ValidationDefaults("workers", {"key": BYTES, "value": BYTES, "header": BYTES})
    found = ConnectorValidation(registry, defaults, None, Broken()).validate(FILES)
    assert found.error_count == 0


def test_transforms_and_converters_of_other_packages_are_known() -> None:
    spark = SparkSettings.of({}, worker_id="w:1")
    config = {**FILES, "transforms": "loud", "transforms.loud.type": "shop.Shout", "value.converter": "shop.Morse"}
    worker = {"bootstrap.servers": "b:9092", "key.converter": BYTES, "value.converter": BYTES}
    assert start_problems(TopicToFiles, config, worker, spark, OWN) == {}
    assert set(start_problems(TopicToFiles, config, worker, spark)) == {"transforms.loud.type", "value.converter"}


@pytest.mark.parametrize(
    ("config", "setting", "wanted"),
    [
        (ICEBERG, "connector.class", "iceberg"),
        ({**ICEBERG, **REST, "catalog.warehouse": "s3a://lake/w"}, "catalog.warehouse", "s3"),
        ({**FILES, "directory": "s3a://lake/orders"}, "directory", "s3"),
        ({**FILES, "value.converter": CONFLUENT, "value.converter.schema.registry.url": "http://r:1"},
         "value.converter", "avro"),
    ],
)  # fmt: skip
def test_packages_of_spark_need_the_settings_of_their_worker(
    registry: PluginRegistry, config: dict[str, str], setting: str, wanted: str
) -> None:
    others = {f"barnabas_connect_spark_{name}": "true" for name in ("iceberg", "s3", "avro") if name != wanted}
    assert f"set barnabas.connect.spark.{wanted}=true" in errors(registry, config, **others)[setting]
    assert errors(registry, config, **others, **{f"barnabas_connect_spark_{wanted}": "true"}) == {}


def test_an_object_store_is_refused_on_a_server(registry: PluginRegistry) -> None:
    server = {"barnabas_connect_spark_master": SERVER}
    found = errors(registry, {**FILES, "directory": "s3a://lake/orders"}, **server)
    assert "does not run on a Spark Connect server" in found["directory"]


def test_changes_of_postgresql_need_their_client(registry: PluginRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {"connector.class": "PostgresChanges", "database.hostname": "h", "database.user": "u"}
    config |= {"name": "c", "database.dbname": "d", "topic.prefix": "p"}
    assert errors(registry, config) == {}
    monkeypatch.setitem(sys.modules, "psycopg", None)
    assert "pip install 'barnabas[postgresql]'" in errors(registry, config)["connector.class"]
