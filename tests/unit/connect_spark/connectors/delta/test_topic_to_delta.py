"""Settings of TopicToDelta, and its errors without Spark."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.connect.plugins.api import TerminalError
from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.connectors.delta.delta_log import require_delta
from barnabas.connect_spark.connectors.delta.topic_to_delta import TopicToDelta

UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "id"}


@pytest.mark.parametrize(
    "settings",
    [
        {"path": "/lake/t"},
        {"path": "file:/lake/${topic}", "record.columns": "timestamp,date,hour", "partition.by": "_date,_hour"},
        {"path": "hdfs://lake/t", "delta.appendOnly": "true", "auto.evolve": "true"},
        {"path": "/lake/t", **UPSERT, "delete.enabled": "true"},
        {"path": "/lake/t", **UPSERT, "pk.mode": "record_value"},
    ],
)
def test_valid_settings_are_accepted(settings: dict[str, str]) -> None:
    assert ConnectorKit(TopicToDelta, settings).errors == {}


@pytest.mark.parametrize(
    ("settings", "name", "message"),
    [
        ({}, "path", 'Missing required configuration "path"'),
        ({"path": "lake/t"}, "path", "not an absolute path"),
        ({"path": "/t", "insert.mode": "update"}, "insert.mode", "insert, upsert"),
        ({"path": "/t", "insert.mode": "upsert"}, "pk.mode", "needs a key: set record_key or record_value"),
        ({"path": "/t", "pk.mode": "record_key"}, "pk.mode", "is for insert.mode=upsert"),
        ({"path": "/t", "pk.fields": "id"}, "pk.fields", "omit pk.fields"),
        ({"path": "/t", "insert.mode": "upsert", "pk.mode": "record_value"}, "pk.fields", "needs the fields"),
        (
            {"path": "/t", **UPSERT, "pk.mode": "record_value", "delete.enabled": "true"},
            "delete.enabled",
            "has only its key",
        ),
        ({"path": "/t", "record.columns": "topic,day"}, "record.columns", "day: allowed: topic, partition"),
        ({"path": "/t", "commit.retries": "-1"}, "commit.retries", "at least 0"),
    ],
)
def test_invalid_settings_are_reported_with_advice(settings: dict[str, str], name: str, message: str) -> None:
    errors = ConnectorKit(TopicToDelta, settings).errors
    assert list(errors) == [name]
    assert message in errors[name][0]


def test_offsets_can_be_changed_only_after_spark_has_started(monkeypatch: pytest.MonkeyPatch) -> None:
    pyspark = pytest.importorskip("pyspark.sql")
    monkeypatch.setattr(pyspark.SparkSession, "_instantiatedSession", None)
    with pytest.raises(TerminalError, match="has not started Spark yet: resume any connector on it"):
        TopicToDelta.alter_offsets({"name": "c", "topics": "t", "path": "/lake/t"}, {})


def test_a_session_without_delta_lake_is_refused_with_the_setting_it_needs() -> None:
    package = pytest.importorskip("py4j.java_gateway").JavaPackage
    missing = package("io.delta.tables.DeltaTable", None)
    tables = SimpleNamespace(io=SimpleNamespace(delta=SimpleNamespace(tables=SimpleNamespace(DeltaTable=missing))))
    spark: Any = SimpleNamespace(_jvm=tables)
    with pytest.raises(TerminalError, match=r"set barnabas\.connect\.spark\.delta=true in the worker's settings"):
        require_delta(spark)


def test_a_spark_connect_server_is_refused_by_name() -> None:
    remote: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})()
    with pytest.raises(TerminalError, match=r"this one is a Spark Connect server \(sc://\)"):
        require_delta(remote)
