"""Tables of a real PostgreSQL to topics: what is read first, what is streamed, and that both meet exactly once."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from barnabas.testing import Node
from tests.peers.changes_run import source_settings
from tests.peers.postgresql_server import PostgresqlServer, postgresql_programs, running_postgresql
from tests.spark.connect_worker_stage import running_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(600)]

JSON = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()
        assert "Traceback" not in started.log


@pytest.fixture(scope="module")
def database() -> Iterator[PostgresqlServer]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: install the package postgresql")
    with running_postgresql(programs, ["wal_level=logical"]) as server:
        yield server


def records(spark: SparkSession, node: Node, topic: str) -> list[tuple[Any, Any]]:
    """Return the keys and values of committed records, in order."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", node.bootstrap_servers)
    rows = reader.option("kafka.isolation.level", "read_committed").option("subscribe", topic).load()
    return [(_json(row["key"]), _json(row["value"])) for row in rows.orderBy("partition", "offset").collect()]


def _json(content: bytes | None) -> Any:
    return None if content is None else json.loads(content)


def changes(spark: SparkSession, node: Node, topic: str) -> list[tuple[Any, Any, Any]]:
    """Return operation, key and row of each record; a tombstone has no operation and no row."""
    return [
        (value and value["payload"]["op"], key, value and (value["payload"]["after"] or value["payload"]["before"]))
        for key, value in records(spark, node, topic)
    ]


def test_tables_are_read_then_their_changes_follow_in_one_transaction_each_batch(
    spark: SparkSession, node: Node, database: PostgresqlServer, tmp_path: Path
) -> None:
    database.sql("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT, price NUMERIC(8, 2), at TIMESTAMP)")
    database.sql("INSERT INTO orders SELECT n, 'item ' || n, n, '1970-01-01 00:00:01' FROM generate_series(1, 5) AS n")
    database.sql("CREATE TABLE people (name TEXT PRIMARY KEY, raw BYTEA); INSERT INTO people VALUES ('ann', 'x')")
    orders, people = "shop.public.orders", "shop.public.people"
    for topic in (orders, people):
        node.create_topic(topic)
    config = {**source_settings(database, "shop", r"public\..*", snapshot_fetch_size="2"), **JSON}
    once = {"exactly.once.source.support": "enabled"}

    async def scenario() -> None:
        async with running_worker(spark, node.bootstrap_servers, "changes", tmp_path, once) as worker:
            await worker.create("shop", {**config, "exactly.once.support": "required"})
            await worker.eventually(lambda: len(changes(spark, node, people)) == 1)
            assert [operation for operation, _, _ in changes(spark, node, orders)] == ["r"] * 5
            database.sql(
                "INSERT INTO orders VALUES (6, 'new', 1.5); UPDATE orders SET item = 'changed' WHERE id = 2; "
                "DELETE FROM orders WHERE id = 3; INSERT INTO people VALUES ('bob'); "
                "ALTER TABLE orders ADD size INT; INSERT INTO orders VALUES (7, 'sized', 2, NULL, 9)"
            )
            await worker.eventually(lambda: len(changes(spark, node, orders)) == 10)
            offsets = (await worker.request("GET", "/connectors/shop/offsets")).json()["offsets"]
            metrics = (await worker.request("GET", "/metrics")).text
        assert {json.dumps(position["partition"]) for position in offsets} == {
            '{"server": "shop"}',
            '{"server": "shop", "table": "public.orders"}',
            '{"server": "shop", "table": "public.people"}',
        }
        assert "kafka_connect_connector_task_metrics_slot_lag_bytes" in metrics
        assert database.password not in metrics

    asyncio.run(scenario())
    assert [(operation, key) for operation, key, _ in changes(spark, node, orders)[5:]] == [
        ("c", {"id": 6}),
        ("u", {"id": 2}),
        ("d", {"id": 3}),
        (None, {"id": 3}),
        ("c", {"id": 7}),
    ]
    assert changes(spark, node, orders)[-1][2]["size"] == 9
    assert [key for _, key, _ in changes(spark, node, people)] == [{"name": "ann"}, {"name": "bob"}]
    read = [value for _, value in records(spark, node, orders)[:5]]  # Parts of a table are read in any order.
    first = min(read, key=lambda value: value["payload"]["after"]["id"])
    assert first["schema"]["name"] == "shop.public.orders.Envelope"
    fields = {field["field"]: field for field in first["schema"]["fields"]}
    assert [*fields] == ["before", "after", "source", "transaction", "op", "ts_ms", "ts_us", "ts_ns"]
    columns = {field["field"]: field for field in fields["after"]["fields"]}
    assert columns["at"]["name"] == "io.debezium.time.MicroTimestamp"
    assert columns["price"]["name"] == "org.apache.kafka.connect.data.Decimal"
    assert (columns["id"]["optional"], columns["item"]["optional"]) == (False, True)
    assert first["payload"]["after"] == {"id": 1, "item": "item 1", "price": "ZA==", "at": 1_000_000}
    assert fields["source"]["name"] == "io.debezium.connector.postgresql.Source"
