"""Sinks to Iceberg and to object stores: each record counts once, whichever step of a batch their process dies at."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect_spark.connectors.iceberg.iceberg_catalog import IcebergCatalog
from tests.peers.s3_server import running_s3
from tests.spark.killed_sink_run import STEPS, TOTAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3000)]

UPSERT = {"insert.mode": "upsert", "pk.mode": "record_key", "pk.fields": "id"}


def run(settings: dict[str, Any], step: str) -> int:
    command = [sys.executable, "-m", "tests.spark.killed_sink_run", json.dumps(settings), step]
    environment = {**os.environ, "SPARK_LOCAL_DIRS": settings["folder"]}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-5000:]
    return done.returncode


@pytest.mark.parametrize("mode", [{}, UPSERT], ids=["insert", "upsert"])
def test_iceberg(spark: SparkSession, tmp_path: Path, mode: dict[str, str]) -> None:
    config = {"catalog.type": "hadoop", "catalog.warehouse": str(tmp_path / "lake"), "table": "db.people", **mode}
    (tmp_path / "work").mkdir()
    settings = {"class": "TopicToIceberg", "config": config, "hadoop": {}, "folder": str(tmp_path / "work")}
    for step in STEPS["TopicToIceberg"]:
        killed = run(settings, step) == -signal.SIGKILL
        assert killed or step.endswith("the table"), step  # The first run has created the table, or not.
    assert run(settings, "none") == 0
    catalog = IcebergCatalog.of(config)
    catalog.open(spark)
    rows = spark.table(f"{catalog.name}.db.people").collect()
    wanted = range(TOTAL - 50, TOTAL) if mode else range(TOTAL)
    assert sorted(row.name for row in rows) == sorted(f"name {at}" for at in wanted)


def test_files_in_an_object_store(spark: SparkSession, tmp_path: Path) -> None:
    with running_s3() as server:
        server.provide(spark, "killed")
        url = "s3a://killed/people"
        settings = {
            "class": "TopicToFiles",
            "config": {"directory": url},
            "hadoop": server.settings("killed"),
            "folder": str(tmp_path),
        }
        for step in STEPS["TopicToFiles"]:
            assert run(settings, step) == -signal.SIGKILL, step
        assert run(settings, "none") == 0
        rows = spark.read.parquet(url).collect()
    assert sorted(row.name for row in rows) == sorted(f"name {at}" for at in range(TOTAL))
