"""MirrorMaker 2 copies committed records from one of our nodes to another exactly once: the source, the target and the
worker are killed in turn. The worker's own topics are on the target, written in transactions too.
"""

from __future__ import annotations

import time
import urllib.error
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest
from confluent_kafka import Producer

from barnabas.testing import Node
from tests.peers.connect_worker import ConnectWorker
from tests.peers.mirror_maker import mirror_config, mirror_worker

pytestmark = [pytest.mark.interop, pytest.mark.ecosystem, pytest.mark.long, pytest.mark.timeout(500)]

TOPIC, MIRROR = "orders", "source.orders"
PARTITIONS = 3
STEP = 1000
KILL_STEPS = ("worker", "target", "source", "worker")


class Stage(NamedTuple):
    source: Node
    target: Node
    worker: ConnectWorker
    written: list[str]
    """The committed values."""

    def write(self) -> None:
        """Write records in transactions, of which every third is aborted."""
        producer = Producer({
            "bootstrap.servers": self.source.bootstrap_servers, "transactional.id": "orders", "log_level": 0,
        })  # fmt: skip
        producer.init_transactions(60)
        for transaction in range(6):
            producer.begin_transaction()
            is_committed = transaction % 3 != 2
            for _ in range(STEP // 4):
                value = f"{len(self.written)}" if is_committed else "aborted"
                producer.produce(TOPIC, value, value)
                if is_committed:
                    self.written.append(value)
            producer.flush(60)
            (producer.commit_transaction if is_committed else producer.abort_transaction)(60)

    def mirrored(self) -> list[str]:
        return [(record.value or b"").decode() for record in self.target.consume(MIRROR, read_committed=True)]

    def until_mirrored(self, count: int, *, timeout_s: float = 120) -> None:
        deadline = time.monotonic() + timeout_s
        while (found := len(self.mirrored())) < count:
            assert time.monotonic() < deadline, f"{found} of {count}\n{self.worker.printed()[-6000:]}"
            time.sleep(0.2)


@pytest.fixture
def stage(tmp_path: Path, kafka_peer: Path) -> Iterator[Stage]:
    with Node(topics={TOPIC: PARTITIONS}) as source, Node(topics={MIRROR: PARTITIONS}) as target, ExitStack() as stack:
        worker = mirror_worker(tmp_path, target.bootstrap_servers)
        stack.callback(worker.kill)
        worker.start()
        yield Stage(source, target, worker, [])


def start_mirror(stage: Stage) -> None:
    config = mirror_config(stage.source.bootstrap_servers, stage.target.bootstrap_servers, TOPIC)
    for _ in range(100):
        try:
            stage.worker.request("PUT", "/connectors/mirror/config", config)
        except urllib.error.HTTPError as error:
            assert error.code == 409, error.read()
            time.sleep(0.3)
        else:
            return
    raise AssertionError("the worker does not end its rebalance")


def test_committed_records_are_mirrored_exactly_once(stage: Stage) -> None:
    stage.write()
    start_mirror(stage)
    stage.until_mirrored(len(stage.written) // 2)
    processes: dict[str, ConnectWorker | Node] = {
        "worker": stage.worker,
        "target": stage.target,
        "source": stage.source,
    }
    for victim in KILL_STEPS:
        stage.write()
        processes[victim].kill()
        processes[victim].start()
        stage.until_mirrored(len(stage.written) - STEP // 2)
    stage.until_mirrored(len(stage.written))
    assert sorted(stage.mirrored(), key=int) == stage.written
    mirrored = [record.value for record in stage.target.consume(MIRROR, read_committed=True)]
    original = [record.value for record in stage.source.consume(TOPIC, read_committed=True)]
    assert mirrored == original, "the order in a partition changed"
    assert "Traceback" not in stage.source.log_path.read_text() + stage.target.log_path.read_text()
