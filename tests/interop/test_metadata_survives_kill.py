"""kill -9 while topics are created: every acknowledged topic exists after the restart, with or without a snapshot."""

from __future__ import annotations

import random
import threading
import time

import pytest

from barnabas.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.storage.metadata_log import MetadataLog
from barnabas.testing import Node
from tests.interop.raw_client import RawClient

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

ROUNDS = 8
SEED = 20261121


def create_until_killed(node: Node, prefix: str, created: list[str]) -> None:
    """Create one topic after the other and record each that was answered without an error."""
    client = RawClient(node.port)
    try:
        for number in range(100_000):
            name = f"{prefix}-{number}"
            topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
            answer = client.call(CreateTopicsRequest(topics=[topic], timeout_ms=10_000))
            if answer.topics[0].error_code == 0:
                created.append(name)
    except (OSError, EOFError, AssertionError, ValueError):
        return
    finally:
        client.close()


def listed(node: Node) -> set[str]:
    client = RawClient(node.port)
    try:
        return {topic.name for topic in client.call(MetadataRequest(topics=None)).topics}
    finally:
        client.close()


def test_every_acknowledged_topic_exists_after_each_kill() -> None:
    chance = random.Random(SEED)
    with Node(settings={"metadata.log.max.record.bytes.between.snapshots": "20000"}) as node:
        created: list[str] = []
        for number in range(ROUNDS):
            node.start()
            assert set(created) <= listed(node)
            before = len(created)
            worker = threading.Thread(target=create_until_killed, args=(node, f"r{number}", created))
            worker.start()
            enough = before + chance.randint(1, 150)
            deadline = time.monotonic() + 20
            while len(created) < enough and time.monotonic() < deadline:
                time.sleep(0.001)
            node.kill()
            worker.join()
            assert len(created) >= enough
        node.start()
        assert set(created) <= listed(node)
        node.stop()
        log = MetadataLog(str(node.broker.folder / "data"))
        assert log.recovered_from is None
        assert log.latest_snapshot_id is not None
        assert log.latest_snapshot_id.offset > 0
