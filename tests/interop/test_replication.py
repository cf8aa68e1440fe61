"""Three replicas of each partition: clients of all kinds continue while leaders die, brokers restart and replicas move.
No acknowledged record is lost, no record of an idempotent producer exists twice, and in the end the logs of all
replicas are equal byte for byte. Brokers and controllers of ours, of Kafka's, and of both kinds in one cluster.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.history.clients import Client, HistoryProducer, HistoryReader, final_read
from tests.history.cluster import Cluster, Kinds, running_cluster
from tests.history.group_clients import CommittedOffsetsReader, GroupMember, committed_offsets
from tests.history.groups_check import GroupsCheck
from tests.history.java_clients import JavaConsumer, JavaProducer, decode_java
from tests.history.owners_check import OwnersCheck
from tests.history.python_clients import AiokafkaProducer, KafkaPythonProducer
from tests.history.records_check import RecordsCheck
from tests.history.register_check import Read
from tests.history.story import (
    check_equal_logs,
    create_replicated,
    kill_leader,
    leader,
    move_replicas,
    restart_one_by_one,
    wait_for_replicas,
)
from tests.peers import run_class
from tests.peers.quorums import wait_until

pytestmark = [
    pytest.mark.interop,
    # Warnings of the client libraries are not ours.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

TOPIC = "orders"
ALL = [[1, 2, 3], [2, 3, 1], [3, 1, 2]]
OURS: Kinds = (("ours",) * 3, ("ours",))
MIXED: dict[str, Kinds] = {
    "our controllers": (("ours", "kafka", "ours"), ("ours",)),
    "Kafka's controllers": (("kafka", "ours", "ours"), ("kafka",)),
}
GROUPS = {"group-a": "classic", "group-b": "consumer"}
"""The protocols of groups."""


class Load:
    """librdkafka's clients: producers, readers, and two groups whose members join and leave."""

    def __init__(self, cluster: Cluster, *, seed: int = 1, rate: int = 200) -> None:
        self._cluster = cluster
        self.records, self.groups, self.owners = RecordsCheck(), GroupsCheck(), OwnersCheck()
        servers, count = cluster.bootstrap_servers, len(ALL)
        self.producers = [
            HistoryProducer(servers, TOPIC, count, self.records, name=f"producer-{number}", rate=rate, seed=seed)
            for number in range(2)
        ]
        self._others: list[Client] = [
            HistoryReader(servers, TOPIC, count, self.records, name="reader", seed=seed, jumps=False),
            CommittedOffsetsReader(servers, TOPIC, count, self.groups, of=list(GROUPS), name="asker"),
        ]
        self._others += [
            GroupMember(servers, TOPIC, self.groups, self.owners, self.records, group=group, protocol=protocol,
                        name=f"{group}-{number}", seed=seed)
            for group, protocol in GROUPS.items()
            for number in range(2)
        ]  # fmt: skip

    @contextmanager
    def running(self) -> Iterator[None]:
        clients = [*self.producers, *self._others]
        for client in clients:
            client.start()
        try:
            wait_until(lambda: self.records.count_acknowledged > 0, what="an acknowledgement", timeout_s=30)
            yield
            acknowledged = self.records.count_acknowledged
            wait_until(lambda: self.records.count_acknowledged > acknowledged, what="another one", timeout_s=30)
        finally:
            for client in clients:
                client.ask_to_stop()
        for client in clients:
            client.stop()

    def check(self) -> None:
        servers = self._cluster.bootstrap_servers
        final_read(servers, TOPIC, range(len(ALL)), self.records, timeout_s=30)
        for group in GROUPS:
            began = time.monotonic()
            for partition, offset in committed_offsets(servers, group, TOPIC, len(ALL)).items():
                self.groups.final(group, partition, Read(offset, began, time.monotonic(), "the final read"))
        found = [*self.records.violations(), *self.groups.violations(), *self.owners.violations()]
        assert [str(violation) for violation in found][:10] == []
        assert [name for producer in self.producers for name in producer.counts if name.startswith("failed")] == []


@pytest.mark.timeout(90)
def test_clients_do_not_notice_the_death_of_a_leader(tmp_path: Path) -> None:
    with running_cluster(tmp_path, OURS) as cluster:
        create_replicated(cluster, TOPIC, ALL)
        load = Load(cluster)
        with load.running():
            kill_leader(cluster, TOPIC, away_s=0.5)
        load.check()
        assert check_equal_logs(cluster, [TOPIC]) > 20


@pytest.mark.long
@pytest.mark.timeout(400)
def test_clients_survive_failover_restarts_and_moves(tmp_path: Path) -> None:
    with running_cluster(tmp_path, OURS) as cluster:
        create_replicated(cluster, TOPIC, ALL)
        load = Load(cluster)
        with load.running():
            go_through_everything(cluster)
        load.check()
        assert check_equal_logs(cluster, [TOPIC]) > 100


def go_through_everything(cluster: Cluster) -> None:
    for partition in range(len(ALL)):
        kill_leader(cluster, TOPIC, partition)
    restart_one_by_one(cluster, [TOPIC])
    for replicas in ([[1, 2], [2, 3], [3, 1]], [[3, 2, 1], [1, 2, 3], [2, 1, 3]]):
        move_replicas(cluster, TOPIC, replicas)
    wait_for_replicas(cluster, [TOPIC])


