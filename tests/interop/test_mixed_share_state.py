"""Share state in a cluster of Kafka's broker and ours: it moves between their coordinators, and survives kills.

Kafka's broker leads the share-partitions and coordinates the share groups; the state is on either broker.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from confluent_kafka import Producer

from barnabas.broker.share_state_messages import reads, states
from barnabas.clients.admin import NewTopic, SyncAdminClient
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_name import SHARE_STATE_TOPIC
from barnabas.common.uuid import Uuid
from barnabas.coordinator.partitioner import coordinator_partition
from barnabas.coordinator.share.persister import (
    SharePartitionKey,
    SharePartitionState,
    SharePartitionSummary,
    StateBatch,
    StateWrite,
)
from tests.interop.raw_client import RawClient
from tests.peers import run_class
from tests.peers.command_node import CommandNode
from tests.peers.java import run_source
from tests.peers.mixed import OurBroker, RealBroker
from tests.peers.quorums import OurController, Quorum, running_quorum, wait_until
from tests.peers.share_state_client import ShareStateClient, settle

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

KAFKA, OURS = 1, 2
PARTITIONS = 4
SETTINGS = {
    "share.coordinator.state.topic.num.partitions": str(PARTITIONS),
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
}
IN_CLUSTER = {
    **SETTINGS,
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "1",
    "replica.lag.time.max.ms": "3000",
    "broker.session.timeout.ms": "3000",
}
ALONE = "alone"
Found = dict[SharePartitionKey, tuple[SharePartitionState, SharePartitionSummary]]


class Both:
    """A controller of ours, a broker of Kafka's and one of ours."""

    def __init__(self, quorum: Quorum, folder: Path) -> None:
        named = {"controllers": quorum.servers, "cluster_id": quorum.cluster_id, "settings": IN_CLUSTER}
        self.kafka = RealBroker(folder / "kafka", KAFKA, own_process=True, **named)  # type: ignore[arg-type]
        self.ours = OurBroker(folder / "ours", OURS, **named)  # type: ignore[arg-type]
        self.kafka.start()
        self.ours.start()

    @property
    def nodes(self) -> dict[int, OurBroker | RealBroker]:
        return {KAFKA: self.kafka, OURS: self.ours}

    def prepare(self) -> None:
        """Create the topics: the state on both brokers, each of which leads a half, everything else on Kafka's."""
        placements: list[tuple[str, list[list[int]], dict[str, str]]] = [
            ("__consumer_offsets", [[KAFKA]], {"cleanup.policy": "compact"}),
            (
                SHARE_STATE_TOPIC,
                [[KAFKA, OURS]] * 2 + [[OURS, KAFKA]] * 2,
                {"cleanup.policy": "delete", "retention.ms": "-1", "min.insync.replicas": "1"},
            ),
            ("moved", [[KAFKA]] * 6, {}),
            ("queue", [[KAFKA]] * 2, {}),
        ]
        with SyncAdminClient(f"{self.kafka.bootstrap_servers},{self.ours.bootstrap_servers}") as admin:
            for name, assignments, configs in placements:
                admin.create_topics(
                    [NewTopic(name, configs=configs, assignments=assignments)], wait=True
                ).raise_for_errors()

    def leaders(self, asked: int) -> dict[int, int]:
        with closing(ShareStateClient(RawClient(self.nodes[asked].port))) as client:
            return {
                partition.partition_index: partition.leader_id
                for partition in client.metadata(SHARE_STATE_TOPIC).partitions
            }

    def wait_in_sync(self, asked: int) -> None:
        """Wait until both brokers have all of the state."""
        with closing(ShareStateClient(RawClient(self.nodes[asked].port))) as client:
            wait_until(
                lambda: all(
                    set(partition.isr_nodes) == {KAFKA, OURS}
                    for partition in client.metadata(SHARE_STATE_TOPIC).partitions
                ),
                what="all replicas are in sync",
                timeout_s=60,
            )

    def wait_led_by(self, asked: int, expected: dict[int, int]) -> None:
        wait_until(lambda: self.leaders(asked) == expected, what=f"{expected} lead", timeout_s=60)

    def topic_id(self, name: str, asked: int = OURS) -> Uuid:
        with closing(ShareStateClient(RawClient(self.nodes[asked].port))) as client:
            return client.metadata(name).topic_id


