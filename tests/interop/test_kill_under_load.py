"""kill -9 under load: afterwards no acknowledged record is missing, and no record of an idempotent producer exists
twice.

The moments of the kills come from a fixed seed. ``BARNABAS_KILLS`` sets their number: 8 by default, and 100 in `make
slow`.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest

from barnabas.testing import Node

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.filterwarnings("ignore::ResourceWarning")]

SEED = 20_260_101
KILLS = int(os.environ.get("BARNABAS_KILLS", "8"))
PARTITIONS = 3


class Load:
    """An idempotent producer that continues through every restart, and records the acknowledgements."""

    def __init__(self, bootstrap: str, topic: str) -> None:
        from confluent_kafka import Producer

        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 5,
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 50,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._topic = topic
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failures: list[str] = []
        self.sent = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(60) == 0

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                number = self.sent
                self._producer.produce(
                    self._topic,
                    value=b"%08d" % number + b"." * 200,
                    partition=number % PARTITIONS,
                    on_delivery=partial(self._delivered, number),
                )
                self.sent += 1
            except BufferError:
                pass
            self._producer.poll(0)
            if self.sent % 20 == 0:
                time.sleep(0.005)

    def _delivered(self, number: int, error: Any, message: Any) -> None:
        if error is not None:
            self.failures.append(f"{number}: {error}")
        else:
            self.acknowledged[number] = (message.partition(), message.offset())


def read_everything(bootstrap: str, topic: str) -> list[tuple[int, int, int]]:
    """(number, partition, offset) of every record."""
    from confluent_kafka import Consumer, TopicPartition

    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    ends = {p: consumer.get_watermark_offsets(TopicPartition(topic, p), 10)[1] for p in range(PARTITIONS)}
    consumer.assign([TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    found: list[tuple[int, int, int]] = []
    deadline = time.monotonic() + 60
    while len(found) < sum(ends.values()) and time.monotonic() < deadline:
        for message in consumer.consume(1000, 0.5):
            assert message.error() is None
            found.append((int(message.value()[:8]), message.partition(), message.offset()))
    consumer.close()
    assert len(found) == sum(ends.values())
    return found


@pytest.mark.timeout(60 + 12 * KILLS)
def test_no_acknowledged_record_is_lost_or_doubled(record_property: Any, capsys: pytest.CaptureFixture[str]) -> None:
    with Node(settings={"log.segment.bytes": "1048576"}) as node:
        rng = random.Random(SEED)
        _create(node.bootstrap_servers, "killed")
        load = Load(node.bootstrap_servers, "killed")
        load.start()
        ready_times = []
        rounds_with_load = 0
        try:
            for _ in range(KILLS):
                acknowledged = _wait_for_load(load)
                time.sleep(rng.uniform(0.05, 0.6))
                rounds_with_load += len(load.acknowledged) > acknowledged
                node.kill()
                began = time.monotonic()
                node.start()
                ready_times.append(time.monotonic() - began)
        finally:
            load.stop()
        found = read_everything(node.bootstrap_servers, "killed")
        node.stop()

        copies = Counter(number for number, _, _ in found)
        where = {number: (partition, offset) for number, partition, offset in found}
        lost = [number for number, place in load.acknowledged.items() if where.get(number) != place]
        doubled = [number for number, count in copies.items() if count > 1]
        with capsys.disabled():
            print(
                f"\nseed {SEED}: {KILLS} kills, {load.sent} records sent, {len(load.acknowledged)} acknowledged, "
                f"{len(lost)} lost, {len(doubled)} doubled; ready again after {max(ready_times):.2f} s at most"
            )
        assert load.failures == []
        assert lost == []
        assert doubled == []
        assert rounds_with_load == KILLS
        assert "Traceback" not in node.log_path.read_text()


def _wait_for_load(load: Load) -> int:
    """Wait until the producer has reached the node again: the kill must fall between two acknowledgements. Return the
    number of acknowledged records."""
    before = len(load.acknowledged)
    deadline = time.monotonic() + 20
    while len(load.acknowledged) == before and time.monotonic() < deadline:
        time.sleep(0.01)
    return len(load.acknowledged)


def _create(bootstrap: str, topic: str) -> None:
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(topic, PARTITIONS, 1)])[topic].result(20)