@pytest.mark.long
@pytest.mark.timeout(400)
@pytest.mark.parametrize("kind", [KafkaPythonProducer, AiokafkaProducer])
def test_python_producers_survive_failover_too(
    kind: type[KafkaPythonProducer] | type[AiokafkaProducer], tmp_path: Path
) -> None:
    check = RecordsCheck()
    with running_cluster(tmp_path, OURS) as cluster:
        create_replicated(cluster, TOPIC, ALL)
        client = kind(cluster.bootstrap_servers, TOPIC, len(ALL), check, name="python")
        client.start()
        go_through_everything(cluster)
        client.stop()
        final_read(cluster.bootstrap_servers, TOPIC, range(len(ALL)), check, timeout_s=30)
    assert [str(violation) for violation in check.violations()] == []
    assert client.counts["acknowledged"] > 100


@pytest.mark.long
@pytest.mark.timeout(600)
def test_java_clients_survive_failover_too(kafka_peer: Path, tmp_path: Path) -> None:
    check = RecordsCheck()
    with running_cluster(tmp_path, OURS) as cluster:
        create_replicated(cluster, TOPIC, ALL)
        with java_clients(cluster.bootstrap_servers, check, tmp_path) as (producer, consumers):
            wait_until(
                lambda: all(consumer.counts["record_data"] for consumer in consumers), what="records", timeout_s=60
            )
            go_through_everything(cluster)
            producer.stop()
            sent = producer.counts["producer_send_success"]
            wait_until(
                lambda: all(consumer.counts["record_data"] >= sent for consumer in consumers), what="all", timeout_s=60
            )
            for consumer in consumers:
                consumer.stop()
        final_read(cluster.bootstrap_servers, TOPIC, range(len(ALL)), check, timeout_s=30, decoded=decode_java)
        assert check_equal_logs(cluster, [TOPIC]) > 100
    assert producer.errors == []
    assert [str(violation) for violation in check.violations()][:10] == []
    assert sent > 500


@contextmanager
def java_clients(
    bootstrap: str, check: RecordsCheck, folder: Path
) -> Iterator[tuple[JavaProducer, list[JavaConsumer]]]:
    """A producer, and two groups of one consumer each."""
    with ExitStack() as stack:
        producer = JavaProducer(bootstrap, TOPIC, check, folder, rate=200)
        stack.callback(producer.kill)
        consumers = []
        for group in GROUPS:
            consumer = JavaConsumer(bootstrap, TOPIC, check, folder, group=group, protocol="classic")
            stack.callback(consumer.kill)
            consumers.append(consumer)
        for client in (producer, *consumers):
            client.start()
        yield producer, consumers


@pytest.mark.long
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kinds", MIXED.values(), ids=MIXED)
def test_leaders_of_either_kind_have_followers_of_the_other(kafka_peer: Path, kinds: Kinds, tmp_path: Path) -> None:
    """Each of the three dies while it leads; records written meanwhile are copied in both directions."""
    with running_cluster(tmp_path, kinds) as cluster:
        create_replicated(cluster, TOPIC, ALL)
        load = Load(cluster)
        with load.running():
            for partition in range(len(ALL)):
                elect_preferred(cluster)
                kill_leader(cluster, TOPIC, partition)
            restart_one_by_one(cluster, [TOPIC])
            move_replicas(cluster, TOPIC, [[1, 2], [2, 3], [3, 1]])
            move_replicas(cluster, TOPIC, ALL)
        load.check()
        assert check_equal_logs(cluster, [TOPIC]) > 100


def elect_preferred(cluster: Cluster) -> None:
    """Elect preferred leaders with Kafka's own tool."""
    run_class("leader-election", "--bootstrap-server", cluster.bootstrap_servers, "--election-type", "preferred",
              "--all-topic-partitions")  # fmt: skip
    preferred = [replicas[0] for replicas in ALL]
    wait_until(lambda: leaders(cluster) == preferred, what="the preferred leaders", timeout_s=30)


def leaders(cluster: Cluster) -> list[int]:
    return [leader(cluster, TOPIC, partition).node_id for partition in range(len(ALL))]


@pytest.mark.long
@pytest.mark.timeout(300)
def test_kafka_s_tools_move_replicas_and_leaders_under_load(kafka_peer: Path, tmp_path: Path) -> None:
    with running_cluster(tmp_path, OURS) as cluster:
        create_replicated(cluster, TOPIC, ALL)
        load = Load(cluster)
        with load.running():
            reassign(cluster, tmp_path, [[1, 2], [3, 2], [1, 3]])
            assert leaders(cluster)[0] in (1, 2)
            reassign(cluster, tmp_path, ALL)
            elect_preferred(cluster)
        load.check()
        assert check_equal_logs(cluster, [TOPIC]) > 20


def reassign(cluster: Cluster, folder: Path, assignments: Sequence[Sequence[int]]) -> None:
    """Run ReassignPartitionsCommand: execute, then verify until it reports completion."""
    moves = [
        {"topic": TOPIC, "partition": number, "replicas": list(replicas)} for number, replicas in enumerate(assignments)
    ]
    plan = folder / "moves.json"
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    options = ("--bootstrap-server", cluster.bootstrap_servers, "--reassignment-json-file", str(plan))
    printed = run_class("reassign-partitions", *options, "--execute", "--throttle", "50000000").stdout
    assert "Successfully started partition reassignments" in printed

    def are_done() -> bool:
        printed = run_class("reassign-partitions", *options, "--verify").stdout
        return printed.count("is completed.") == len(moves)

    wait_until(are_done, what="the moves", timeout_s=60)
