"""``cluster rebalance`` and ``cluster drain`` on three real Kafka brokers and on three of ours, also when
interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Consumer, Producer

from barnabas.clients.admin import NewTopic, SyncAdminClient
from barnabas.clients.admin.config_entries import ConfigResource
from tests.peers import KafkaNode, require_peer
from tests.peers.mixed import OurBroker, RealBroker
from tests.peers.node_process import NodeProcess
from tests.peers.quorums import OurController, new_quorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(240)]

BARNABAS = str(Path(sys.executable).parent / "barnabas")
JVM = ("-Xmx384m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")
OURS, KAFKA = "barnabas", "kafka"
SETTINGS = {"replica.fetch.wait.max.ms": "50", "auto.leader.rebalance.enable": "false"}
RECORDS, SIZE = 600, 20_000


class Cluster(NamedTuple):
    nodes: tuple[NodeProcess, ...]

    @property
    def bootstrap_servers(self) -> str:
        return self.nodes[0].bootstrap_servers

    def command(self, *words: str) -> list[str]:
        return [BARNABAS, "cluster", *words, "--bootstrap-server", self.bootstrap_servers]

    def run(self, *words: str) -> dict[str, Any]:
        done = subprocess.run(
            [*self.command(*words), "-o", "json"], capture_output=True, text=True, timeout=90, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return dict(json.loads(done.stdout))


@pytest.fixture(params=[KAFKA, OURS])
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Cluster]:
    racks = [{"broker.rack": rack, **SETTINGS} for rack in "abc"]
    with ExitStack() as stack:
        nodes: list[NodeProcess] = []
        if request.param == OURS:
            quorum = new_quorum(tmp_path, [OurController])
            stack.callback(quorum.kill)
            quorum.start()
            at = {"controllers": quorum.servers, "cluster_id": quorum.cluster_id}
            nodes += [OurBroker(tmp_path / str(n), n, settings=racks[n - 1], **at) for n in (1, 2, 3)]
        else:
            require_peer()
            first = KafkaNode(tmp_path / "1", settings=racks[0], jvm=JVM)
            first.start()
            stack.callback(first.kill)
            lines = next((tmp_path / "1").glob("**/meta.properties")).read_text().splitlines()
            meta = dict(line.split("=", 1) for line in lines if "=" in line)
            at = {"controllers": f"127.0.0.1:{first.controller_port}", "cluster_id": meta["cluster.id"]}
            more = [
                RealBroker(tmp_path / str(n), n, settings=racks[n - 1], jvm=JVM, own_process=True, **at) for n in (2, 3)
            ]
            for broker in more:
                broker.format()
            nodes += [first, *more]
        for node in nodes:
            stack.callback(node.kill)
            if not node.printed():
                node.start()
        yield Cluster(tuple(nodes))


def fill(cluster: Cluster) -> None:
    with SyncAdminClient(cluster.bootstrap_servers) as admin:
        wait_until(lambda: len(admin.describe_cluster().nodes) == 3, what="three brokers")
        topics = [
            NewTopic("one", assignments=[[1]] * 6),
            NewTopic("two", assignments=[[1, 2]] * 3),
        ]
        admin.create_topics(topics, wait=True).raise_for_errors()
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20, "acks": "all"})
    for number in range(RECORDS):
        for topic, partitions in (("one", 6), ("two", 3)):
            producer.produce(topic, f"{number} ".encode().ljust(SIZE, b"x"), partition=number % partitions)
        producer.poll(0)
    assert producer.flush(60) == 0


def replicas(cluster: Cluster) -> dict[tuple[str, int], tuple[int, ...]]:
    with SyncAdminClient(cluster.bootstrap_servers) as admin:
        found = admin.describe_topics(["one", "two"]).values.values()
    return {(topic.name, partition.partition): partition.replicas for topic in found for partition in topic.partitions}


def throttled(cluster: Cluster) -> list[str]:
    resources = [*map(ConfigResource.topic, ("one", "two")), *map(ConfigResource.broker, (1, 2, 3))]
    with SyncAdminClient(cluster.bootstrap_servers) as admin:
        found = admin.describe_configs(resources).values.values()
    return [name for config in found for name, entry in config.entries.items() if "throttled" in name and entry.value]


def numbers(cluster: Cluster, topic: str) -> list[int]:
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "none", "auto.offset.reset": "earliest"}
    )
    from confluent_kafka import TopicPartition

    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(6 if topic == "one" else 3)])
    found: list[int] = []
    until = time.monotonic() + 30
    while len(found) < RECORDS and time.monotonic() < until:
        found += [int(message.value().split()[0]) for message in consumer.consume(100, 0.5) if message.error() is None]
    consumer.close()
    return sorted(found)


def stop_in_the_middle(cluster: Cluster, number: signal.Signals, *words: str) -> int:
    """Send a signal to a command while a partition is moving. Return its exit status."""
    process = subprocess.Popen(cluster.command(*words), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    try:
        with SyncAdminClient(cluster.bootstrap_servers) as admin:
            wait_until(lambda: bool(admin.list_partition_reassignments()), what="a move")
        process.send_signal(number)
        return process.wait(20)
    finally:
        process.kill()
        process.communicate()


def test_a_rebalance_and_a_drain_finish_despite_interruptions(cluster: Cluster) -> None:
    fill(cluster)
    planned = cluster.run("rebalance", "--dry-run")
    assert [(broker["id"], broker["replicas"], broker["replicas_after"]) for broker in planned["brokers"]] == [
        (1, 9, 4), (2, 3, 4), (3, 0, 4)
    ]  # fmt: skip
    slow = ("--throttle", "400000", "--at-once", "1")
    assert stop_in_the_middle(cluster, signal.SIGINT, "rebalance", *slow) == 130
    assert throttled(cluster)
    assert stop_in_the_middle(cluster, signal.SIGKILL, "rebalance", *slow) == -signal.SIGKILL
    done = cluster.run("rebalance", "--throttle", "50000000")
    assert 0 < done["replicas_to_copy"] <= planned["replicas_to_copy"]
    placed = replicas(cluster)
    assert Counter(broker for brokers in placed.values() for broker in brokers) == {1: 4, 2: 4, 3: 4}
    assert set(Counter(brokers[0] for brokers in placed.values()).values()) == {3}
    assert throttled(cluster) == []
    assert cluster.run("rebalance")["moves"] == []

    assert stop_in_the_middle(cluster, signal.SIGKILL, "drain", "3", *slow) == -signal.SIGKILL
    cluster.run("drain", "3", "--cancel")
    assert throttled(cluster) == []
    cluster.run("drain", "3", "--cordon")
    with SyncAdminClient(cluster.bootstrap_servers) as admin:
        admin.create_topics([NewTopic("new", partitions=6, replication_factor=2)], wait=True).raise_for_errors()
        (made,) = admin.describe_topics(["new"]).values.values()
    assert {replica for partition in made.partitions for replica in partition.replicas} == {1, 2}
    placed = replicas(cluster)
    assert {broker for brokers in placed.values() for broker in brokers} == {1, 2}
    cluster.nodes[2].stop()
    for topic in ("one", "two"):
        assert numbers(cluster, topic) == list(range(RECORDS))
