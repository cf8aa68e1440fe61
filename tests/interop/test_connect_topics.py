"""Connect's internal topics are interchangeable: our worker reads what a Kafka worker writes, and the reverse."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from barnabas.clients.client_config import client_config
from barnabas.clients.consumer.topic_consumer import ConsumerRecord, TopicConsumer
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.topic_metadata import TopicMetadataSource
from barnabas.connect.decide.backing_stores import config_records as records
from barnabas.connect.decide.backing_stores.config_state import ClusterConfig, ConfigState
from barnabas.connect.decide.backing_stores.offset_state import OffsetState
from barnabas.connect.decide.backing_stores.status_records import Status, connector_status_record, task_status_record
from barnabas.connect.decide.backing_stores.status_state import StatusState
from barnabas.connect.decide.session_key import SessionKey
from barnabas.connect.identifiers import ConnectorTaskId, TargetState, TaskState
from barnabas.connect.run.internal_topics.topic_admin import (
    config_topic,
    internal_client_properties,
    offset_topic,
    status_topic,
)
from barnabas.connect.run.internal_topics.topic_log import TopicLog
from barnabas.testing import Node
from tests.peers import require_java
from tests.peers.connect_worker import ConnectWorker, worker_settings

pytestmark = [pytest.mark.interop, pytest.mark.long]

SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    require_java()
    with Node() as node:
        yield node


class Stores:
    """The state that our worker reads from the topics of a group."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self.configs, self.statuses, self.offsets = ConfigState(), StatusState(), OffsetState()
        self.config_log = TopicLog(
            config_topic(settings), internal_client_properties(settings, "configs"), self._config
        )
        self.status_log = TopicLog(
            status_topic(settings), internal_client_properties(settings, "statuses"), self._status
        )
        self.offset_log = TopicLog(
            offset_topic(settings), internal_client_properties(settings, "offsets"), self._offset
        )

    @property
    def config(self) -> ClusterConfig:
        return self.configs.snapshot()

    def _config(self, record: ConsumerRecord) -> None:
        self.configs.replay(record.key, record.value, record.offset)

    def _status(self, record: ConsumerRecord) -> None:
        self.statuses.replay(record.key, record.value)

    def _offset(self, record: ConsumerRecord) -> None:
        self.offsets.replay(record.key, record.value, record.timestamp_ms)

    async def __aenter__(self) -> Stores:
        await asyncio.gather(*(log.start() for log in (self.config_log, self.status_log, self.offset_log)))
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.gather(*(log.close() for log in (self.config_log, self.status_log, self.offset_log)))


def test_our_worker_reads_what_a_kafka_worker_writes(node: Node, tmp_path: Path) -> None:
    settings = worker_settings(node.bootstrap_servers, "read")
    lines = tmp_path / "lines.txt"
    lines.write_text("one\ntwo\n")
    config = {"connector.class": SOURCE, "file": str(lines), "topic": "read-lines", "note": 'naïve "✓" \x01'}
    worker = ConnectWorker(tmp_path / "worker", settings)
    worker.start()
    try:
        worker.request("POST", "/connectors", {"name": "lines", "config": config})
        worker.until("GET", "/connectors/lines/offsets", lambda answer: answer["offsets"])
        stopped = {"name": "idle", "config": config | {"topic": "idle"}, "initial_state": "STOPPED"}
        worker.request("POST", "/connectors", stopped)
        shown = worker.until("GET", "/connectors/lines/status", lambda answer: answer["tasks"])
        tasks = worker.request("GET", "/connectors/lines/tasks")
    finally:
        worker.stop()

    async def check() -> None:
        async with Stores(settings) as stores:
            read = stores.config
            assert read.connectors() == ["idle", "lines"]
            assert read.connector_config("lines") == config | {"name": "lines"}
            assert read.target_state("idle") is TargetState.STOPPED
            assert [read.task_config(task) for task in read.tasks("lines")] == [task["config"] for task in tasks]
            assert read.session_key is not None
            assert (read.session_key.algorithm, len(read.session_key.key)) == ("HmacSHA256", 32)
            assert stores.offsets.offset("lines", {"filename": str(lines)}) == {"position": 8}
            status = stores.statuses.connector("lines")
            assert status is not None
            assert status.worker_id == shown["connector"]["worker_id"]
            assert list(stores.statuses.topics("lines")) == ["read-lines"]

    asyncio.run(check())


def test_a_kafka_worker_continues_from_what_our_worker_wrote(node: Node, tmp_path: Path) -> None:
    settings = worker_settings(node.bootstrap_servers, "written")
    lines = tmp_path / "lines.txt"
    lines.write_text("read already\nnew\n")
    config = {"connector.class": SOURCE, "file": str(lines), "topic": "written-lines", "name": "ours", "note": "✓"}
    key = SessionKey(bytes(range(32)), "HmacSHA256", 4_000_000_000_000)
    task = ConnectorTaskId("ours", 0)
    task_config = {
        "task.class": "org.apache.kafka.connect.file.FileStreamSourceTask",
        "file": str(lines),
        "topic": "written-lines",
        "batch.size": "2000",
    }
    gone = Status(TaskState.UNASSIGNED, "gone:1", 3)

    async def write() -> None:
        async with Stores(settings) as stores:
            await stores.config_log.write(
                [
                    records.session_key_record(key),
                    records.connector_record("ours", config),
                    records.task_record(task, task_config),
                    records.task_commit_record("ours", 1),
                    records.target_state_record("idle", TargetState.STOPPED),
                    records.connector_record("idle", config | {"name": "idle"}),
                ]
            )
            await stores.status_log.write([connector_status_record("idle", gone), task_status_record(task, gone)])
            offset = stores.offsets.records_to_write("ours", [({"filename": str(lines)}, {"position": 13})])
            await stores.offset_log.write(offset)
            await stores.config_log.read_to_end()
            assert stores.config.connectors() == ["idle", "ours"]

    asyncio.run(write())
    worker = ConnectWorker(tmp_path / "worker", settings)
    worker.start()
    try:
        assert worker.request("GET", "/connectors/ours/config") == config
        status = worker.until(
            "GET", "/connectors/ours/status", lambda answer: [task["state"] for task in answer["tasks"]] == ["RUNNING"]
        )
        assert status["connector"]["state"] == "RUNNING"
        idle = worker.until("GET", "/connectors/idle/status", lambda answer: answer["connector"]["state"] == "STOPPED")
        assert idle["tasks"] == []
        offsets = worker.until(
            "GET", "/connectors/ours/offsets", lambda answer: answer["offsets"][0]["offset"] != {"position": 13}
        )
        assert offsets == {"offsets": [{"partition": {"filename": str(lines)}, "offset": {"position": 17}}]}
    finally:
        worker.stop()

    async def check() -> None:
        async with Stores(settings) as stores:
            assert stores.config.session_key == key  # The existing topic was used: no worker created another one.
        assert await read_topic(node.bootstrap_servers, "written-lines", count=1) == [b"new"]

    asyncio.run(check())


async def read_topic(bootstrap: str, name: str, *, count: int) -> list[bytes | None]:
    """Return the values in partition 0 of a topic, once there are this many."""
    values: list[bytes | None] = []
    async with NetworkClient(client_config({"bootstrap.servers": bootstrap})) as network:
        source = TopicMetadataSource(network, name)
        reader = TopicConsumer(network, source, lambda record: values.append(record.value))
        reader.start(await source.load(), {0: 0})
        async with asyncio.timeout(30):
            await reader.reach({0: count})
        await reader.close()
    return values