@pytest.fixture(scope="module")
def both(kafka_peer: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Both]:
    settings = {"broker.session.timeout.ms": "3000", "auto.leader.rebalance.enable": "false"}
    with running_quorum(tmp_path_factory.mktemp("controllers"), [OurController], settings=settings) as quorum:
        cluster = Both(quorum, tmp_path_factory.mktemp("brokers"))
        try:
            cluster.prepare()
            yield cluster
            assert "Traceback" not in cluster.ours.printed()
        finally:
            cluster.kafka.kill()
            cluster.ours.kill()


def write(number: int, *, leader_epoch: int, start: int) -> StateWrite:
    batch = StateBatch(start + number, start + number + 1, (0, 2, 4)[number % 3], 1 + number % 2)
    return StateWrite(2, leader_epoch, start, number, (batch,))


def settle_read(client: ShareStateClient, key: SharePartitionKey, leader_epoch: int = -1) -> None:
    settle(lambda: client.read(key, leader_epoch).error_code == 0, f"{key} cannot be read")


def fill(client: ShareStateClient, key: SharePartitionKey, *, leader_epoch: int) -> None:
    """Write as a leader does: read first, then write often enough for snapshots and updates."""
    settle_read(client, key, leader_epoch)
    for number in range(7 + key.partition):
        outcome = client.write(key, write(number, leader_epoch=leader_epoch, start=10 * leader_epoch))
        assert outcome.error_code == 0, outcome


def state_of(client: ShareStateClient, keys: list[SharePartitionKey]) -> Found:
    for key in keys:
        settle_read(client, key)
    return {key: (client.read(key), client.summary(key)) for key in keys}


def test_state_moves_between_the_brokers_both_ways(both: Both) -> None:
    topic_id = both.topic_id("moved")
    keys = [SharePartitionKey("mover", topic_id, partition) for partition in range(6)]
    leaders = both.leaders(OURS)
    led_by = {
        broker: [key for key in keys if leaders[coordinator_partition(key.coordinator_key, PARTITIONS)] == broker]
        for broker in (KAFKA, OURS)
    }
    assert led_by[KAFKA]
    assert led_by[OURS]
    before: Found = {}
    for broker, led in led_by.items():
        with closing(ShareStateClient(RawClient(both.nodes[broker].port))) as client:
            client.prepare(led)
            for key in led:
                assert client.initialize(key, state_epoch=2, start_offset=10).error_code == 0
                fill(client, key, leader_epoch=1)
            before |= state_of(client, led)

    for stopped, left, epoch in ((KAFKA, OURS, 2), (OURS, KAFKA, 3)):
        both.wait_in_sync(left)
        both.nodes[stopped].kill()
        both.wait_led_by(left, dict.fromkeys(range(PARTITIONS), left))
        with closing(ShareStateClient(RawClient(both.nodes[left].port))) as client:
            assert state_of(client, keys) == before
            for key in keys:
                fill(client, key, leader_epoch=epoch)
                assert client.write(key, write(0, leader_epoch=epoch - 1, start=0)).error_code == (
                    ErrorCode.FENCED_LEADER_EPOCH
                )
                assert client.initialize(key, state_epoch=1).error_code == ErrorCode.FENCED_STATE_EPOCH
            before = state_of(client, keys)
        both.nodes[stopped].start()
    both.wait_in_sync(KAFKA)
    elect_preferred(both)


def test_a_frozen_coordinator_does_not_show_old_state(both: Both) -> None:
    topic_id, leaders = both.topic_id("moved"), both.leaders(OURS)
    keys = (SharePartitionKey(f"frozen-{number}", topic_id, 0) for number in range(100))
    key = next(key for key in keys if leaders[coordinator_partition(key.coordinator_key, PARTITIONS)] == OURS)
    question = reads(key.group_id, [(key, -1)])
    with closing(ShareStateClient(RawClient(both.ours.port))) as client:
        client.prepare([key])
        client.initialize(key, state_epoch=2)
        assert client.read(key).error_code == 0
        both.wait_in_sync(KAFKA)
        both.ours.freeze()
        for _ in range(10):
            client.raw.send(question, 0)
        both.wait_led_by(KAFKA, dict.fromkeys(range(PARTITIONS), KAFKA))
        with closing(ShareStateClient(RawClient(both.kafka.port))) as kafka:
            settle_read(kafka, key)
            assert kafka.write(key, write(0, leader_epoch=-1, start=0)).error_code == 0
        both.ours.thaw()
        answers = {state.error_code for _ in range(10) for _, _, state in states(client.raw.receive())}
    assert answers == {ErrorCode.NOT_COORDINATOR}
    both.wait_in_sync(KAFKA)
    elect_preferred(both)


