"""Connectors share the session of a worker: one with much work does not hold up one with little."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from barnabas.connect_spark.positions.checkpoints import fresh_checkpoint
from barnabas.connect_spark.queries.batch_gate import BatchGate
from barnabas.connect_spark.queries.polled_source import Polled, PolledSourceTask, Poller
from barnabas.connect_spark.queries.query_handle import start_query
from barnabas.connect_spark.sessions.session_kind import use_pool

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = pytest.mark.spark

_POOL = "spark.scheduler.pool"
_HEAVY_TASKS = 600
"""With 100 ms each, both executors are occupied for half a minute."""
_SMALL_BATCHES = 4


def _sleep(spark: SparkSession, tasks: int, each_ms: int) -> None:
    """Occupy executors: a job of so many tasks."""
    numbers = spark.range(0, tasks, 1, tasks).selectExpr(f"reflect('java.lang.Thread', 'sleep', {each_ms}L) AS slept")
    numbers.write.format("noop").mode("overwrite").save()


def _started(
    spark: SparkSession, folder: Path, connector: str, gate: BatchGate, batch: Callable[[], None]
) -> StreamingQuery:
    """Start the query of a connector's task, with a batch again and again."""

    def process(frame: DataFrame, number: int, handle: Any) -> None:
        batch()

    records = spark.readStream.format("rate").option("rowsPerSecond", "1000").load()
    checkpoint = fresh_checkpoint(folder / connector, now_ms=0)
    use_pool(spark, connector)
    return start_query(records, process, gate, checkpoint, name=connector, trigger_interval_ms=10)


def test_a_heavy_connector_leaves_executors_to_a_small_one(spark: SparkSession, tmp_path: Path) -> None:
    """In one pool, the jobs of the small connector would wait until all tasks of the heavy job have started."""
    heavy_began, heavy_ended, small_done = threading.Event(), threading.Event(), threading.Event()
    pools: list[str] = []
    gates = [BatchGate(), BatchGate()]

    def heavy() -> None:
        heavy_began.set()
        _sleep(spark, _HEAVY_TASKS, 100)
        heavy_ended.set()
        small_done.set()

    def small() -> None:
        heavy_began.wait()
        _sleep(spark, 1, 1)
        pools.append(str(spark.sparkContext.getLocalProperty(_POOL)))
        if len(pools) == _SMALL_BATCHES:
            small_done.set()

    queries = [
        _started(spark, tmp_path, "heavy", gates[0], heavy),
        _started(spark, tmp_path, "small", gates[1], small),
    ]
    try:
        assert small_done.wait(100)
        assert not heavy_ended.is_set()
        assert pools[:_SMALL_BATCHES] == ["small"] * _SMALL_BATCHES
    finally:
        heavy_began.set()
        for gate in gates:
            gate.fence()
            gate.close(0)
        for query in queries:
            query.stop()  # Interrupts the heavy job.


class _PoolTask(PolledSourceTask):
    def __init__(self) -> None:
        self.pool: str | None = None
        self.is_polled = threading.Event()

    def poll(self, spark: SparkSession) -> Polled | None:
        self.pool = spark.sparkContext.getLocalProperty(_POOL)
        self.is_polled.set()
        return None


def test_jobs_of_a_source_that_polls_run_in_the_pool_of_its_connector(spark: SparkSession) -> None:
    task, gate = _PoolTask(), BatchGate()
    poller = Poller(cast(PolledSourceTask, task), spark, gate, 0.01, pool="orders")
    poller.begin()
    assert task.is_polled.wait(20)
    gate.close(1)
    poller.join()
    assert task.pool == "orders"
