"""The examples in docs/connect/sql.md run, and do what the page says."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect_spark.sql.sql_pipeline import SqlPipeline
from barnabas.testing import Node
from tests.spark.connect_stage import Stage, running_json_stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "connect" / "sql.md").read_text()
EXAMPLES = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", PAGE, re.DOTALL)]

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()


def example(name: str) -> dict[str, str]:
    [found] = [given for given in EXAMPLES if given["inputs"] == name]
    return found


def rows(stage: Stage, topic: str) -> list[tuple[str, Any]]:
    return [
        (bytes(row["key"]).decode(), None if row["value"] is None else json.loads(bytes(row["value"])))
        for row in stage.read(topic)
    ]


def test_each_example_runs(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    async def run(stage: Stage, name: str, topic: str, records: list[dict[str, Any]], wanted: Any) -> None:
        config = {key: text.replace("/tmp/lake", str(tmp_path)) for key, text in example(name).items()}
        if topic not in ("large-orders",):
            stage.create(config[f"inputs.{name.partition(',')[0]}.topic"])
        if "output.topic" in config:
            stage.create(config["output.topic"])
        stage.produce(config[f"inputs.{name.partition(',')[0]}.topic"], [json.dumps(record) for record in records])
        task = await stage.start(f"example-{name[:5]}", config)
        await stage.until(wanted)
        await stage.stop(task)

    async def scenario() -> None:
        async with running_json_stage(spark, node, tmp_path, SqlPipeline) as stage:
            at = "2026-01-01T00:00:00Z"
            orders = [{"id": number, "shop": "a", "amount": 60 * number, "at": at} for number in (1, 2)]
            stage.create("orders")
            await run(stage, "orders", "large-orders", orders, lambda: len(stage.read("large-orders")) == 1)
            assert rows(stage, "large-orders") == [("2", {"id": 2, "shop": "a", "amount": 120})]

            payments = [{"account": "x", "amount": 5}, {"account": "x", "amount": -5}, {"account": "y", "amount": 2}]
            await run(stage, "payments", "balances", payments, lambda: len(stage.read("balances")) == 2)
            assert sorted(rows(stage, "balances")) == [("x", None), ("y", {"account": "y", "balance": 2})]

            clicks = [{"page": "p", "at": f"2026-01-01T0{hour}:00:00Z"} for hour in (0, 0, 2)]
            await run(stage, "clicks", "clicks-per-hour", clicks, lambda: len(stage.read("clicks-per-hour")) == 1)
            assert rows(stage, "clicks-per-hour") == [("p", {"hour": 1767225600000, "page": "p", "clicks": 2})]

            customers, visits = tmp_path / "customers", tmp_path / "last-visits"
            spark.createDataFrame([(1, "Bonn")], "id bigint, city string").write.format("delta").save(str(customers))
            seen = [{"customer": 1, "page": "p"}, {"customer": 2, "page": "q"}, {"customer": 1, "page": "r"}]

            def written() -> bool:
                if not any(visits.glob("_delta_log/*.json")):
                    return False
                found = spark.read.format("delta").load(str(visits)).orderBy("customer")
                return [tuple(row) for row in found.select("customer", "city", "page").collect()] == [
                    (1, "Bonn", "r"),
                    (2, None, "q"),
                ]

            await run(stage, "visits,customers", "", seen, written)

    asyncio.run(scenario())
