"""The rate at which ``PostgresChanges`` brings a table and its changes to a topic, from a real PostgreSQL.

First the table is read, then changes that were made while the connector was paused: one transaction with many rows, and
many transactions with a row each. The clock starts when the status says that the task runs, and ends when all records
are in the topic. CPU is that of the worker and its JVM.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from barnabas.clients.admin.client import AdminClient
from barnabas.clients.admin.partitions import OffsetSpec
from barnabas.clients.admin.sync_client import SyncAdminClient
from barnabas.clients.admin.topics import NewTopic
from barnabas.common.topic_partition import TopicPartition
from bench.connect_sides import (
    Worker,
    cpu_of_tree,
    is_all_running,
    make_worker,
    request,
    running_broker,
    wait_for,
)
from tests.peers.changes_run import source_settings
from tests.peers.postgresql_server import PostgresqlServer, postgresql_programs, running_postgresql

__all__ = ["QUICK", "ChangeSizes", "measure_changes"]

_START_S = 180
_MOVE_S = 900
_TABLE = """
CREATE TABLE orders (
    id BIGINT PRIMARY KEY, note TEXT, price NUMERIC(10, 2), at TIMESTAMP, quantity INT, customer TEXT
)
"""
_ROW = "n, 'note ' || n, n / 7.0, TIMESTAMP '2026-01-01' + n * INTERVAL '1 second', n % 1000, 'a customer'"

Figures = dict[str, float]


class ChangeSizes(NamedTuple):
    rows: int = 300_000
    transactions: int = 50_000
    """Of one row each."""


QUICK = ChangeSizes(rows=2_000, transactions=200)


def measure_changes(folder: Path, rounds: int, sizes: ChangeSizes) -> list[Figures]:
    """Return the figures of each round. PostgreSQL is installed."""
    programs = postgresql_programs()
    assert programs is not None
    found = []
    with running_broker(folder / "broker") as broker:
        for number in range(rounds):
            name = f"changes{number}"
            worker = make_worker("barnabas", folder / name, broker.bootstrap_servers, name)
            worker.start(timeout_s=_START_S)
            try:
                with (
                    running_postgresql(programs, ["wal_level=logical"]) as database,
                    AdminClient.sync(broker.bootstrap_servers) as admin,
                ):
                    found.append(_Round(worker, database, admin, name).measure(sizes))
            finally:
                worker.stop(timeout_s=60)
            print(f"pipelines: PostgreSQL: {found[-1]}", flush=True)
    return found


class _Round:
    def __init__(self, worker: Worker, database: PostgresqlServer, admin: SyncAdminClient, name: str) -> None:
        self._worker = worker
        self._database = database
        self._admin = admin
        self._name = name
        self._topic = f"{name}.public.orders"
        self._records = 0

    def measure(self, sizes: ChangeSizes) -> Figures:
        rows = sizes.rows
        self._admin.create_topics([NewTopic(self._topic, 1, 1)], wait=True).raise_for_errors()
        self._database.sql(_TABLE)
        self._database.sql(f"INSERT INTO orders SELECT {_ROW} FROM generate_series(1, {rows}) AS n")
        figures = self._timed("a table", rows, self._create)
        self._pause()
        self._database.sql("UPDATE orders SET quantity = quantity + 1")
        figures |= self._timed("one transaction", rows, self._resume)
        self._pause()
        last = rows + sizes.transactions
        self._database.sql(
            f"DO $$ BEGIN FOR n IN {rows + 1}..{last} LOOP INSERT INTO orders VALUES ({_ROW}); COMMIT; END LOOP; END $$"
        )
        return figures | self._timed("transactions of one row", sizes.transactions, self._resume)

    def _timed(self, what: str, records: int, begin: Callable[[], None]) -> Figures:
        begin()
        self._records += records
        cpu_s, began_s = cpu_of_tree(self._worker.pid), time.monotonic()
        wait_for(lambda: self._end() >= self._records, f"{what} in {self._topic}", timeout_s=_MOVE_S, pause_s=0.1)
        took_s = time.monotonic() - began_s
        used_s = cpu_of_tree(self._worker.pid) - cpu_s
        if self._end() != self._records:
            raise AssertionError(f"{self._topic} has {self._end():,} records, and not {self._records:,}")
        return {f"{what}, records/s": records / took_s, f"{what}: CPU, s a million records": used_s / records * 1e6}

    def _end(self) -> int:
        partition = TopicPartition(self._topic, 0)
        found = self._admin.list_offsets({partition: OffsetSpec.latest()}).raise_for_errors()
        return found[partition].offset

    def _create(self) -> None:
        json = {f"{side}.converter": "JsonConverter" for side in ("key", "value")}
        plain = {f"{side}.converter.schemas.enable": "false" for side in ("key", "value")}
        config = {**source_settings(self._database, self._name, r"public\.orders"), **json, **plain}
        request(self._worker.url, "PUT", f"/connectors/{self._name}/config", config)
        self._wait_until_running()

    def _pause(self) -> None:
        request(self._worker.url, "PUT", f"/connectors/{self._name}/pause")

        def is_paused() -> bool:
            status = request(self._worker.url, "GET", f"/connectors/{self._name}/status")
            return all(part["state"] == "PAUSED" for part in (status["connector"], *status["tasks"]))

        wait_for(is_paused, f"{self._name} paused", timeout_s=_START_S)

    def _resume(self) -> None:
        request(self._worker.url, "PUT", f"/connectors/{self._name}/resume")
        self._wait_until_running()

    def _wait_until_running(self) -> None:
        wait_for(lambda: is_all_running(self._worker.url, [self._name]), f"{self._name} running", timeout_s=_START_S)
