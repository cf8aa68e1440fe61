"""``barnabas cluster rebalance|drain``: the displayed plan, the requests to the cluster, and the progress."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from barnabas.cli.arguments.partition_files import read_moves
from barnabas.cli.cluster.command import main
from barnabas.clients.admin import (
    ClusterDescription,
    Config,
    ConfigEntry,
    ConfigResource,
    ConfigResourceType,
    ConfigSource,
    LogDirDescription,
    Node,
    PartitionReassignment,
    ReplicaInfo,
    Results,
    TopicDescription,
    TopicPartitionInfo,
)
from barnabas.clients.admin.errors import OperationTimedOut
from barnabas.common.config_value import ConfigType
from barnabas.common.topic_partition import TopicPartition
from barnabas.common.uuid import Uuid
from tests.unit.cli.conftest import FakeAdmin

MIB = 1 << 20
RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")


class Cluster:
    """Brokers 1 to 3, partitions, settings, and moves that end after ``polls_needed`` listings."""

    def __init__(self, admin: FakeAdmin, replicas: Mapping[str, Sequence[tuple[int, ...]]]) -> None:
        self.alive = {1: "a", 2: "b", 3: "c"}
        self.replicas = {
            TopicPartition(name, index): brokers
            for name, all_ in replicas.items()
            for index, brokers in enumerate(all_)
        }
        self.leaders: dict[TopicPartition, int | None] = {
            partition: brokers[0] for partition, brokers in self.replicas.items()
        }
        self.settings: dict[ConfigResource, dict[str, str]] = {}
        self.under_way: dict[TopicPartition, tuple[int, ...]] = {}
        self.polls_needed, self.polls = 1, 0
        self.most_at_once = 0
        self.begun: list[TopicPartition] = []
        self.usable = 1 << 40
        self.cordoned: set[int] = set()
        admin.topics = sorted(replicas)
        for name in (
            "describe_cluster", "describe_topics", "describe_log_dirs", "list_partition_reassignments",
            "alter_partition_reassignments", "describe_configs", "incremental_alter_configs", "elect_leaders",
        ):  # fmt: skip
            getattr(admin.mock, name).side_effect = getattr(self, name)

    async def describe_cluster(self, **_: Any) -> ClusterDescription:
        nodes = tuple(Node(broker, f"host-{broker}", 9092, rack) for broker, rack in self.alive.items())
        return ClusterDescription("id", nodes, nodes[0])

    async def describe_topics(self, names: Sequence[str]) -> Results[Any, Any]:
        return Results({name: self._topic(name) for name in names}, {})

    def _topic(self, name: str) -> TopicDescription:
        partitions = tuple(
            TopicPartitionInfo(topic_partition.partition, self.leaders[topic_partition], brokers, brokers)
            for topic_partition, brokers in sorted(self.replicas.items())
            if topic_partition.topic == name
        )
        return TopicDescription(name, Uuid.from_int(1 << 90), False, partitions)

    async def describe_log_dirs(self, brokers: Any, **_: Any) -> Results[int, Any]:
        def directory(broker: int) -> LogDirDescription:
            held = {
                partition: ReplicaInfo(10 * MIB, 0, False)
                for partition, replicas in self.replicas.items()
                if broker in replicas
            }
            return LogDirDescription(held, 1 << 41, self.usable, broker in self.cordoned)

        return Results({broker: {"/data": directory(broker)} for broker in brokers}, {})

    async def list_partition_reassignments(self, *_: Any) -> dict[TopicPartition, PartitionReassignment]:
        self.polls += 1
        if self.polls > self.polls_needed:
            for partition, brokers in self.under_way.items():
                self.replicas[partition] = brokers
                if self.leaders[partition] not in brokers:
                    self.leaders[partition] = brokers[0]
            self.under_way.clear()
        return {partition: self._reassignment_of(partition) for partition in self.under_way}

    def _reassignment_of(self, partition: TopicPartition) -> PartitionReassignment:
        now, then = self.replicas[partition], self.under_way[partition]
        adding = tuple(broker for broker in then if broker not in now)
        return PartitionReassignment((*then, *(b for b in now if b not in then)), adding, tuple(set(now) - set(then)))

    async def alter_partition_reassignments(self, moves: Mapping[TopicPartition, Any], **_: Any) -> Results[Any, None]:
        self.polls = 0
        self.begun += moves
        for partition, brokers in moves.items():
            if brokers is None:
                self.under_way.pop(partition)
            else:
                self.under_way[partition] = tuple(brokers)
        self.most_at_once = max(self.most_at_once, len(self.under_way))
        return Results(dict.fromkeys(moves), {})

    async def describe_configs(self, resources: Sequence[ConfigResource], *, keys: Sequence[str]) -> Results[Any, Any]:
        return Results({resource: Config(resource, self._entries(resource, keys)) for resource in resources}, {})

    def _entries(self, resource: ConfigResource, keys: Sequence[str]) -> dict[str, ConfigEntry]:
        is_topic = resource.type == ConfigResourceType.TOPIC
        source = ConfigSource.TOPIC_CONFIG if is_topic else ConfigSource.DYNAMIC_BROKER_CONFIG
        own = self.settings.get(resource, {})
        return {
            key: ConfigEntry(key, own[key], source, False, False, type=ConfigType.STRING) for key in keys if key in own
        }

    async def incremental_alter_configs(self, changes: Any, *, validate_only: bool = False) -> Results[Any, None]:
        for resource, ops in changes.items():
            for op in ops if not validate_only else ():
                own = self.settings.setdefault(resource, {})
                if op.value is None:
                    own.pop(op.name, None)
                else:
                    own[op.name] = op.value
        return Results(dict.fromkeys(changes), {})

    async def elect_leaders(self, kind: Any, partitions: Sequence[TopicPartition], **_: Any) -> Results[Any, bool]:
        values = {partition: self.leaders[partition] != self.replicas[partition][0] for partition in partitions}
        self.leaders |= {partition: self.replicas[partition][0] for partition in partitions}
        return Results(values, {})

    def own_settings(self) -> dict[ConfigResource, dict[str, str]]:
        return {resource: settings for resource, settings in self.settings.items() if settings}


@pytest.fixture(autouse=True)
def no_sleep(monkeypatch: pytest.MonkeyPatch) -> None:
    real = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _: real(0))


@pytest.fixture
def crowded(admin: FakeAdmin) -> Cluster:
    return Cluster(admin, {"orders": [(1,)] * 6})


def counts(cluster: Cluster) -> dict[int, int]:
    return {broker: sum(broker in brokers for brokers in cluster.replicas.values()) for broker in cluster.alive}


def test_a_dry_run_shows_the_plan_and_changes_nothing(crowded: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rebalance", "--dry-run", "--throttle", str(5 * MIB)]) == 0
    captured = capsys.readouterr()
    lines = [line.split("  ") for line in captured.out.splitlines()]
    assert lines[0] == ["4 partitions to move, 40.0 MiB to copy"]
    rows = [[cell.strip() for cell in line if cell] for line in lines[2:5]]
    assert rows[0] == ["1", "6 -> 2", "6 -> 2", "60.0 MiB -> 20.0 MiB", "4", "40.0 MiB", "a"]
    assert rows[1] == ["2", "0 -> 2", "0 -> 2", "0 B -> 20.0 MiB", "2 (20.0 MiB)", "b"]
    assert "at 5242880 bytes/s for each broker, this takes about 8 s" in captured.err
    assert "nothing was changed" in captured.err
    assert (crowded.begun, crowded.own_settings()) == ([], {})


def test_a_plan_can_be_saved_as_a_file_for_reassign(
    crowded: Cluster, tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rebalance", "--dry-run", "-o", "json"]) == 0
    out = capsys.readouterr().out
    document = json.loads(out)
    (tmp_path / "plan.json").write_text(out)
    assert len(read_moves(str(tmp_path / "plan.json"), "--file")) == document["replicas_to_copy"] == 4
    assert document["bytes_to_copy"] == 40 * MIB
    assert [(row["id"], row["replicas_added"], row["replicas_removed"]) for row in document["brokers"]] == [
        (1, 0, 4),
        (2, 2, 0),
        (3, 2, 0),
    ]


def test_moves_run_under_a_throttle_that_is_removed_afterwards(
    crowded: Cluster, admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[dict[ConfigResource, dict[str, str]]] = []

    async def record_settings(moves: Any, **more: Any) -> Results[Any, None]:
        seen.append({resource: dict(settings) for resource, settings in crowded.settings.items()})
        return await crowded.alter_partition_reassignments(moves, **more)

    admin.mock.alter_partition_reassignments.side_effect = record_settings
    assert main(["rebalance", "--throttle", "5000"]) == 0
    (held,) = seen
    assert all(held[ConfigResource.broker(broker)] == dict.fromkeys(RATES, "5000") for broker in (1, 2, 3))
    topic = held[ConfigResource.topic("orders")]
    moved = sorted((moved_partition.partition, *crowded.replicas[moved_partition]) for moved_partition in crowded.begun)
    assert topic["leader.replication.throttled.replicas"] == ",".join(f"{partition}:1" for partition, _ in moved)
    assert topic["follower.replication.throttled.replicas"] == ",".join(f"{partition}:{to}" for partition, to in moved)
    assert counts(crowded) == {1: 2, 2: 2, 3: 2}
    assert "4 partitions were moved" in capsys.readouterr().err
    assert crowded.own_settings() == {}


def test_the_number_of_concurrent_moves_is_limited(crowded: Cluster) -> None:
    assert main(["rebalance", "--at-once", "1"]) == 0
    assert crowded.most_at_once == 1
    assert counts(crowded) == {1: 2, 2: 2, 3: 2}


def test_a_stopped_rebalance_resumes_with_its_throttle(
    crowded: Cluster, admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second command plans from the target replicas of the first command's moves."""
    crowded.polls_needed = 1 << 30
    assert main(["rebalance", "--throttle", "5000", "--timeout", "0.001", "--at-once", "2"]) == 1
    captured = capsys.readouterr()
    assert "partitions were moved within 0.001 s" in captured.err
    assert "run the same command to make the remaining moves" in captured.err
    first = list(crowded.begun)
    assert 1 <= len(first) <= 2
    assert crowded.settings[ConfigResource.broker(1)] == dict.fromkeys(RATES, "5000")
    crowded.polls_needed = 1
    assert main(["rebalance"]) == 0
    assert "the existing throttle stays: 5000 bytes/s" in capsys.readouterr().err
    assert sorted(crowded.begun) == sorted(set(crowded.begun))
    assert counts(crowded) == {1: 2, 2: 2, 3: 2}
    assert crowded.own_settings() == {}
    assert main(["rebalance"]) == 0
    assert "no moves are needed" in capsys.readouterr().err


