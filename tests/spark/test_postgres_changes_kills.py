"""Worker and database are killed while tables are read and while changes follow; the topic gives the table's rows."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from barnabas.testing import Node
from tests.peers.barnabas_worker import BarnabasWorker
from tests.peers.changes_run import replay, source_settings
from tests.peers.connect_worker import worker_settings
from tests.peers.postgresql_server import PostgresqlServer, postgresql_programs, running_postgresql

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1500)]

TOPIC = "shop.public.orders"
ROWS = 3000
JSON = {
    "key.converter": "JsonConverter",
    "key.converter.schemas.enable": "false",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}


@pytest.fixture
def node() -> Iterator[Node]:
    with Node() as started:
        started.create_topic(TOPIC)
        yield started


@pytest.fixture
def database() -> Iterator[PostgresqlServer]:
    programs = postgresql_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: install the package postgresql")
    with running_postgresql(programs, ["wal_level=logical"]) as server:
        yield server


def committed(node: Node) -> list[dict[str, Any]]:
    """Return the committed records, in order: topic, key, value."""
    from confluent_kafka import Consumer, TopicPartition

    settings = {"bootstrap.servers": node.bootstrap_servers, "group.id": "reader", "isolation.level": "read_committed"}
    consumer = Consumer({**settings, "enable.auto.commit": False, "enable.partition.eof": True})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[dict[str, Any]] = []
    try:
        while (message := consumer.poll(30)) is not None and message.error() is None:
            value = message.value()
            found.append({"key": json.loads(message.key()), "value": None if value is None else json.loads(value)})
    finally:
        consumer.close()
    return found


def until(condition: Callable[[], bool], timeout_s: float = 300) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.3)


class _Load(threading.Thread):
    """Changes rows by psql, several in each transaction, until it is stopped."""

    def __init__(self, database: PostgresqlServer) -> None:
        super().__init__(daemon=True)
        self._database = database
        self._stopping = threading.Event()
        self.is_paused = False

    def run(self) -> None:
        number = 0
        while not self._stopping.wait(0.2):
            number += 1
            if self.is_paused:
                continue
            first, second = number * 7 % ROWS, number * 13 % ROWS
            try:
                self._database.sql(
                    f"BEGIN; INSERT INTO orders VALUES ({ROWS + number}, 'new'); "
                    f"UPDATE orders SET item = 'changed {number}' WHERE id = {first}; "
                    f"DELETE FROM orders WHERE id = {second}; COMMIT"
                )
            except AssertionError:
                time.sleep(0.2)  # The database was killed.

    def stop(self) -> None:
        self._stopping.set()
        self.join(60)


def test_killed_workers_and_a_killed_database_lose_and_double_nothing(
    node: Node, database: PostgresqlServer, tmp_path: Path
) -> None:
    database.sql("CREATE TABLE orders (id INT PRIMARY KEY, item TEXT)")
    database.sql(f"INSERT INTO orders SELECT n, 'item ' || n FROM generate_series(0, {ROWS - 1}) AS n")
    settings = {
        **worker_settings(node.bootstrap_servers, "kills"),
        "exactly.once.source.support": "enabled",
        "barnabas.trigger.interval.ms": "100",
    }
    parts = {"snapshot_fetch_size": "200", "snapshot_max_threads": "2", "max_batch_size": "1000"}
    config = {**source_settings(database, "shop", r"public\.orders", **parts), **JSON}
    worker = BarnabasWorker(tmp_path / "worker", settings)
    load = _Load(database)
    worker.start(timeout_s=300)
    try:
        answer = httpx.put(f"{worker.url}/connectors/shop/config", json=config, timeout=100, trust_env=False)
        assert answer.status_code == 201, answer.text
        load.start()
        until(lambda: len(committed(node)) >= 400)
        worker.kill()
        assert len(committed(node)) < ROWS  # It was killed while it read.
        worker.start(timeout_s=300)
        until(lambda: any(record["value"] and record["value"]["op"] != "r" for record in committed(node)))
        worker.kill()
        worker.start(timeout_s=300)
        before = len(committed(node))
        until(lambda: len(committed(node)) > before)
        database.kill()
        time.sleep(2)
        database.start()
        after = len(committed(node))
        until(lambda: len(committed(node)) > after)
        load.stop()
        expected = {int(row[0]): row[1] for row in database.sql("SELECT id, item FROM orders")}
        until(lambda: {key: row["item"] for key, row in replay(committed(node)).items()} == expected)
    finally:
        load.stop()
        worker.stop()
