"""A topic that is written while members of a share group accept its records: what each of them was shown and accepted.

The members are processes of Kafka's VerifiableShareConsumer, and can be killed.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from random import Random
from threading import Event, Thread

from confluent_kafka import KafkaError, Message, Producer

from barnabas.clients.admin import SyncAdminClient
from barnabas.common.topic_partition import TopicPartition
from tests.peers.verifiable_share_consumer import VerifiableShareConsumer

__all__ = ["ShareWork", "share_work"]

GROUP = "workers"


class ShareWork:
    """A producer and the members of ``workers``."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._topic = topic
        self._partitions = partitions
        self._folder = folder
        self._ends = Event()
        self._written = Counter[int]()
        self._numbers = count()
        self._all: list[VerifiableShareConsumer] = []
        self._running: list[VerifiableShareConsumer] = []
        self._producing = Thread(target=self._produce)

    def start(self, members: int) -> None:
        self._producing.start()
        for _ in range(members):
            self.begin_member()

    def begin_member(self) -> None:
        name = f"member-{next(self._numbers)}"
        member = VerifiableShareConsumer(self._bootstrap, self._topic, GROUP, self._folder, name)
        self._all.append(member)
        self._running.append(member)

    def kill_member(self, random: Random) -> None:
        self._running.pop(random.randrange(len(self._running))).kill()

    def await_progress(self, *, timeout_s: float = 60) -> None:
        """Wait until one of the members that run has accepted something more."""
        before = [len(member.accepted()) for member in self._running]
        deadline = time.monotonic() + timeout_s
        while [len(member.accepted()) for member in self._running] == before:
            assert time.monotonic() < deadline, f"no member has accepted anything for {timeout_s:g} s"
            time.sleep(0.5)

    def finish(self, *, timeout_s: float = 120) -> None:
        """Write no more, and wait until all records are accepted."""
        self._end_producer()
        deadline = time.monotonic() + timeout_s
        while list((lags := self._lags()).values()) != [0] * self._partitions:
            assert time.monotonic() < deadline, f"lags: {lags}"
            time.sleep(1)
        self.close()

    def close(self) -> None:
        self._end_producer()
        while self._running:
            self._running.pop().kill()

    def check(self) -> str:
        """Each record was delivered, and none after it was accepted. Return a summary."""
        accepted = Counter(offset for member in self._all for offset in member.accepted())
        received = Counter(offset for member in self._all for offset in member.received())
        failures = Counter(failure for member in self._all for failure in member.failures())
        written = {(partition, offset) for partition, end in self._written.items() for offset in range(end)}
        assert received.keys() == written
        assert max(accepted.values()) == 1
        assert len(accepted) > len(written) / 2
        again = received.total() - len(received)
        return f"{len(written)} records, {again} delivered again, {len(written) - len(accepted)} unclear, {failures}"

    def _produce(self) -> None:
        def on_delivery(error: KafkaError | None, message: Message) -> None:
            assert error is None
            self._written[message.partition() or 0] += 1

        producer = Producer({"bootstrap.servers": self._bootstrap, "enable.idempotence": True, "linger.ms": 20})
        for number in count():
            if self._ends.is_set():
                break
            partition = number % self._partitions
            producer.produce(self._topic, f"job-{number}", partition=partition, on_delivery=on_delivery)
            producer.poll(0.01)
        assert producer.flush(60) == 0

    def _end_producer(self) -> None:
        self._ends.set()
        self._producing.join()

    def _lags(self) -> dict[TopicPartition, int | None]:
        with SyncAdminClient(self._bootstrap) as admin:
            offsets = admin.list_share_group_offsets([GROUP])[GROUP].raise_for_errors()
        return {partition: offset.lag for partition, offset in offsets.items()}


@contextmanager
def share_work(bootstrap: str, topic: str, partitions: int, folder: Path, *, members: int) -> Iterator[ShareWork]:
    work = ShareWork(bootstrap, topic, partitions, folder)
    work.start(members)
    try:
        yield work
    finally:
        work.close()