def test_a_leftover_throttle_is_removed_even_if_nothing_moves(admin: FakeAdmin) -> None:
    cluster = Cluster(admin, {"orders": [(1,), (2,), (3,)]})
    cluster.settings[ConfigResource.topic("orders")] = {"follower.replication.throttled.replicas": "0:1"}
    cluster.settings[ConfigResource.broker(2)] = dict.fromkeys(RATES, "5000")
    assert main(["rebalance"]) == 0
    assert cluster.own_settings() == {}


def test_a_permanent_throttle_is_not_changed(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(admin, {"orders": [(1,)] * 3, "slow": [(1,)]})
    cluster.settings[ConfigResource.topic("slow")] = {"follower.replication.throttled.replicas": "*"}
    cluster.settings[ConfigResource.broker(2)] = dict.fromkeys(RATES, "5000")
    assert main(["rebalance", "--throttle", "70000"]) == 1
    assert "slow has a permanent throttle" in capsys.readouterr().err
    assert cluster.begun == []
    assert main(["rebalance"]) == 0
    assert len(cluster.own_settings()) == 2


def test_a_timeout_during_a_move_reports_that_not_all_partitions_moved(
    crowded: Cluster, admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.mock.alter_partition_reassignments.side_effect = OperationTimedOut("no node answered")
    assert main(["rebalance"]) == 1
    captured = capsys.readouterr()
    assert "no node answered" in captured.err
    assert "not all partitions were moved" in captured.err


def test_cancelling_moves_removes_their_throttle(crowded: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    crowded.polls_needed = 1 << 30
    assert main(["rebalance", "--throttle", "5000", "--timeout", "0.001"]) == 1
    capsys.readouterr()
    assert main(["rebalance", "--cancel", "--dry-run"]) == 0
    assert "would be cancelled" in capsys.readouterr().out
    assert crowded.under_way
    assert main(["rebalance", "--cancel"]) == 0
    assert "throttle ended" in capsys.readouterr().out
    assert (crowded.under_way, crowded.own_settings()) == ({}, {})
    assert main(["drain", "3", "--cancel"]) == 0
    assert "no moves are in progress" in capsys.readouterr().err


def test_preferred_leaders_are_elected_where_no_replica_moves(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(admin, {"orders": [(1, 2), (2, 3), (3, 1)]})
    cluster.leaders[TopicPartition("orders", 2)] = 1
    assert main(["rebalance"]) == 0
    assert "0 partitions were moved, 1 leaders elected" in capsys.readouterr().err
    assert cluster.leaders[TopicPartition("orders", 2)] == 3


def test_a_broker_is_drained(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(admin, {"orders": [(1, 2), (2, 3), (3, 1)], "one": [(3,)]})
    assert main(["drain", "3", "--throttle", "5000"]) == 0
    assert "broker 3 has no replicas: stop it, then 'barnabas cluster unregister'" in capsys.readouterr().err
    assert counts(cluster)[3] == 0
    assert all(len(set(brokers)) == len(brokers) for brokers in cluster.replicas.values())
    assert cluster.own_settings() == {}
    assert TopicPartition("orders", 0) not in cluster.begun


def test_a_drained_broker_stays_cordoned_until_the_drain_is_cancelled(admin: FakeAdmin) -> None:
    cluster = Cluster(admin, {"one": [(3,)]})
    assert main(["drain", "3", "--cordon", "--dry-run"]) == 0
    assert cluster.own_settings() == {}
    assert main(["drain", "3", "--cordon"]) == 0
    assert counts(cluster)[3] == 0
    assert cluster.own_settings() == {ConfigResource.broker(3): {"cordoned.log.dirs": "*"}}
    assert main(["drain", "3", "--cordon"]) == 0
    assert main(["drain", "3", "--cordon", "--cancel", "--dry-run"]) == 0
    assert cluster.own_settings()
    assert main(["drain", "3", "--cordon", "--cancel"]) == 0
    assert cluster.own_settings() == {}


def test_a_drain_that_is_impossible_is_refused_before_anything_moves(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(admin, {"orders": [(1, 2, 3)], "lost": [(3,)]})
    assert main(["drain", "3"]) == 1
    assert "orders-0 has 3 replicas, and no other broker is left for the one on 3" in capsys.readouterr().err
    assert main(["drain", "7"]) == 1
    assert "this broker does not exist" in capsys.readouterr().err
    del cluster.alive[3]
    cluster.leaders[TopicPartition("lost", 0)] = None
    assert main(["drain", "3"]) == 1
    assert "lost-0: the partition has no leader, so it can't be copied from 3" in capsys.readouterr().err
    assert main(["drain", "3", "--broker-list", "1,3"]) == 2
    assert cluster.begun == []


def test_disks_that_are_too_small_are_not_filled(crowded: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    crowded.usable = MIB
    assert main(["rebalance"]) == 1
    assert "broker 2: it would receive 20.0 MiB, but has only 1.0 MiB free" in capsys.readouterr().err
    assert crowded.begun == []


def test_cordoned_brokers_receive_no_replicas(crowded: Cluster) -> None:
    crowded.cordoned = {3}
    assert main(["rebalance"]) == 0
    assert counts(crowded) == {1: 3, 2: 3, 3: 0}


def test_only_the_named_topics_and_brokers_are_rebalanced(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(admin, {"orders": [(1,)] * 3, "payments": [(1,)] * 3})
    assert main(["rebalance", "--topic", "orders", "--broker-list", "1,2"]) == 0
    assert {moved_partition.topic for moved_partition in cluster.begun} == {"orders"}
    assert counts(cluster)[3] == 0
    assert main(["rebalance", "--topic", "order"]) == 1
    assert "did you mean orders?" in capsys.readouterr().err
    assert main(["rebalance", "--broker-list", "1,9"]) == 1
    assert "broker 9 is not alive" in capsys.readouterr().err
    cluster.alive[2] = None
    assert main(["rebalance"]) == 1
    assert "brokers 2 have no rack, but others do" in capsys.readouterr().err
    assert main(["rebalance", "--disable-rack-aware"]) == 0
