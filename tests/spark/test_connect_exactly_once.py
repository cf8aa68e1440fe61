"""A source with exactly-once delivery: no row is missing or repeated, whichever step its process dies at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.testing import Node
from tests.spark.exactly_once_run import OUT, ROWS, STEPS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(900)]


@pytest.fixture
def node(tmp_path: Path) -> Iterator[Node]:
    with Node() as started:
        started.create_topic(OUT)
        yield started
        started.stop()
        assert "Traceback" not in started.log


def run(node: Node, folder: Path, step: str, batches: int = 3) -> int:
    command = [sys.executable, "-m", "tests.spark.exactly_once_run", str(folder), node.bootstrap_servers, step]
    environment = {**os.environ, "SPARK_LOCAL_DIRS": str(folder)}
    done = subprocess.run(
        [*command, str(batches)], env=environment, capture_output=True, text=True, timeout=200, check=False
    )
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-5000:]
    return done.returncode


def values(spark: SparkSession, node: Node, isolation: str) -> Counter[int]:
    records = spark.read.format("kafka").option("kafka.bootstrap.servers", node.bootstrap_servers)
    rows = records.option("kafka.isolation.level", isolation).option("subscribe", OUT).load()
    return Counter(int(row.value) for row in rows.selectExpr("CAST(value AS STRING) AS value").collect())


def test_a_process_dies_at_every_step_and_each_row_is_written_once(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    for step in STEPS:
        assert run(node, tmp_path, step) == -signal.SIGKILL, step
        committed = values(spark, node, "read_committed")
        assert set(committed.values()) <= {1}, f"{step}: {committed.most_common(5)}"
        assert set(committed) == set(range(len(committed))), step
        assert len(committed) % ROWS == 0, f"{step}: a part of a batch"
    assert run(node, tmp_path, "none") == 0
    committed = values(spark, node, "read_committed")
    assert committed == Counter(range(len(committed)))
    # Each run has committed its first batch. Some have left records of the second, which were aborted.
    assert len(committed) >= ROWS * len(STEPS)
    assert sum(values(spark, node, "read_uncommitted").values()) > len(committed) + ROWS
