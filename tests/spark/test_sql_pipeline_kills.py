"""A pipeline whose process dies at every step: no row is missing or counted twice, with state and without."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.testing import Node
from tests.spark.sql_kill_run import INPUT, KINDS, OUTPUT, STEPS, TOTAL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(3600)]

_KEYS = 7


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as started:
        started.create_topic(INPUT)
        started.create_topic(OUTPUT)
        yield started
        started.stop()
        assert "Traceback" not in started.log


def fill(spark: SparkSession, node: Node) -> None:
    """Write the numbers in their order, a second of event time apart."""
    rows = [
        (json.dumps({"n": n, "k": n % _KEYS, "at": f"2026-01-01T00:{n // 60:02d}:{n % 60:02d}Z"}),)
        for n in range(TOTAL)
    ]
    frame = spark.createDataFrame(rows, "value string").coalesce(1)
    frame.write.format("kafka").option("kafka.bootstrap.servers", node.bootstrap_servers).option("topic", INPUT).save()


def run(node: Node, folder: Path, kind: str, step: str) -> int:
    command = [sys.executable, "-m", "tests.spark.sql_kill_run", str(folder), node.bootstrap_servers, kind, step]
    environment = {**os.environ, "SPARK_LOCAL_DIRS": str(folder)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr[-5000:]
    return done.returncode


def committed(spark: SparkSession, node: Node) -> list[dict[str, Any]]:
    records = spark.read.format("kafka").option("kafka.bootstrap.servers", node.bootstrap_servers)
    rows = records.option("kafka.isolation.level", "read_committed").option("subscribe", OUTPUT).load()
    return [json.loads(bytes(row["value"])) for row in rows.orderBy("offset").collect()]


def sums() -> dict[int, tuple[int, int]]:
    return {k: (sum(range(k, TOTAL, _KEYS)), len(range(k, TOTAL, _KEYS))) for k in range(_KEYS)}


@pytest.mark.parametrize("kind", KINDS)
def test_a_process_dies_at_every_step(spark: SparkSession, node: Node, tmp_path: Path, kind: str) -> None:
    fill(spark, node)
    for step in STEPS[kind]:
        assert run(node, tmp_path, kind, step) == -signal.SIGKILL, step
    assert run(node, tmp_path, kind, "none") == 0

    if kind == "groups":
        latest = {row["k"]: (row["total"], row["rows"]) for row in committed(spark, node)}
        assert latest == sums()
    elif kind == "windows":
        found = committed(spark, node)
        assert set(Counter((row["since"], row["k"]) for row in found).values()) == {1}
        complete = [n for n in range(TOTAL) if n // 10 * 10 + 10 <= TOTAL - 1 - 5]
        assert sum(row["rows"] for row in found) == len(complete)
        assert sum(row["total"] for row in found) == sum(complete)
    elif kind == "rows":
        assert Counter(row["n"] for row in committed(spark, node)) == Counter(range(TOTAL))
    else:
        rows = spark.read.format("delta").load(str(tmp_path / "table")).collect()
        if kind == "table":
            assert Counter(row["n"] for row in rows) == Counter(range(TOTAL))
        else:
            assert {row["k"]: (row["total"], row["rows"]) for row in rows} == sums()
