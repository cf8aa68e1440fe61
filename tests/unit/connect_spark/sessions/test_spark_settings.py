from __future__ import annotations

from pathlib import Path

import pytest

from barnabas.connect.settings.plugin_config_def import ConfigException
from barnabas.connect_spark.sessions.spark_settings import QuerySettings, SparkSettings

MASTER = "barnabas.connect.spark.master"


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[4]", "spark://host:7077", "spark://a:1,b:2", "sc://host:15002/;use_ssl=true"]
)
def test_every_kind_of_session_is_accepted(master: str) -> None:
    settings = SparkSettings.of({MASTER: master}, worker_id="h:8083")
    assert settings.master == master
    assert settings.is_connect == master.startswith("sc://")
    assert settings.is_cluster == master.startswith("spark://")


@pytest.mark.parametrize("master", ["", "local[0]", "yarn", "spark://host", "http://x:1"])
def test_an_unknown_kind_of_session_is_refused_with_the_known_ones(master: str) -> None:
    with pytest.raises(ConfigException, match=r"Write local\[\*\] or local\[N\] for a Spark in the worker, spark:"):
        SparkSettings.of({MASTER: master}, worker_id="h:8083")


@pytest.mark.parametrize(
    ("master", "server"),
    [
        ("sc://h", ("h", 15002)),
        ("sc://h/", ("h", 15002)),
        ("sc://h:1", ("h", 1)),
        ("sc://h:1/;use_ssl=true;token=hidden7", ("h", 1)),
    ],
)
def test_a_server_is_named_without_its_token(master: str, server: tuple[str, int]) -> None:
    settings = SparkSettings.of({MASTER: master}, worker_id="h:8083")
    assert settings.server == server
    assert settings.shown_master in ("sc://h", "sc://h:1")


@pytest.mark.parametrize(
    "master", ["sc://", "sc://h:x", "sc://h/path", "sc://h;token=hidden7", "sc://h/;session_id=1;token=hidden7"]
)
def test_an_unusable_server_is_reported_without_its_token(master: str) -> None:
    with pytest.raises(ConfigException) as raised:
        SparkSettings.of({MASTER: master}, worker_id="h:8083")
    assert "hidden7" not in str(raised.value)


def test_settings_of_spark_are_passed_through() -> None:
    prefix = "barnabas.connect.spark.conf."
    settings = SparkSettings.of({f"{prefix}spark.driver.memory": "4g"}, worker_id="h:8083")
    assert settings.conf == {"spark.driver.memory": "4g"}
    with pytest.raises(ConfigException, match=r"must begin with spark\."):
        SparkSettings.of({f"{prefix}driver.memory": "4g"}, worker_id="h:8083")


@pytest.mark.parametrize(
    ("config", "wanted"),
    [
        ({}, False),
        ({"barnabas.connect.spark.avro": "true"}, True),
        ({"key.converter": "StringConverter", "value.converter": "barnabas.connect.converters.AvroConverter"}, True),
        ({"header.converter": "AvroConverter"}, True),
    ],
)
def test_avro_is_loaded_on_request(config: dict[str, str], wanted: bool) -> None:
    assert SparkSettings.of(config, worker_id="h:8083").has_avro is wanted


def test_two_workers_of_one_machine_have_separate_folders() -> None:
    first, second = (SparkSettings.of({}, worker_id=f"127.0.0.1:{port}").directory for port in (8083, 8084))
    assert first != second
    assert SparkSettings.of({"barnabas.connect.spark.directory": "/x"}, worker_id="a").directory == Path("/x")


def test_a_connector_can_decide_how_its_query_runs() -> None:
    worker = {"barnabas.trigger.interval.ms": "100", "barnabas.batch.records.max": "7"}
    assert QuerySettings.of({}, {}) == QuerySettings(500, 500_000)
    assert QuerySettings.of({}, worker) == QuerySettings(100, 7)
    assert QuerySettings.of({"barnabas.trigger.interval.ms": "9"}, worker) == QuerySettings(9, 7)
    with pytest.raises(ConfigException, match=r"barnabas\.batch\.records\.max"):
        QuerySettings.of({"barnabas.batch.records.max": "0"}, {})


def test_a_transaction_at_intervals_is_a_batch_at_intervals() -> None:
    settings, worker = QuerySettings(500, 7), {"offset.flush.interval.ms": "4000"}
    assert settings.with_transactions({}, worker) == settings
    by_interval = {"transaction.boundary": "INTERVAL"}
    assert settings.with_transactions(by_interval, {}) == QuerySettings(60_000, 7)
    assert settings.with_transactions(by_interval, worker) == QuerySettings(4_000, 7)
    by_interval["transaction.boundary.interval.ms"] = "9"
    assert settings.with_transactions(by_interval, worker) == QuerySettings(9, 7)


def test_a_stage_that_writes_in_a_transaction_is_not_repeated() -> None:
    name, enabled = "spark.stage.maxConsecutiveAttempts", {"exactly.once.source.support": "ENABLED"}
    assert SparkSettings.of(enabled, worker_id="w:1").conf == {name: "1"}
    assert SparkSettings.of({}, worker_id="w:1").conf == {}
    cluster = {**enabled, "barnabas.connect.spark.master": "spark://host:7077"}
    assert SparkSettings.of(cluster, worker_id="w:1").conf == {}, "its executors write nothing"
    with pytest.raises(ConfigException, match="must be 1"):
        SparkSettings.of({**enabled, f"barnabas.connect.spark.conf.{name}": "2"}, worker_id="w:1")
