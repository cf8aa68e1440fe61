"""Settings of TopicToIceberg, and its errors without Spark."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.plugins.api import TerminalError
from barnabas.connect.plugins.testing import ConnectorKit
from barnabas.connect_spark.connectors.iceberg.iceberg_catalog import IcebergCatalog, require_iceberg
from barnabas.connect_spark.connectors.iceberg.snapshot_positions import positions_in, property_of, summary_of
from barnabas.connect_spark.connectors.iceberg.topic_to_iceberg import TopicToIceberg

HADOOP = {"catalog.type": "hadoop", "catalog.warehouse": "/lake", "table": "lake.orders"}
REST = {"catalog.type": "rest", "catalog.uri": "http://127.0.0.1:8181", "table": "lake.${topic}"}
JDBC = {
    "catalog.type": "jdbc",
    "catalog.uri": "jdbc:postgresql://127.0.0.1/catalog",
    "catalog.warehouse": "s3a://bucket/lake",
    "table": "a.b.orders",
}
UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "id"}
P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    "settings",
    [
        HADOOP,
        {**REST, "catalog.warehouse": "main", "partition.by": "days(ts), bucket(16, id)"},
        {**JDBC, "catalog.jdbc.user": "me", "catalog.jdbc.password": "${env:PASSWORD}"},
        {**HADOOP, "catalog.warehouse": "hdfs://host/lake", **UPSERT, "delete.enabled": "true"},
        {**HADOOP, "compaction.interval.ms": "60000", "iceberg.write.format.default": "orc"},
    ],
)
def test_valid_settings_are_accepted(settings: dict[str, str]) -> None:
    assert ConnectorKit(TopicToIceberg, settings).errors == {}


@pytest.mark.parametrize(
    ("settings", "name", "message"),
    [
        ({**HADOOP, "catalog.type": "glue"}, "catalog.type", "hadoop, rest, jdbc"),
        ({**HADOOP, "catalog.warehouse": ""}, "catalog.warehouse", "needs the folder or URL"),
        ({**HADOOP, "catalog.warehouse": "lake"}, "catalog.warehouse", "not an absolute path"),
        ({**HADOOP, "catalog.warehouse": "s3a://b/l"}, "catalog.warehouse", "Use catalog.type=rest or jdbc"),
        ({**HADOOP, "catalog.uri": "http://x"}, "catalog.uri", "omit catalog.uri"),
        ({**REST, "catalog.uri": ""}, "catalog.uri", "needs the URL of the REST catalog"),
        ({**JDBC, "catalog.uri": "jdbc:mysql://h/d"}, "catalog.uri", "jdbc:postgresql://host:port/database"),
        ({**HADOOP, "table": "orders"}, "table", "write them with a dot between, lake.orders"),
        ({**HADOOP, "partition.by": "weeks(ts)"}, "partition.by", "weeks is not a transform"),
        ({**HADOOP, "insert.mode": "upsert"}, "pk.mode", "needs a key"),
        ({**REST, "catalog.token": "abc"}, "catalog.token", "is a secret in plain text: write it as a reference"),
        ({**HADOOP, "compaction.files.min": "1"}, "compaction.files.min", "at least 2"),
    ],
)
def test_invalid_settings_are_reported_with_advice(settings: dict[str, str], name: str, message: str) -> None:
    errors = ConnectorKit(TopicToIceberg, settings).errors
    assert list(errors) == [name]
    assert message in errors[name][0]


def test_a_session_without_iceberg_is_refused_with_the_setting_it_needs() -> None:
    package = pytest.importorskip("py4j.java_gateway").JavaPackage
    missing = package("org.apache.iceberg.spark.SparkCatalog", None)
    jvm = SimpleNamespace(
        org=SimpleNamespace(
            apache=SimpleNamespace(iceberg=SimpleNamespace(spark=SimpleNamespace(SparkCatalog=missing)))
        )
    )
    spark: Any = SimpleNamespace(_jvm=jvm)
    with pytest.raises(TerminalError, match=r"set barnabas\.connect\.spark\.iceberg=true in the worker's settings"):
        require_iceberg(spark)


def test_the_name_of_a_catalog_depends_on_its_settings_and_does_not_reveal_them() -> None:
    first, same = IcebergCatalog.of({**JDBC, "catalog.token": "secret"}), IcebergCatalog.of(JDBC)
    assert IcebergCatalog.of(dict(reversed(JDBC.items()))).name == same.name != first.name
    assert "secret" not in first.name


def test_only_commits_to_a_local_folder_take_its_lock(tmp_path: Path) -> None:
    with IcebergCatalog.of({**HADOOP, "catalog.warehouse": str(tmp_path / "lake")}).commit_lock():
        assert [path.name for path in tmp_path.rglob(".*")] == [".barnabas-commits.lock"]
    with IcebergCatalog.of(JDBC).commit_lock():
        pass


# ---- positions in snapshots


class Snapshot:
    def __init__(self, summary: dict[str, str], parent: int | None) -> None:
        self._summary, self._parent = summary, parent

    def summary(self) -> dict[str, str]:
        return self._summary

    def parentId(self) -> int | None:
        return self._parent


class Metadata:
    """A table whose snapshots are numbered; the last one is the present one."""

    def __init__(self, snapshots: dict[int, Snapshot], properties: dict[str, str]) -> None:
        self._snapshots, self._properties = snapshots, properties

    def currentSnapshot(self) -> Snapshot | None:
        return self.snapshot(max(self._snapshots, default=0))

    def snapshot(self, number: int) -> Snapshot | None:
        return self._snapshots.get(number)

    def properties(self) -> dict[str, str]:
        return self._properties


def ours(positions: dict[TopicPartition, int]) -> dict[str, str]:
    return summary_of("app", "connector", 1, positions, positions)


def test_the_newest_snapshot_of_the_connector_has_its_positions() -> None:
    snapshots = {
        1: Snapshot(ours({P0: 3}), None),
        2: Snapshot(ours({P0: 5, P1: 2}), 1),
        3: Snapshot({"operation": "replace"}, 2),
        4: Snapshot(summary_of("other", "other", 0, {P0: 9}, {P0: 9}), 3),
    }
    assert positions_in(Metadata(snapshots, {}), "app") == {P0: 5, P1: 2}
    assert positions_in(Metadata(snapshots, {}), "other") == {P0: 9}
    assert positions_in(Metadata(snapshots, {}), "none") == {}


def test_a_property_counts_only_if_snapshots_have_expired() -> None:
    properties = {property_of("app"): json.dumps({"t": {"0": 7}})}
    assert positions_in(Metadata({3: Snapshot({}, 2)}, properties), "app") == {P0: 7}
    rolled_back = Metadata({1: Snapshot({}, None)}, properties)
    assert positions_in(rolled_back, "app") == {}
    assert positions_in(Metadata({}, {}), "app") == {}
