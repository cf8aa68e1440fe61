"""Connectors with Spark in a cluster and on a Spark Connect server: what docs/connect/tasks.md says runs there."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from confluent_kafka import Consumer

from barnabas.testing import Node
from tests.peers.changes_run import source_settings
from tests.peers.http_receiver import running_receiver
from tests.peers.postgresql_server import postgresql_programs, running_postgresql
from tests.peers.spark_servers import SparkConnectServer, running_cluster
from tests.spark import spark_servers_scene
from tests.spark.spark_servers_scene import CREATED, JSON, RemoteWorker, json_rows, lines_of

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(2400)]

RECORDS = 200
_TIMEOUT_S = 900
"""For a busy machine: two JVMs start, and each connector plans its first batch."""
CONF = "barnabas.connect.spark.conf."
OF_CLUSTER = {
    "barnabas.connect.spark.delta": "true",
    "barnabas.connect.spark.iceberg": "true",
    f"{CONF}spark.executor.memory": "700m",
    f"{CONF}spark.dynamicAllocation.enabled": "true",
    f"{CONF}spark.dynamicAllocation.shuffleTracking.enabled": "true",
    f"{CONF}spark.dynamicAllocation.minExecutors": "0",
    f"{CONF}spark.dynamicAllocation.maxExecutors": "1",
    f"{CONF}spark.dynamicAllocation.executorIdleTimeout": "10s",
}


def until(condition: Callable[[], bool], state: Callable[[], object]) -> None:
    spark_servers_scene.until(condition, state, timeout_s=_TIMEOUT_S)


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started


@pytest.fixture(params=["cluster", "server"])
def worker(
    request: pytest.FixtureRequest, java: None, node: Node, tmp_path: Path
) -> Iterator[tuple[RemoteWorker, str]]:
    """Yield a running worker whose Spark is in a cluster or on a server, and a prefix for the names of its topics."""
    kind = str(request.param)
    with ExitStack() as stack:
        if kind == "cluster":
            master, settings = stack.enter_context(running_cluster(tmp_path / "cluster")).url, OF_CLUSTER
        else:
            server = _server(tmp_path / "server")
            stack.callback(server.kill)
            server.start(timeout_s=180)
            master, settings = server.url, {}
        found = RemoteWorker(tmp_path / "worker", node.bootstrap_servers, kind, master, **settings)
        stack.callback(found.kill)
        found.start(timeout_s=120)
        yield found, kind
        assert found.stop(timeout_s=90) == 0


def _server(folder: Path) -> SparkConnectServer:
    from barnabas.spark.connector_jars import avro_jars, cache_directory, connector_jars
    from barnabas.spark.java_runtime import find_java

    runtime, cache = find_java(os.environ), cache_directory(os.environ)
    return SparkConnectServer(folder, connector_jars(cache, runtime, print) + avro_jars(cache, runtime, print))


def _values(bootstrap: str, topic: str, count: int) -> list[bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"reads-{topic}",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": "false",
        }
    )
    found: list[bytes] = []
    consumer.subscribe([topic])
    try:
        while len(found) < count:
            message = consumer.poll(300)
            assert message is not None, f"{topic} has {len(found)} records"
            if message.error() is None:
                found.append(message.value())
    finally:
        consumer.close()
    return found


def _rows(database: Path) -> list[int]:
    if not database.exists():
        return []
    with closing(sqlite3.connect(database)) as connection:
        try:
            return [number for (number,) in connection.execute("SELECT number FROM numbers ORDER BY number")]
        except sqlite3.OperationalError:
            return []  # The sink has not created the table yet.


def test_built_in_connectors_do_all_that_they_do_in_the_worker(
    worker: tuple[RemoteWorker, str], node: Node, tmp_path: Path
) -> None:
    spark, kind = worker
    numbers, data = f"{kind}-numbers", tmp_path / "data"
    generator = {"connector.class": "Generator", "topic": numbers, "records.per.second": "1000", **JSON}
    spark.configure("numbers", {**generator, "records.max": str(RECORDS), **CREATED})
    sink = {"topics": numbers, **JSON}
    spark.configure("lines", {"connector.class": "FileStreamSink", "file": str(tmp_path / "lines"), **sink})
    files = {"connector.class": "TopicToFiles", "format": "json", "directory": str(data)}
    spark.configure("files", {**files, **sink})
    database, staging = tmp_path / "numbers.db", str(tmp_path / "staging")
    of_database = {"connection.url": f"jdbc:sqlite:{database}", "staging.directory": staging}
    table = {"table.name.format": "numbers", "insert.mode": "insert", "auto.create": "true"}
    spark.configure("rows", {"connector.class": "JdbcSink", **of_database, **table, **sink})
    tables = {"path": str(tmp_path / "delta"), "catalog.type": "hadoop", "catalog.warehouse": str(tmp_path / "lake")}
    if kind == "cluster":
        spark.configure("delta", {"connector.class": "TopicToDelta", "path": tables.pop("path"), **sink})
        iceberg = {"connector.class": "TopicToIceberg", "catalog.type": "hadoop", "table": "lake.numbers"}
        spark.configure("iceberg", {**iceberg, "catalog.warehouse": tables["catalog.warehouse"], **sink})
    until(lambda: len(lines_of(tmp_path / "lines")) >= RECORDS, spark.printed)
    until(lambda: len(json_rows(data)) >= RECORDS, spark.printed)
    assert sorted(row["number"] for row in json_rows(data)) == list(range(RECORDS))
    until(lambda: len(_rows(database)) >= RECORDS, spark.printed)
    assert _rows(database) == list(range(RECORDS))
    if kind == "cluster":
        for name in ("delta", "iceberg"):
            spark.until_state(name, "RUNNING")
        until(lambda: any((tmp_path / "delta").glob("*.parquet")), spark.printed)
        until(lambda: any((tmp_path / "lake").rglob("*.parquet")), spark.printed)

    read = {
        "table.whitelist": "numbers",
        "mode": "incrementing",
        "incrementing.column.name": "number",
        "validate.non.null": "false",
    }
    back = {"connector.class": "JdbcSource", **of_database, **read, "topic.prefix": f"{kind}-back-"}
    spark.configure("back", {**back, **JSON, **CREATED})
    assert len(_values(node.bootstrap_servers, f"{kind}-back-numbers", RECORDS)) == RECORDS
    inbox = tmp_path / "inbox"
    inbox.mkdir()
    (inbox / "a.txt").write_text("one\ntwo\n")
    spark.configure(
        "inbox", {"connector.class": "FilesToTopic", "directory": str(inbox), "topic": f"{kind}-inbox", **CREATED}
    )
    assert sorted(_values(node.bootstrap_servers, f"{kind}-inbox", 2)) == [b"one", b"two"]
    with running_receiver() as receiver:
        spark.configure("http", {"connector.class": "TopicToHttp", "http.url": receiver.url, **sink})
        until(lambda: len(receiver.records) >= RECORDS, spark.printed)
        assert sorted(record["number"] for record in receiver.records) == list(range(RECORDS))
        spark.request("DELETE", "/connectors/http")
    for name in ("numbers", "lines", "files", "rows", "back", "inbox"):
        assert spark.states(name) == ["RUNNING"], spark.status(name)


def test_changes_of_postgresql(worker: tuple[RemoteWorker, str], node: Node) -> None:
    spark, kind = worker
    programs, topic = postgresql_programs(), f"{kind}_shop.public.orders"
    assert programs is not None, "install PostgreSQL's server"
    with running_postgresql(programs, ["wal_level=logical"]) as database:
        database.sql("CREATE TABLE orders (id INT PRIMARY KEY, price NUMERIC(8, 2))")
        database.sql("INSERT INTO orders SELECT n, n FROM generate_series(1, 5) AS n")
        spark.configure("changes", {**source_settings(database, f"{kind}_shop", "public.orders"), **CREATED, **JSON})
        assert len(_values(node.bootstrap_servers, topic, 5)) == 5
        database.sql("UPDATE orders SET price = 7 WHERE id = 1")
        assert b'"op":"u"' in _values(node.bootstrap_servers, topic, 6)[-1]
        assert spark.states("changes") == ["RUNNING"]
        spark.request("DELETE", "/connectors/changes")
