"""Pipelines in Python without Kafka: the example package, and what the kit does with watermarks and state."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator
from datetime import datetime
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.common.config_value import ConfigException
from barnabas.connect.plugins.pipeline_testing import Batches, PipelineKit, Rows
from barnabas.connect.plugins.pipelines import pipeline
from tests.docs.tracked import PROJECT

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

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
