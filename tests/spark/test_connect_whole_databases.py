"""From one table of a real PostgreSQL to another, through a topic and a complete worker, with the password in a
file."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from barnabas.clients.admin import AdminClient
from barnabas.clients.admin.topics import NewTopic
from barnabas.testing import Node
from tests.peers.postgresql_server import PostgresqlServer, postgresql_programs, running_postgresql
from tests.spark.connect_worker_stage import running_worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(400)]

SECRETS = {
    "config.providers": "file",
    "config.providers.file.class": "org.apache.kafka.common.config.provider.FileConfigProvider",
}
JSON = {
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter.schemas.enable": "false",
}


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()
        assert "Traceback" not in started.log


@pytest.fixture
def database() -> Iterator[PostgresqlServer]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: install the package postgresql")
    with running_postgresql(programs) as server:
        yield server


def test_inserted_and_updated_rows_arrive_in_another_table(
    spark: SparkSession, node: Node, database: PostgresqlServer, tmp_path: Path
) -> None:
    secrets = tmp_path / "secrets.properties"
    secrets.write_text(f"password={database.password}\n")
    login = {**database.settings, "connection.password": f"${{file:{secrets}:password}}"}
    source = {
        **login,
        **JSON,
        "connector.class": "JdbcSource",
        "mode": "timestamp+incrementing",
        "incrementing.column.name": "id",
        "timestamp.column.name": "changed_at",
        "table.whitelist": "orders",
        "topic.prefix": "pg-",
        "poll.interval.ms": "200",
    }
    sink = {
        **login,
        **JSON,
        "connector.class": "JdbcSink",
        "topics": "pg-orders",
        "table.name.format": "copies",
        "insert.mode": "upsert",
        "pk.mode": "record_value",
        "pk.fields": "id",
        "fields.whitelist": "id,item",
        "auto.create": "true",
    }
    utc = "TIMESTAMP NOT NULL DEFAULT timezone('utc', now())"
    database.sql(f"CREATE TABLE orders (id SERIAL PRIMARY KEY, item TEXT, changed_at {utc})")
    database.sql("INSERT INTO orders (item) VALUES ('a'), ('b')")

    def copies() -> list[list[str]]:
        if database.sql("SELECT to_regclass('copies') IS NOT NULL") == [["f"]]:
            return []
        return database.sql("SELECT id, item FROM copies ORDER BY id")

    async def scenario() -> None:
        async with running_worker(spark, node.bootstrap_servers, "databases", tmp_path, SECRETS) as worker:
            with AdminClient.sync(node.bootstrap_servers) as admin:
                admin.create_topics([NewTopic("pg-orders", 1, 1)], wait=True).raise_for_errors()
            await worker.create("out", source)
            await worker.create("in", sink)
            await worker.eventually(lambda: copies() == [["1", "a"], ["2", "b"]])
            database.sql("INSERT INTO orders (item) VALUES ('c')")
            database.sql("UPDATE orders SET item = 'changed', changed_at = timezone('utc', now()) WHERE id = 1")
            await worker.eventually(lambda: copies() == [["1", "changed"], ["2", "b"], ["3", "c"]])
            offsets = (await worker.request("GET", "/connectors/out/offsets")).json()["offsets"]
            assert [position["partition"] for position in offsets] == [{"protocol": "1", "table": "orders"}]
            assert set(offsets[0]["offset"]) == {"incrementing", "timestamp", "timestamp_nanos"}
            shown = (await worker.request("GET", "/connectors?expand=info&expand=status")).text
            assert database.password not in shown

    asyncio.run(scenario())
