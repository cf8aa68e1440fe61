"""Share groups while members and brokers are killed: each record is accepted, and none is delivered after that.

The members are processes of Kafka's VerifiableShareConsumer. The seed of the faults is printed, and drawn anew if none
is given.
"""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import count
from pathlib import Path
from random import Random, SystemRandom
from threading import Event, Thread

import pytest
from confluent_kafka import KafkaError, Message, Producer

from barnabas.clients.admin import SyncAdminClient
from barnabas.common.topic_partition import TopicPartition
from barnabas.testing import Cluster
from tests.peers.verifiable_share_consumer import VerifiableShareConsumer

pytestmark = [pytest.mark.interop, pytest.mark.timeout(420)]

GROUP, TOPIC, PARTITIONS = "workers", "jobs", 4
FAULTS = int(os.environ.get("BARNABAS_SHARE_GROUPS_FAULTS", "6"))
SETTINGS = {
    "group.share.delivery.count.limit": "10",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.initialize.retry.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.min.session.timeout.ms": "10000",
    "group.share.session.timeout.ms": "10000",
    "group.share.min.record.lock.duration.ms": "3000",
    "group.share.record.lock.duration.ms": "3000",
    "share.coordinator.state.topic.num.partitions": "4",
}


class Members:
    """Three members, of which one after the other is replaced."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        self._folder = folder
        self._numbers = count()
        self.all: list[VerifiableShareConsumer] = []
        self.running: list[VerifiableShareConsumer] = []
        for _ in range(3):
            self.begin()

    def begin(self) -> None:
        member = VerifiableShareConsumer(self._bootstrap, TOPIC, GROUP, self._folder, f"member-{next(self._numbers)}")
        self.all.append(member)
        self.running.append(member)

    def await_progress(self) -> None:
        """Wait until one of those that run has accepted something more."""
        before = [len(member.accepted()) for member in self.running]
        deadline = time.monotonic() + 60
        while [len(member.accepted()) for member in self.running] == before:
            assert time.monotonic() < deadline, "no member has accepted anything for a minute"
            time.sleep(0.5)

    def kill_one(self, random: Random) -> None:
        self.running.pop(random.randrange(len(self.running))).kill()

    def kill_all(self) -> None:
        while self.running:
            self.running.pop().kill()


def produce(bootstrap: str, ends: Event) -> Counter[int]:
    """Write records until ``ends`` is set. Return how many each partition has."""
    written = Counter[int]()

    def on_delivery(error: KafkaError | None, message: Message) -> None:
        assert error is None
        written[message.partition() or 0] += 1

    producer = Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True, "linger.ms": 20})
    for number in count():
        if ends.is_set():
            break
        producer.produce(TOPIC, f"job-{number}", partition=number % PARTITIONS, on_delivery=on_delivery)
        producer.poll(0.01)
    assert producer.flush(60) == 0
    return written


def inject(cluster: Cluster, members: Members, random: Random) -> Iterator[str]:
    """Kill a member and a broker by turns, and start them again."""
    for number in range(FAULTS):
        time.sleep(random.uniform(1, 3))
        members.await_progress()
        if number % 2 == 0:
            members.kill_one(random)
            members.begin()
            yield "kill a member"
        else:
            broker = random.choice(cluster.brokers)
            broker.kill()
            time.sleep(random.uniform(0.2, 2))
            broker.start()
            yield f"kill broker {broker.node_id}"


def lags(cluster: Cluster) -> dict[TopicPartition, int | None]:
    with SyncAdminClient(cluster.bootstrap_servers) as admin:
        offsets = admin.list_share_group_offsets([GROUP])[GROUP].raise_for_errors()
    return {partition: offset.lag for partition, offset in offsets.items()}


def await_no_lag(cluster: Cluster) -> None:
    """Wait until all records are accepted."""
    deadline = time.monotonic() + 120
    while list((found := lags(cluster)).values()) != [0] * PARTITIONS:
        assert time.monotonic() < deadline, f"lags: {found}"
        time.sleep(1)


def test_no_record_is_lost_or_delivered_after_it_was_accepted(tmp_path: Path, kafka_peer: Path) -> None:
    seed = int(os.environ.get("BARNABAS_SHARE_GROUPS_SEED", SystemRandom().randrange(2**31)))
    print(f"seed {seed}; again: BARNABAS_SHARE_GROUPS_SEED={seed}")
    random, ends, results = Random(seed), Event(), list[Counter[int]]()
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster(3, topics={TOPIC: PARTITIONS}, settings=SETTINGS))
        producing = Thread(target=lambda: results.append(produce(cluster.bootstrap_servers, ends)))
        stack.callback(producing.join)
        stack.callback(ends.set)
        producing.start()
        members = Members(cluster.bootstrap_servers, tmp_path)
        stack.callback(members.kill_all)
        faults = list(inject(cluster, members, random))
        ends.set()
        producing.join()
        await_no_lag(cluster)
        members.kill_all()
        logs = [broker.log for broker in cluster.brokers]
    (written,) = results
    accepted = Counter(offset for member in members.all for offset in member.accepted())
    received = Counter(offset for member in members.all for offset in member.received())
    failures = Counter(failure for member in members.all for failure in member.failures())
    unclear = received.keys() - accepted.keys()
    print(f"{written.total()} records, {len(unclear)} unclear, {failures}, faults: {', '.join(faults)}")
    assert received.keys() == {(partition, offset) for partition in written for offset in range(written[partition])}
    assert max(accepted.values()) == 1
    assert len(accepted) > written.total() / 2
    assert received.total() > len(received), "some were delivered again"
    assert not [log for log in logs if "Traceback" in log]
