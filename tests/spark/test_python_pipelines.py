"""Pipelines in Python without Kafka: the example package, and what the kit does with watermarks and state."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.common.config_value import ConfigException
from barnabas.connect.plugins.pipeline_testing import Batches, PipelineKit, Rows
from barnabas.connect.plugins.pipelines import InstalledPipelines, pipeline
from barnabas.connect_spark.sql import python_pipeline
from barnabas.connect_spark.sql.python_pipeline import PythonPipeline
from barnabas.testing import Node
from tests.docs.tracked import PROJECT
from tests.spark.connect_stage import running_json_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(240)]

PACKAGE = PROJECT / "docs" / "connect" / "own-plugins"


@pytest.fixture
def example() -> Iterator[ModuleType]:
    """The tests of the example package, as a module."""
    sys.path.insert(0, str(PACKAGE / "src"))
    try:
        spec = importlib.util.spec_from_file_location("example_tests", PACKAGE / "tests" / "test_orders.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        yield module
    finally:
        sys.path.pop(0)
        for name in [name for name in sys.modules if name.startswith("shop_plugins")]:
            del sys.modules[name]


@pytest.mark.parametrize("name", ["test_large_orders_have_their_customer", "test_each_batch_of_orders_becomes_a_batch"])
def test_the_tests_of_the_example_package_pass(spark: SparkSession, example: ModuleType, name: str) -> None:
    test: Callable[..., None] = getattr(example, name)
    test(spark)


@pytest.mark.long
def test_windows_are_written_when_the_watermark_has_passed_them(spark: SparkSession) -> None:
    @pipeline
    def visits_per_minute(visits: Any) -> Any:
        from pyspark.sql import functions as F

        counts = visits.groupBy(F.window("at", "1 minute")).count()
        return counts.select(F.date_format("window.start", "HH:mm").alias("minute"), "count")

    def at(*times: str) -> list[tuple[datetime]]:
        return [(datetime.fromisoformat(f"2026-01-31T{time}Z"),) for time in times]

    arrived = [at("12:00:10", "12:00:50"), at("12:00:55", "12:02:30"), at("12:02:40"), at("12:00:59")]
    visits = Batches(arrived, "at TIMESTAMP", event_time="at", watermark="30 seconds")
    batches = PipelineKit(visits_per_minute).stream(spark, visits=visits)
    assert [(row.minute, row["count"]) for batch in batches for row in batch] == [("12:00", 3)]


def test_a_query_in_sql_is_tested_in_the_same_way(spark: SparkSession) -> None:
    kit = PipelineKit("SELECT o.id, c.name FROM orders o JOIN customers c USING (customer)")
    customers = Rows([{"customer": "a", "name": "Ann"}], "customer STRING, name STRING")
    batches = kit.stream(
        spark, orders=Batches([[(1, "a")], [(2, "b")]], "id INT, customer STRING"), customers=customers
    )
    assert [[tuple(row) for row in batch] for batch in batches] == [[(1, "Ann")]]


def test_wrong_inputs_and_settings_are_named(spark: SparkSession, example: ModuleType) -> None:
    large_orders = example.large_orders
    with pytest.raises(ValueError, match="the inputs are orders, customers, and not orders"):
        PipelineKit(large_orders).run(spark, orders=Rows([], "id INT"))
    with pytest.raises(ValueError, match="has no setting least"):
        PipelineKit(large_orders, {"least": "1"})
    with pytest.raises(ConfigException, match="limit"):
        PipelineKit(large_orders, {"limit": "-1"})


def test_a_task_runs_the_pipeline_over_a_topic_and_a_table(
    spark: SparkSession, example: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = InstalledPipelines()
    installed.add(example.large_orders, "large_orders")
    monkeypatch.setattr(python_pipeline, "installed_pipelines", installed)
    spark.createDataFrame([("a", "Ann")], "customer STRING, name STRING").write.parquet(str(tmp_path / "customers"))
    config = {
        "pipeline": "large_orders",
        "pipeline.limit": "100",
        "inputs": "orders,customers",
        "inputs.orders.topic": "orders",
        "inputs.orders.format": "json",
        "inputs.orders.schema": example.ORDERS,
        "inputs.customers.table": f"parquet:{tmp_path / 'customers'}",
        "output.topic": "large",
        "output.key": "id",
        "barnabas.trigger.interval.ms": "50",
    }

    async def run(node: Node) -> list[Any]:
        async with running_json_stage(spark, node, tmp_path, PythonPipeline) as stage:
            stage.create("orders")
            stage.create("large")
            orders = [(1, "a", 150), (2, "a", 20), (3, "b", 900)]
            stage.produce("orders", [json.dumps({"id": i, "customer": c, "amount": n}) for i, c, n in orders])
            task = await stage.start("p", config)
            await stage.until(lambda: len(stage.read("large")) == 2)
            await stage.stop(task)
            position = stage.offsets.source_offset("p", {"input": "orders", "topic": "orders", "partition": 0})
            assert position == {"offset": 3}
            return [json.loads(bytes(row["value"])) for row in stage.read("large")]

    with Node() as node:
        found = asyncio.run(run(node))
    assert found == [
        {"id": 1, "customer": "a", "name": "Ann", "amount": 150},
        {"id": 3, "customer": "b", "name": None, "amount": 900},
    ]
