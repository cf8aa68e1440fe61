"""Members of confluent-kafka-python read every record and keep what they commit, while the brokers of a cluster
restart one after the other."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import Consumer, ConsumerGroupTopicPartitions, KafkaError, KafkaException, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from barnabas.testing import Cluster
from tests.peers.quorums import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

TOPIC, PARTITIONS, MEMBERS = "orders", 6, 4
SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "1000",
    "group.consumer.min.heartbeat.interval.ms": "1000",
    "offsets.topic.num.partitions": "4",
}


class Worker:
    """A member in a thread; it commits what it has read before it reads on. ``read`` is shared by all."""

    def __init__(self, servers: str, protocol: str, read: list[int]) -> None:
        settings = {"group.id": protocol, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        if protocol == "classic":
            settings |= {"partition.assignment.strategy": "cooperative-sticky", "session.timeout.ms": "10000"}
        self.consumer = Consumer(
            {"bootstrap.servers": servers, "enable.auto.commit": False, "log_level": 0, **settings}
        )
        self.fatal: list[KafkaError] = []
        self._read = read
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.consumer.subscribe([TOPIC])
        self._thread.start()

    def _run(self) -> None:
        while not self._ends.is_set():
            self._read.extend(self._numbers())
            self._commit()
        self.consumer.close()

    def _numbers(self) -> Iterator[int]:
        for message in self.consumer.consume(50, 0.2):
            if message.error() is None:
                yield int(message.value() or b"")
            elif message.error().fatal():
                self.fatal.append(message.error())

    def _commit(self) -> None:
        """A refused commit is repeated later: the position is that of the member's next partitions."""
        try:
            self.consumer.commit(asynchronous=False)
        except KafkaException as error:
            if error.args[0].fatal():
                self.fatal.append(error.args[0])

    def end(self) -> None:
        self._ends.set()
        self._thread.join()


@contextmanager
def load(servers: str) -> Iterator[list[int]]:
    """Write numbers. The list has those that the cluster has acknowledged, and is complete after the block."""
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True, "log_level": 0})
    written: list[int] = []
    ends = threading.Event()

    def write() -> None:
        number = 0
        while not ends.wait(0.01):
            producer.produce(
                TOPIC,
                str(number),
                partition=number % PARTITIONS,
                on_delivery=lambda error, message: written.append(int(message.value())) if error is None else None,
            )
            producer.poll(0)
            number += 1

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    try:
        yield written
    finally:
        ends.set()
        thread.join()
        assert producer.flush(90) == 0


@pytest.mark.parametrize("protocol", [pytest.param("classic", marks=pytest.mark.long), "consumer"])
def test_nothing_is_lost_while_brokers_restart_one_by_one(protocol: str) -> None:
    read: list[int] = []
    with Cluster(3, topics={TOPIC: PARTITIONS}, settings=SETTINGS) as cluster:
        workers = [Worker(cluster.bootstrap_servers, protocol, read) for _ in range(MEMBERS)]
        try:
            with load(cluster.bootstrap_servers) as written:
                wait_until(lambda: len(read) > 100, what="the first records", timeout_s=60)
                for broker in cluster.brokers:
                    broker.restart()
                    await_more(read, written)
            wait_until(lambda: set(read) >= set(written), what="every record", timeout_s=90)
            committed = [0]
            wait_until(
                lambda: is_committed(cluster, protocol, committed), what="the commit of every record", timeout_s=60
            )
        finally:
            for worker in workers:
                worker.end()
        assert [worker.fatal for worker in workers] == [[] for _ in workers]
        assert not [broker.log for broker in cluster.brokers if "Traceback" in broker.log]


def await_more(read: list[int], written: list[int]) -> None:
    """Wait until the members have read more than was written so far."""
    count = len(written) + 100
    wait_until(lambda: len(read) > count, what="records after a restart", timeout_s=90)


def is_committed(cluster: Cluster, group: str, committed: list[int]) -> bool:
    """Return whether the offsets of the group are the ends of all partitions."""
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    consumer = Consumer({"bootstrap.servers": cluster.bootstrap_servers, "group.id": "ends"})
    partitions = [TopicPartition(TOPIC, partition) for partition in range(PARTITIONS)]
    ends = [consumer.get_watermark_offsets(partition, 30)[1] for partition in partitions]
    consumer.close()
    [found] = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group, partitions)]).values()
    committed[:] = [partition.offset for partition in found.result(30).topic_partitions]
    return committed == ends
