"""NEXMark's queries through ``SqlPipeline`` have the rows of batch SQL over the same events, also after kill -9."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from barnabas.clients.admin import AdminClient
from barnabas.clients.admin.partitions import OffsetSpec
from barnabas.common.topic_partition import TopicPartition
from barnabas.testing import Node
from bench.connect_sides import is_all_running, request
from bench.nexmark.nexmark_queries import INPUTS, QUERIES, NexmarkQuery, pipeline_config
from tests.peers.barnabas_worker import BarnabasWorker
from tests.peers.connect_worker import worker_settings
from tests.spark.connect_worker_stage import running_worker
from tests.spark.nexmark_scene import NexmarkEvents, Row, counted, latest, topic_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.timeout(900)]

BY_NAME = {query.name: query for query in QUERIES}
SOURCE = {
    "connector.class": "NexmarkSource",
    "event.time.type": "text",
    "key.converter": "StringConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
}
WINNERS = "nexmark-winning_bids"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started
        started.stop()
        assert "Traceback" not in started.log


class Outputs:
    """What the queries have written, and what they should have."""

    def __init__(self, spark: SparkSession, bootstrap: str, events: NexmarkEvents, prefix: str = "nexmark-") -> None:
        self._spark = spark
        self._bootstrap = bootstrap
        self._events = events
        self._prefix = prefix
        self._wanted: dict[tuple[str, int | None], Counter[str]] = {}
        self._ends: dict[str, int] = {}

    def are_complete(self, query: NexmarkQuery) -> bool:
        """Return whether a query has all rows. Wrong rows, and rows that are too many, fail the test."""
        records = self._new_records(f"{self._prefix}{query.name}")
        if records is None:
            return False
        if query.key is not None:
            return counted(latest(records)) == self._rows(query, self._closed_ms())
        found = [row for _, row in records]
        closed_ms = max((row["expires"] for row in found), default=0) if query.name == "winning_bids" else None
        wanted = self._rows(query, closed_ms)
        assert counted(found) <= wanted, f"{query.name}: {counted(found) - wanted}"
        return counted(found) == wanted and (closed_ms is None or closed_ms > self._events.closed_auctions_ms)

    def _new_records(self, topic: str) -> list[tuple[str | None, Row | None]] | None:
        """Return the records of a topic, None if it has no others than the last time. Reading takes Spark a while."""
        with AdminClient.sync(self._bootstrap) as admin:
            partition = TopicPartition(topic, 0)
            end = admin.list_offsets({partition: OffsetSpec.latest()}).raise_for_errors()[partition].offset
        if end == self._ends.get(topic, 0):
            return None
        self._ends[topic] = end
        return topic_rows(self._spark, self._bootstrap, topic)

    def _rows(self, query: NexmarkQuery, closed_ms: int | None) -> Counter[str]:
        known = self._wanted.get((query.name, closed_ms))
        if known is None:
            known = self._wanted[query.name, closed_ms] = counted(self._events.rows(query, closed_ms))
        return known

    def _closed_ms(self) -> int:
        rows = [row for _, row in topic_rows(self._spark, self._bootstrap, f"{self._prefix}winning_bids")]
        return max((row["expires"] for row in rows), default=0)


def test_a_projection(spark: SparkSession, node: Node, tmp_path: Path) -> None:
    outputs = Outputs(spark, node.bootstrap_servers, NexmarkEvents(spark, 1_300, 100))
    query = BY_NAME["q1"]
    for topic in [*(given.topic for given in INPUTS.values()), "nexmark-q1"]:
        node.create_topic(topic)

    async def scenario() -> None:
        async with running_worker(spark, node.bootstrap_servers, "nexmark", tmp_path) as worker:
            settings = {"events": "1300", "events.per.second": "0", "event.time.per.second": "100"}
            await worker.create("events", {**SOURCE, **settings})
            await worker.create("q1", pipeline_config(query, "nexmark-q1"))
            await worker.eventually(partial(outputs.are_complete, query))

    asyncio.run(scenario())


@pytest.mark.long
def test_all_queries_after_their_worker_was_killed_again_and_again(
    spark: SparkSession, node: Node, tmp_path: Path
) -> None:
    """The events come at a rate, so that every kill interrupts all pipelines. Those of the winning bids are chained."""
    _run_with_kills(spark, node, tmp_path, QUERIES, _Load(400_000, 10_000, 4_000, kills=5, between_kills_s=7))


class _Load(NamedTuple):
    events: int
    per_second_of_event_time: int
    per_second: int
    kills: int
    between_kills_s: float


def _run_with_kills(
    spark: SparkSession, node: Node, folder: Path, queries: Sequence[NexmarkQuery], load: _Load
) -> None:
    outputs = Outputs(
        spark, node.bootstrap_servers, NexmarkEvents(spark, load.events, load.per_second_of_event_time), "all-"
    )
    configs = _configs(queries, load)
    for topic in [*(f"all-{name}" for name in INPUTS), *(f"all-{query.name}" for query in queries)]:
        node.create_topic(topic)
    settings = worker_settings(node.bootstrap_servers, "nexmark-kills")
    worker = BarnabasWorker(folder / "worker", {**settings, "exactly.once.source.support": "enabled"})
    worker.start(timeout_s=180)
    try:
        for name, config in configs.items():
            request(worker.url, "PUT", f"/connectors/{name}/config", {"tasks.max": "1", **config})
        for _ in range(load.kills):
            _until(lambda: is_all_running(worker.url, list(configs)), worker)
            time.sleep(load.between_kills_s)
            worker.kill()
            worker.start(timeout_s=180)
        for query in queries:
            _until(partial(outputs.are_complete, query), worker, pause_s=2)
    finally:
        worker.kill()


def _configs(queries: Sequence[NexmarkQuery], load: _Load) -> dict[str, dict[str, str]]:
    """Return the settings of the source and of the pipelines, with topics of their own."""
    settings = {"topic.prefix": "all-", "events": str(load.events), "events.per.second": str(load.per_second)}
    settings["event.time.per.second"] = str(load.per_second_of_event_time)
    renamed = {given.topic: f"all-{name}" for name, given in INPUTS.items()} | {WINNERS: "all-winning_bids"}
    configs = {"events": {**SOURCE, **settings}}
    for query in queries:
        config = pipeline_config(query, f"all-{query.name}")
        configs[query.name] = {name: renamed.get(text, text) for name, text in config.items()}
    return configs


def _until(condition: Callable[[], bool], worker: BarnabasWorker, timeout_s: float = 300, pause_s: float = 0.5) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        statuses = request(worker.url, "GET", "/connectors?expand=status")
        for name, details in statuses.items():
            for task in details["status"]["tasks"]:
                assert task["state"] != "FAILED", f"{name}: {task['trace']}"
        assert time.monotonic() < deadline, statuses
        time.sleep(pause_s)
