"""A complete worker with a Spark Connect server: the same connectors, and the effects when either of the two dies."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.testing import Node
from tests.peers.spark_servers import SparkConnectServer
from tests.spark.spark_servers_scene import (
    BYTES,
    CREATED,
    JSON,
    RemoteWorker,
    committed_values,
    json_rows,
    lines_of,
    until,
)

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(1200)]

LINES = [f"line {number}" for number in range(300)]


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node() as started:
        yield started


@pytest.fixture(scope="module")
def server(java: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkConnectServer]:
    from barnabas.spark.connector_jars import avro_jars, cache_directory, connector_jars
    from barnabas.spark.java_runtime import find_java

    runtime, cache = find_java(os.environ), cache_directory(os.environ)
    jars = connector_jars(cache, runtime, print) + avro_jars(cache, runtime, print)
    found = SparkConnectServer(tmp_path_factory.mktemp("server"), jars)
    try:
        found.start(timeout_s=180)
        yield found
    finally:
        found.kill()


def _mirror(bootstrap: str, prefix: str) -> dict[str, str]:
    source = {"source.bootstrap.servers": bootstrap, "source.topics": "lines", "topic.format": prefix + "${topic}"}
    return {"connector.class": "TopicToTopic", **source, **BYTES}


def _records(
    bootstrap: str, topic: str, count: int, *, quiet_s: float = 0
) -> list[tuple[bytes | None, list[tuple[str, bytes]]]]:
    """Return the first records of a topic, and all that arrive within some time after them."""
    settings = {"bootstrap.servers": bootstrap, "group.id": f"reads-{uuid4()}", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    found: list[Any] = []
    consumer.subscribe([topic])
    try:
        while len(found) < count:
            message = consumer.poll(60)
            assert message is not None, f"{topic} has {len(found)} records"
            if message.error() is None:
                found.append((message.value(), message.headers() or []))
        while (message := consumer.poll(quiet_s)) is not None:
            found.append((message.value(), message.headers() or []))
    finally:
        consumer.close()
    return found


def test_connectors_run_on_a_server_and_report_their_states(
    node: Node, server: SparkConnectServer, tmp_path: Path
) -> None:
    worker = RemoteWorker(tmp_path / "worker", node.bootstrap_servers, "server", server.url)
    (tmp_path / "lines.txt").write_text("".join(f"{line}\n" for line in LINES))
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    try:
        worker.start(timeout_s=120)
        source = {"connector.class": "FileStreamSource", "file": str(tmp_path / "lines.txt"), "topic": "lines"}
        worker.configure("lines", {**source, **CREATED})
        out = tmp_path / "out.txt"
        worker.configure("out", {"connector.class": "FileStreamSink", "topics": "lines", "file": str(out)})
        until(lambda: len(lines_of(out)) >= len(LINES), worker.printed)
        assert lines_of(out) == LINES
        until(
            lambda: worker.request("GET", "/connectors/lines/topics").json()["lines"]["topics"] == ["lines"],
            worker.printed,
        )

        worker.configure("mirror", _mirror(node.bootstrap_servers, "copy-"))
        assert [value for value, _ in _records(node.bootstrap_servers, "copy-lines", 300)] == [
            line.encode() for line in LINES
        ]

        for value in (b'{"n": 1}', b"no json", b'{"n": 2}'):
            producer.produce("mixed", value, partition=0)
        assert producer.flush(60) == 0
        letters = {"errors.tolerance": "all", "errors.deadletterqueue.topic.name": "mixed-dead"}
        letters |= {
            "errors.deadletterqueue.topic.replication.factor": "1",
            "errors.deadletterqueue.context.headers.enable": "true",
        }
        files = {"connector.class": "TopicToFiles", "directory": str(tmp_path / "data"), "format": "json", **JSON}
        worker.configure("files", {**files, "topics": "mixed", **letters})
        ((value, headers),) = _records(node.bootstrap_servers, "mixed-dead", 1)
        assert (value, dict(headers)["__connect.errors.offset"]) == (b"no json", b"1")
        assert sorted(row["n"] for row in json_rows(tmp_path / "data")) == [1, 2]

        worker.request("PUT", "/connectors/files/pause")
        worker.until_state("files", "PAUSED")
        producer.produce("mixed", b'{"n": 3}', partition=0)
        assert producer.flush(60) == 0
        worker.request("PUT", "/connectors/files/resume")
        until(lambda: len(json_rows(tmp_path / "data")) == 3, worker.printed)
        plan = worker.request("GET", "/connectors/files/status").json()
        assert [task["state"] for task in plan["tasks"]] == ["RUNNING"]

        worker.configure("broken", {**files, "topics": "mixed", "directory": str(tmp_path / "strict")})
        assert "VALUE_CONVERTER of the record at mixed-0, offset 1 failed" in worker.trace("broken").splitlines()[0]
        assert worker.stop(timeout_s=90) == 0
    finally:
        worker.kill()


def test_a_polled_source_is_exactly_once_and_a_streaming_one_is_refused(
    node: Node, server: SparkConnectServer, tmp_path: Path
) -> None:
    once = {"exactly.once.source.support": "enabled"}
    worker = RemoteWorker(tmp_path / "worker", node.bootstrap_servers, "once", server.url, **once)
    file = tmp_path / "once.txt"
    file.write_text("".join(f"{line}\n" for line in LINES[:100]))
    node.create_topic("once")

    def lines() -> list[str]:
        return [value.decode() for value in committed_values(node.bootstrap_servers, "once")]

    try:
        worker.start(timeout_s=120)
        source = {"connector.class": "FileStreamSource", "file": str(file), "topic": "once"}
        worker.configure("once", {**source, "exactly.once.support": "required"})
        until(lambda: len(lines()) >= 100, worker.printed)
        worker.kill()
        file.write_text("".join(f"{line}\n" for line in LINES))
        worker.start(timeout_s=120)
        until(lambda: len(lines()) >= len(LINES), worker.printed)
        assert lines() == LINES

        worker.configure("mirror", {**_mirror(node.bootstrap_servers, "once-"), "source.topics": "once"})
        assert "exactly-once delivery is impossible for TopicToTopicTask" in worker.trace("mirror").splitlines()[0]
        assert worker.stop(timeout_s=90) == 0
        assert lines() == LINES
    finally:
        worker.kill()


def test_a_killed_server_fails_its_tasks_which_resume_when_it_returns(
    node: Node, server: SparkConnectServer, tmp_path: Path
) -> None:
    restarts = {
        "barnabas.connect.task.restart.max.attempts": "100",
        "barnabas.connect.task.restart.backoff.max.ms": "2000",
    }
    worker = RemoteWorker(tmp_path / "worker", node.bootstrap_servers, "killed", server.url, **restarts)
    try:
        worker.start(timeout_s=120)
        generator = {"connector.class": "Generator", "topic": "killed", "records.per.second": "20"}
        worker.configure("numbers", {**generator, **CREATED, **JSON})
        files = {"connector.class": "TopicToFiles", "topics": "killed", "directory": str(tmp_path / "data")}
        worker.configure("files", {**files, "format": "json", **JSON})
        until(lambda: bool(json_rows(tmp_path / "data")), worker.printed)
        server.kill()
        trace = worker.trace("files")
        assert trace.startswith(f"the Spark Connect server {server.url} does not answer: ")
        worker.trace("numbers")
        before = len(json_rows(tmp_path / "data"))
        server.start(timeout_s=180)
        until(lambda: len(json_rows(tmp_path / "data")) > before + 20, worker.printed)
        worker.until_state("files", "RUNNING")
        assert "out of its group" not in worker.printed()
        numbers = [row["number"] for row in json_rows(tmp_path / "data")]
        assert set(numbers) == set(range(max(numbers) + 1))  # The source may have repeated a batch.
        assert worker.stop(timeout_s=90) == 0
    finally:
        worker.kill()


def test_the_queries_of_a_killed_worker_end_before_its_successor_starts(
    node: Node, server: SparkConnectServer, tmp_path: Path
) -> None:
    first, second = (
        RemoteWorker(tmp_path / name, node.bootstrap_servers, "orphans", server.url, **{"session.timeout.ms": "10000"})
        for name in ("first", "second")
    )
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    try:
        first.start(timeout_s=120)
        source = {
            "source.bootstrap.servers": node.bootstrap_servers,
            "source.topics": "origin",
            "topic.format": "kept-${topic}",
        }
        producer.produce("origin", b"one", partition=0)
        assert producer.flush(60) == 0
        first.configure("mirror", {"connector.class": "TopicToTopic", **source, **BYTES})
        assert [value for value, _ in _records(node.bootstrap_servers, "kept-origin", 1)] == [b"one"]
        until(lambda: first.request("GET", "/connectors/mirror/offsets").json()["offsets"] != [], first.printed)
        first.kill()
        second.start(timeout_s=120)
        until(lambda: "queries of a worker before this one were ended" in second.printed(), second.printed)
        second.until_state("mirror", "RUNNING")
        for value in (b"two", b"three"):
            producer.produce("origin", value, partition=0)
            assert producer.flush(60) == 0
        # An orphan would have written these two as well.
        found = _records(node.bootstrap_servers, "kept-origin", 3, quiet_s=5)
        assert [value for value, _ in found] == [b"one", b"two", b"three"]
    finally:
        first.kill()
        second.kill()
