"""SqlPipeline on a real node: rows in topics and tables, positions, state, and what is refused."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.connect.identifiers import ConnectorTaskId
from barnabas.connect_spark.connectors.iceberg.iceberg_catalog import IcebergCatalog
from barnabas.connect_spark.sql.sql_pipeline import SqlPipeline
from barnabas.testing import Node
from tests.spark.connect_stage import MemoryOffsets, Stage, running_json_stage
from tests.spark.connect_worker_stage import running_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(300)]

ORDERS = "id BIGINT, shop STRING, amount INT, at TIMESTAMP"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()
        assert "Traceback" not in started.log


def input_of(name: str, topic: str, schema: str = ORDERS, **own: str) -> dict[str, str]:
    settings = {"topic": topic, "format": "json", "schema": schema}
    settings |= {key.replace("_", "."): text for key, text in own.items()}
    return {f"inputs.{name}.{key}": text for key, text in settings.items()}


def config_of(query: str, output: Mapping[str, str], *inputs: Mapping[str, str], **own: str) -> dict[str, str]:
    names = dict.fromkeys(key.split(".")[1] for given in inputs for key in given)
    found = {"query": query, "inputs": ",".join(names), "barnabas.trigger.interval.ms": "50"}
    for given in inputs:
        found |= given
    found |= {f"output.{key}": text for key, text in output.items()}
    return found | {key.replace("_", "."): text for key, text in own.items()}


def order(number: int, shop: str, amount: int, at: str = "2026-01-01T00:00:00Z") -> str:
    return json.dumps({"id": number, "shop": shop, "amount": amount, "at": at, "note": "not in the schema"})


def values(stage: Stage, topic: str) -> list[Any]:
    return [None if row["value"] is None else json.loads(bytes(row["value"])) for row in stage.read(topic)]


def keys(stage: Stage, topic: str) -> list[Any]:
    return [bytes(row["key"]).decode() for row in stage.read(topic)]


def figure(stage: Stage, task: ConnectorTaskId, name: str) -> float | None:
    figures = stage.runtime.figures(task)
    found = {} if figures is None else {metric: value for metric, _, value in figures.metrics()}
    return found.get(f"kafka_connect_connector_task_metrics_{name}")


def offset_of(offsets: MemoryOffsets, connector: str, partition: Mapping[str, Any]) -> Any:
    return offsets.source_offset(connector, partition)


def run(spark: SparkSession, node: Node, folder: Path, scenario: Callable[[Stage], Awaitable[None]]) -> None:
    async def steps() -> None:
        async with running_json_stage(spark, node, folder, SqlPipeline) as stage:
            await scenario(stage)

    asyncio.run(steps())


def test_rows_are_filtered_joined_with_a_table_and_continue_after_a_stop(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    shops = tmp_path / "shops"
    spark.createDataFrame([("a", "Aachen"), ("b", "Bonn")], "shop string, city string").write.parquet(str(shops))

    async def scenario(stage: Stage) -> None:
        stage.create("p1-orders", 2)
        stage.create("p1-big")
        stage.produce("p1-orders", [order(1, "a", 50), order(2, "b", 500), order(3, "x", 900)])
        query = (
            "WITH big AS (SELECT o.id, o.amount, s.city FROM orders o JOIN shops s ON o.shop = s.shop "
            "WHERE o.amount > 100) SELECT * FROM big UNION ALL SELECT * FROM big WHERE amount < 0"
        )
        config = config_of(
            query,
            {"topic": "p1-big", "key": "id"},
            input_of("orders", "p1-orders"),
            {"inputs.shops.table": f"parquet:{shops}"},
        )
        task = await stage.start("p1", config)
        await stage.until(lambda: len(stage.read("p1-big")) == 1)
        await stage.stop(task)
        assert values(stage, "p1-big") == [{"id": 2, "amount": 500, "city": "Bonn"}]
        assert keys(stage, "p1-big") == ["2"]
        ends = [
            offset_of(stage.offsets, "p1", {"input": "orders", "topic": "p1-orders", "partition": number})["offset"]
            for number in (0, 1)
        ]
        assert sum(ends) == 3

        stage.produce("p1-orders", [order(4, "a", 101)])
        task = await stage.start("p1", config)
        await stage.until(lambda: len(stage.read("p1-big")) == 2)
        await stage.stop(task)
        assert values(stage, "p1-big")[1] == {"id": 4, "amount": 101, "city": "Aachen"}

    run(spark, node, tmp_path, scenario)


def test_groups_change_rows_by_key_and_their_state_is_kept(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.create("p2-orders")
        stage.create("p2-sums")
        stage.produce("p2-orders", [order(1, "a", 5), order(2, "b", 7), order(3, "a", 6)])
        query = "SELECT shop, sum(amount) AS total, count(*) AS orders FROM orders WHERE amount <> 0 GROUP BY shop"
        output = {"topic": "p2-sums", "mode": "upsert", "key": "shop", "delete.when": "total < 0"}
        config = config_of(query, output, input_of("orders", "p2-orders"))
        task = await stage.start("p2", config)
        await stage.until(lambda: len(stage.read("p2-sums")) == 2)
        await stage.stop(task)
        latest = dict(zip(keys(stage, "p2-sums"), values(stage, "p2-sums"), strict=True))
        assert latest["a"] == {"shop": "a", "total": 11, "orders": 2}
        state = offset_of(stage.offsets, "p2", {"pipeline": "state"})
        assert state["batch"] >= 0

        stage.produce("p2-orders", [order(4, "a", -100), order(5, "b", 1)])
        task = await stage.start("p2", {**config, "query": query.replace("<> 0", "IS NOT NULL")})
        await stage.until(lambda: len(stage.read("p2-sums")) == 4)
        await stage.until(lambda: figure(stage, task, "state_rows") == 2)
        plan = await stage.runtime.query_plan(task)
        assert plan is not None
        assert "stateOperators" in plan.progress
        await stage.stop(task)
        latest = dict(zip(keys(stage, "p2-sums"), values(stage, "p2-sums"), strict=True))
        assert latest == {"a": None, "b": {"shop": "b", "total": 8, "orders": 2}}
        assert offset_of(stage.offsets, "p2", {"pipeline": "state"})["run"] == state["run"]

        stage.events.clear()
        await stage.start("p2", {**config, "query": query.replace("BY shop", "BY shop, id")})
        failed = await stage.failure()
        assert "the keys of the aggregation: shop: string became shop: string, id: bigint" in failed.trace
        assert not failed.retriable

    run(spark, node, tmp_path, scenario)


@pytest.mark.long
def test_rows_replace_those_of_a_table_once_whatever_is_lost_after_the_commit(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    table = tmp_path / "table"

    def rows() -> dict[str, int]:
        has_commit = any(table.glob("_delta_log/*.json"))
        found = spark.read.format("delta").load(str(table)).collect() if has_commit else []
        return {row["shop"]: row["amount"] for row in found}

    async def scenario(stage: Stage) -> None:
        stage.create("p3-orders")
        stage.produce("p3-orders", [order(1, "a", 5), order(2, "b", 7), order(3, "a", 6)])
        output = {"table": f"delta:{table}", "mode": "upsert", "key": "shop", "delete.when": "amount < 0"}
        config = config_of("SELECT shop, amount FROM orders", output, input_of("orders", "p3-orders"))
        task = await stage.start("p3", config)
        await stage.until(lambda: rows() == {"a": 6, "b": 7})
        await stage.stop(task)

        # The table has a batch whose positions were lost: it is not written again, and the next one is.
        position = {"input": "orders", "topic": "p3-orders", "partition": 0}
        assert offset_of(stage.offsets, "p3", position) == {"offset": 3}
        planned = offset_of(stage.offsets, "p3", {"pipeline": "batch"})
        assert json.loads(planned["ends"]) == {"orders": [["p3-orders", 0, 3]]}
        key = json.dumps(["p3", position], sort_keys=True)
        stage.offsets.values[key] = None
        stage.produce("p3-orders", [order(4, "b", -1), order(5, "c", 1)])
        task = await stage.start("p3", config)
        await stage.until(lambda: rows() == {"a": 6, "c": 1})
        await stage.stop(task)
        planned = offset_of(stage.offsets, "p3", {"pipeline": "batch"})
        assert json.loads(planned["starts"]) == {"orders": [["p3-orders", 0, 3]]}

    run(spark, node, tmp_path, scenario)


@pytest.mark.long
def test_windows_joins_and_duplicates_have_state(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    timed = {"event_time": "at", "watermark": "1 minute"}

    async def scenario(stage: Stage) -> None:
        for topic in ("p4-orders", "p4-shipments", "p4-out"):
            stage.create(topic)
        stage.produce(
            "p4-orders",
            [
                order(1, "a", 5, "2026-01-01T00:00:10Z"),
                order(1, "a", 5, "2026-01-01T00:00:10Z"),
                order(2, "a", 7, "2026-01-01T00:00:20Z"),
                order(3, "a", 1, "2026-01-01T01:00:00Z"),
            ],
        )
        stage.produce("p4-shipments", [order(2, "x", 0, "2026-01-01T00:00:40Z"), order(9, "x", 0)])
        query = (
            "SELECT o.id, o.amount, s.shop AS by FROM orders o JOIN shipments s "
            "ON o.id = s.id AND s.at BETWEEN o.at AND o.at + INTERVAL 1 HOUR"
        )
        inputs = (
            input_of("orders", "p4-orders", **timed, deduplicate_by="id"),
            input_of("shipments", "p4-shipments", **timed),
        )
        task = await stage.start("p4", config_of(query, {"topic": "p4-out"}, *inputs))
        await stage.until(lambda: len(stage.read("p4-out")) == 1)
        await stage.stop(task)
        assert values(stage, "p4-out") == [{"id": 2, "amount": 7, "by": "x"}]

        stage.create("p5-out")
        query = "SELECT window.start AS since, sum(amount) AS total FROM orders GROUP BY window(at, '1 minute')"
        task = await stage.start("p5", config_of(query, {"topic": "p5-out"}, inputs[0]))
        await stage.until(lambda: len(stage.read("p5-out")) == 1)
        await stage.stop(task)
        assert [row["total"] for row in values(stage, "p5-out")] == [12]

    run(spark, node, tmp_path, scenario)


@pytest.mark.long
def test_a_state_that_is_lost_is_not_replaced(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    async def scenario(stage: Stage) -> None:
        stage.create("p6-orders")
        stage.create("p6-out")
        stage.produce("p6-orders", [order(1, "a", 5)])
        query = "SELECT shop, max(amount) AS most FROM orders GROUP BY shop"
        output = {"topic": "p6-out", "mode": "upsert", "key": "shop"}
        location = tmp_path / "states"
        config = config_of(query, output, input_of("orders", "p6-orders"), state_location=str(location))
        task = await stage.start("p6", config)
        await stage.until(lambda: len(stage.read("p6-out")) == 1)
        await stage.stop(task)
        [folder] = (location / "p6").iterdir()
        folder.rename(tmp_path / "elsewhere")

        stage.events.clear()
        await stage.start("p6", config)
        failed = await stage.failure()
        assert f"the state of this pipeline was in {folder}, and is not there" in failed.trace

        await stage.offsets.write_source_offsets("p6", [({"pipeline": "state"}, None)])
        stage.events.clear()
        stage.produce("p6-orders", [order(2, "a", 3)])
        task = await stage.start("p6", config)
        await stage.until(lambda: len(stage.read("p6-out")) == 2)
        await stage.stop(task)
        assert values(stage, "p6-out")[1] == {"shop": "a", "most": 3}

    run(spark, node, tmp_path, scenario)


REFUSED = {
    "SELECT shop, count(*) AS n FROM orders GROUP BY shop": "Either set output.mode=upsert",
    "SELECT nothing FROM orders": "nothing",
    "SELECT reflect('java.lang.System', 'getenv', 'HOME') AS home FROM orders": "reflect",
    "WITH a AS (SELECT 1) INSERT INTO b SELECT * FROM a": "does more than read",
    "SELECT id FROM orders WHERE id = (SELECT max(id) FROM orders)": "join it instead",
    "SELECT id, id FROM orders": "more than one column id",
    "SELECT 1 AS one": "reads no topic",
}


def test_a_query_that_no_stream_can_run_is_refused_with_the_reason(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    async def scenario(stage: Stage) -> None:
        stage.create("p7-orders")
        for query, reason in REFUSED.items():
            stage.events.clear()
            await stage.start("p7", config_of(query, {"topic": "p7-out"}, input_of("orders", "p7-orders")))
            failed = await stage.failure()
            assert reason in failed.trace, query
            assert not failed.retriable, query

    run(spark, node, tmp_path, scenario)


@pytest.mark.long
def test_files_databases_and_iceberg_take_rows_once(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    files, database, lake = tmp_path / "files", tmp_path / "shop.db", tmp_path / "lake"
    catalog = {"catalog.type": "hadoop", "catalog.warehouse": str(lake)}
    upsert = {"mode": "upsert", "key": "shop"}
    name = IcebergCatalog.of(catalog).name

    def in_files() -> list[Any]:
        found = spark.read.parquet(str(files)).collect() if any(files.glob("*.parquet")) else []
        return sorted((row["shop"], row["amount"]) for row in found)

    def in_database() -> list[Any]:
        with closing(sqlite3.connect(database)) as connection:
            return sorted(connection.execute("SELECT shop, amount FROM latest").fetchall())

    def in_iceberg() -> list[Any]:
        IcebergCatalog.of(catalog).open(spark)
        return sorted((row["shop"], row["amount"]) for row in spark.table(f"{name}.shop.latest").collect())

    rows, latest = [("a", 5), ("a", 6), ("b", 7)], [("a", 6), ("b", 7)]
    outputs: dict[str, tuple[dict[str, str], Callable[[], list[Any]], list[Any]]] = {
        "p8-files": ({"table": f"parquet:{files}"}, in_files, rows),
        "p8-database": (
            {"table": f"jdbc:sqlite:{database}", "table.name": "latest", **upsert},
            in_database,
            latest,
        ),
        "p8-iceberg": ({"table": "iceberg:shop.latest", **upsert, **catalog}, in_iceberg, latest),
    }

    position = {"input": "orders", "topic": "p8-orders", "partition": 0}

    async def written_once(stage: Stage, connector: str, config: dict[str, str]) -> None:
        task = await stage.start(connector, config)
        await stage.until(lambda: bool(offset_of(stage.offsets, connector, position) == {"offset": 3}))
        await stage.stop(task)

    async def scenario(stage: Stage) -> None:
        stage.create("p8-orders")
        stage.produce("p8-orders", [order(1, "a", 5), order(2, "b", 7), order(3, "a", 6)])
        for connector, (output, written, wanted) in outputs.items():
            config = config_of("SELECT shop, amount FROM orders", output, input_of("orders", "p8-orders"))
            for _ in range(2):
                await written_once(stage, connector, config)
                assert written() == wanted, connector
                # The positions are lost, as if the process had died before they were written.
                stage.offsets.values[json.dumps([connector, position], sort_keys=True)] = None

    run(spark, node, tmp_path, scenario)


@pytest.mark.long
def test_a_worker_runs_a_pipeline_exactly_once_and_begins_anew_where_its_offsets_say(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    sums = "SELECT shop, count(*) AS orders FROM orders GROUP BY shop"
    output = {"topic": "p9-sums", "mode": "upsert", "key": "shop", "format": "json", "key.format": "string"}
    config = config_of(sums, output, input_of("orders", "p9-orders"), connector_class="SqlPipeline")

    def committed() -> list[Any]:
        records = spark.read.format("kafka").option("kafka.bootstrap.servers", node.bootstrap_servers)
        found = records.option("kafka.isolation.level", "read_committed").option("subscribe", "p9-sums").load()
        return [json.loads(bytes(row["value"]))["orders"] for row in found.orderBy("offset").collect()]

    async def scenario() -> None:
        settings = {"exactly.once.source.support": "enabled"}
        async with running_worker(spark, node.bootstrap_servers, "p9-workers", tmp_path, settings) as worker:
            await worker.create("p9", config)
            waiting = await worker.states("p9")
            assert "It waits for topics: topic p9-orders does not exist" in waiting["connector"]["trace"]
            node.create_topic("p9-orders")
            node.create_topic("p9-sums")
            produced = spark.createDataFrame([(order(number, "a", 1),) for number in range(3)], "value string")
            writer = produced.write.format("kafka").option("kafka.bootstrap.servers", node.bootstrap_servers)
            writer.option("topic", "p9-orders").save()
            await worker.eventually(lambda: sum(committed()[-1:]) == 3)

            metrics = (await worker.request("GET", "/metrics")).text
            assert "kafka_connect_connector_task_metrics_state_rows" in metrics
            assert (await worker.request("PUT", "/connectors/p9/stop")).status_code == 204
            offsets = (await worker.request("GET", "/connectors/p9/offsets")).json()["offsets"]
            position = {"input": "orders", "topic": "p9-orders", "partition": 0}
            by_input = {json.dumps(found["partition"], sort_keys=True): found["offset"] for found in offsets}
            assert by_input[json.dumps(position, sort_keys=True)] == {"offset": 3}

            anew = [
                {"partition": position, "offset": {"offset": 2}},
                {"partition": {"pipeline": "state"}, "offset": None},
            ]
            answer = await worker.request("PATCH", "/connectors/p9/offsets", {"offsets": anew})
            assert answer.status_code == 200, answer.text
            before = len(committed())
            await worker.request("PUT", "/connectors/p9/resume")
            await worker.eventually(lambda: committed()[before:] == [1])

    asyncio.run(scenario())


@pytest.mark.long
def test_tables_are_read_as_they_are_when_a_batch_begins(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    files, delta = tmp_path / "files", tmp_path / "delta"
    catalog = {"catalog.type": "hadoop", "catalog.warehouse": str(tmp_path / "lake")}
    iceberg = f"{IcebergCatalog.of(catalog).name}.shop.cities"

    def add(shop: str) -> None:
        row = spark.createDataFrame([(shop, f"city of {shop}")], "shop string, city string")
        row.write.mode("append").parquet(str(files))
        row.write.mode("append").format("delta").save(str(delta))
        row.writeTo(iceberg).append()

    async def scenario(stage: Stage) -> None:
        IcebergCatalog.of(catalog).open(spark)
        spark.sql(f"CREATE TABLE {iceberg} (shop STRING, city STRING) USING iceberg")
        add("a")
        stage.create("p10-orders")
        stage.create("p10-out")
        stage.produce("p10-orders", [order(1, "a", 5)])
        query = (
            "SELECT o.id, f.city AS of_files, d.city AS of_delta, i.city AS of_iceberg FROM orders o "
            "LEFT JOIN files f ON o.shop = f.shop LEFT JOIN delta d ON o.shop = d.shop "
            "LEFT JOIN lake i ON o.shop = i.shop"
        )
        tables = {
            "inputs.files.table": f"parquet:{files}",
            "inputs.delta.table": f"delta:{delta}",
            "inputs.lake.table": "iceberg:shop.cities",
            **{f"inputs.lake.{name}": text for name, text in catalog.items()},
        }
        config = config_of(query, {"topic": "p10-out"}, input_of("orders", "p10-orders"), tables)
        task = await stage.start("p10", config)
        await stage.until(lambda: len(stage.read("p10-out")) == 1)
        add("b")
        await asyncio.sleep(12)  # Files are listed every ten seconds.
        stage.produce("p10-orders", [order(2, "b", 5)])
        await stage.until(lambda: len(stage.read("p10-out")) == 2)
        await stage.stop(task)
        for row, shop in zip(values(stage, "p10-out"), ("a", "b"), strict=True):
            assert {row[name] for name in ("of_files", "of_delta", "of_iceberg")} == {f"city of {shop}"}, row

    run(spark, node, tmp_path, scenario)