def elect_preferred(both: Both) -> None:
    run_class(
        "leader-election", "--bootstrap-server", both.kafka.bootstrap_servers, "--election-type", "preferred",
        "--all-topic-partitions",
    )  # fmt: skip
    both.wait_led_by(KAFKA, {0: KAFKA, 1: KAFKA, 2: OURS, 3: OURS})


def group_on(both: Both, broker: int) -> str:
    """Return a group whose state of both partitions of ``queue`` this broker coordinates."""
    topic_id, leaders = both.topic_id("queue"), both.leaders(KAFKA)
    for number in range(100):
        keys = [SharePartitionKey(f"readers-{number}", topic_id, partition) for partition in range(2)]
        coordinators = {leaders[coordinator_partition(key.coordinator_key, PARTITIONS)] for key in keys}
        if coordinators == {broker}:
            return f"readers-{number}"
    raise AssertionError(f"no group has all of its state on broker {broker}")


def consume(both: Both, group: str, count: int) -> list[tuple[str, int]]:
    output = run_source("ShareConsumer", both.kafka.bootstrap_servers, "queue", group, str(count), "60")
    found = [line.split() for line in output.splitlines() if line.startswith("record-")]
    return [(value, int(deliveries)) for value, deliveries in found]


def test_javas_share_consumer_of_a_group_whose_state_is_ours_sees_each_record_once(both: Both) -> None:
    producer = Producer({"bootstrap.servers": both.kafka.bootstrap_servers})
    for number in range(120):
        producer.produce("queue", f"record-{number}", partition=number % 2)
    producer.flush(20)
    group = group_on(both, OURS)
    first = consume(both, group, 50)
    both.wait_in_sync(KAFKA)
    both.ours.kill()
    both.wait_led_by(KAFKA, dict.fromkeys(range(PARTITIONS), KAFKA))
    second = consume(both, group, 30)
    both.ours.start()
    both.wait_in_sync(KAFKA)
    elect_preferred(both)
    third = consume(both, group, 40)
    seen = [value for value, _ in first + second + third]
    assert sorted(seen) == sorted(f"record-{number}" for number in range(120))
    assert max(deliveries for _, deliveries in first + second + third) > 1, "some were released and delivered again"

    shown = describe(both, group)
    assert [line[-1] for line in shown] == ["0", "0"], "nothing lags"
    tool = ("groups-share", "--bootstrap-server", both.kafka.bootstrap_servers, "--group", group)
    run_class(*tool, "--delete")
    with closing(ShareStateClient(RawClient(both.ours.port))) as client:
        key = SharePartitionKey(group, both.topic_id("queue"), 0)
        settle(lambda: client.read(key).error_code == ErrorCode.INVALID_REQUEST, "its state is not removed")


def describe(both: Both, group: str) -> list[list[str]]:
    """Return what Kafka's tool shows of the group's offsets: a line of words for each partition."""
    tool = ("groups-share", "--bootstrap-server", both.kafka.bootstrap_servers)
    output = run_class(*tool, "--describe", "--offsets", "--group", group).stdout
    return [line.split() for line in output.splitlines() if line.startswith(group)]


# --- a node alone


def test_state_survives_kill_9(tmp_path: Path) -> None:
    node = CommandNode(tmp_path, settings=SETTINGS)
    node.start()
    try:
        with closing(ShareStateClient(RawClient(node.port))) as client:
            topic_id = client.create_topic("queue", 6)
            keys = [SharePartitionKey(ALONE, topic_id, partition) for partition in range(6)]
            client.prepare(keys)
            for key in keys:
                client.initialize(key, state_epoch=2, start_offset=10)
                fill(client, key, leader_epoch=1)
            client.delete(keys.pop())
            before, records = state_of(client, keys), client.records()
        node.kill()
        node.start()
        with closing(ShareStateClient(RawClient(node.port))) as client:
            assert state_of(client, keys) == before
            assert {key: list(map(str, values)) for key, values in client.records().items()} == {
                key: list(map(str, values)) for key, values in records.items()
            }
            assert client.write(keys[0], write(0, leader_epoch=0, start=0)).error_code == ErrorCode.FENCED_LEADER_EPOCH
        assert "Traceback" not in node.printed()
    finally:
        node.end()
