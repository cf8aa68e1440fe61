"""Three brokers of ours: consumers read from the replica in their rack (KIP-392), moves obey a throttle (KIP-73)."""

from __future__ import annotations

import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from barnabas.clients.admin import AlterConfigOp, ConfigResource, NewTopic, SyncAdminClient
from barnabas.clients.admin import TopicPartition as AdminPartition
from tests.peers import run_class
from tests.peers.mixed import OurBroker, RealBroker
from tests.peers.quorums import OurController, new_quorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(180)]

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"
COUNT, SIZE = 300, 10_000


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[OurBroker]]:
    folder = tmp_path_factory.mktemp("racks")
    with ExitStack() as stack:
        quorum = new_quorum(folder, [OurController])
        stack.callback(quorum.kill)
        quorum.start()
        nodes = []
        for number, rack in enumerate("abc", 1):
            settings = {"broker.rack": rack, "replica.selector.class": SELECTOR}
            node = OurBroker(
                folder / str(number), number, controllers=quorum.servers, cluster_id=quorum.cluster_id,
                settings=settings,
            )  # fmt: skip
            node.start()
            stack.callback(node.end)
            nodes.append(node)
        with SyncAdminClient(nodes[0].bootstrap_servers) as admin:
            wait_until(lambda: len(admin.describe_cluster().nodes) == 3, what="three brokers")
            admin.create_topics([NewTopic("t", assignments=[[1, 2, 3]])], wait=True).raise_for_errors()
        fill(nodes[0].bootstrap_servers, "t")
        yield nodes


def fill(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(COUNT):
        producer.produce(topic, f"{number} ".encode().ljust(SIZE, b"x"), partition=0)
    assert producer.flush(30) == 0


def sent(node: OurBroker) -> float:
    """Return the bytes that a broker has sent to consumers."""
    return metric(node, "kafka_server_broker_topic_metrics_bytes_out_total")


def metric(node: OurBroker, name: str) -> float:
    with urllib.request.urlopen(f"http://127.0.0.1:{node.metrics_port}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    (value,) = (line.split()[-1] for line in lines if line.split()[0] == name)
    return float(value)


def librdkafka(bootstrap: str, rack: str, topic: str = "t", count: int = COUNT) -> list[int]:
    settings: dict[str, Any] = {"bootstrap.servers": bootstrap, "group.id": "g", "auto.offset.reset": "earliest"}
    consumer = Consumer(settings | {"client.rack": rack, "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    found: list[int] = []
    until = time.monotonic() + 20
    while len(found) < count and time.monotonic() < until:
        found += [int(message.value().split()[0]) for message in consumer.consume(100, 0.5) if message.error() is None]
    consumer.close()
    return found


@pytest.mark.parametrize(("rack", "by"), [("a", 1), ("b", 2), ("c", 3), ("elsewhere", 1)])
def test_librdkafka_reads_from_the_broker_in_its_rack(brokers: list[OurBroker], rack: str, by: int) -> None:
    before = [sent(node) for node in brokers]
    assert librdkafka(brokers[0].bootstrap_servers, rack) == list(range(COUNT))
    given = [sent(node) - earlier for node, earlier in zip(brokers, before, strict=True)]
    assert [count > COUNT * SIZE * 0.9 for count in given] == [number == by for number in (1, 2, 3)]
    assert sum(given) < COUNT * SIZE * 1.2


@pytest.mark.usefixtures("kafka_peer")
def test_java_reads_from_the_broker_in_its_rack(brokers: list[OurBroker], tmp_path: Path) -> None:
    before = sent(brokers[2])
    (tmp_path / "client.properties").write_text("client.rack=c\n")
    read = run_class(
        "console-consumer", "--bootstrap-server", brokers[0].bootstrap_servers, "--topic", "t", "--from-beginning",
        "--max-messages", str(COUNT), "--command-config", str(tmp_path / "client.properties"),
    ).stdout  # fmt: skip
    assert [int(line.split()[0]) for line in read.splitlines()] == list(range(COUNT))
    assert sent(brokers[2]) - before > COUNT * SIZE * 0.9


@pytest.mark.parametrize("side", ["leader", "follower"])
def test_a_move_obeys_the_throttle_of_either_side(brokers: list[OurBroker], side: str) -> None:
    topic, rate, size = f"slow-{side}", 1_000_000, 4_000_000
    partition = AdminPartition(topic, 0)
    with SyncAdminClient(brokers[0].bootstrap_servers) as admin:
        admin.create_topics([NewTopic(topic, assignments=[[1]])], wait=True).raise_for_errors()
        producer = Producer({"bootstrap.servers": brokers[0].bootstrap_servers, "batch.size": 100_000})
        for _ in range(size // 10_000):
            producer.produce(topic, b"x" * 10_000, partition=0)
        assert producer.flush(30) == 0
        throttled = {
            ConfigResource.topic(topic): [
                AlterConfigOp.set(f"{side}.replication.throttled.replicas", "0:1" if side == "leader" else "0:2")
            ],
            ConfigResource.broker(1 if side == "leader" else 2): [
                AlterConfigOp.set(f"{side}.replication.throttled.rate", str(rate))
            ],
        }
        admin.incremental_alter_configs(throttled, wait=True).raise_for_errors()
        began = time.monotonic()
        admin.alter_partition_reassignments({partition: [2]}).raise_for_errors()
        wait_until(lambda: not admin.list_partition_reassignments(), what="the end of the move", timeout_s=30)
        took = time.monotonic() - began
    assert metric(brokers[0 if side == "leader" else 1], f"kafka_server_{side}_replication_bytes_total") >= size
    # The first batches of up to a MiB arrive immediately, and a throttled fetch retries each half second.
    assert (size - (1 << 20)) / rate - 0.5 < took < size / rate + 4


@pytest.mark.usefixtures("kafka_peer")
def test_followers_of_either_kind_serve_partitions_led_by_the_other(tmp_path: Path) -> None:
    with ExitStack() as stack:
        quorum = new_quorum(tmp_path, [OurController])
        stack.callback(quorum.kill)
        quorum.start()
        at = {"controllers": quorum.servers, "cluster_id": quorum.cluster_id}
        theirs = RealBroker(
            tmp_path / "1",
            1,
            controllers=quorum.servers,
            cluster_id=quorum.cluster_id,
            settings={"broker.rack": "a", "replica.selector.class": SELECTOR},
        )
        theirs.format()
        ours = OurBroker(tmp_path / "2", 2, settings={"broker.rack": "b", "replica.selector.class": SELECTOR}, **at)
        for node in (ours, theirs):
            node.start()
            stack.callback(node.end)
        with SyncAdminClient(ours.bootstrap_servers) as admin:
            wait_until(lambda: len(admin.describe_cluster().nodes) == 2, what="two brokers")
            topics = [NewTopic("theirs", assignments=[[1, 2]]), NewTopic("ours", assignments=[[2, 1]])]
            admin.create_topics(topics, wait=True).raise_for_errors()
        for topic, rack, is_given_by_us in (("theirs", "b", True), ("ours", "a", False)):
            fill(ours.bootstrap_servers, topic)
            before = sent(ours)
            assert librdkafka(ours.bootstrap_servers, rack, topic) == list(range(COUNT))
            assert (sent(ours) - before > COUNT * SIZE * 0.9) == is_given_by_us
