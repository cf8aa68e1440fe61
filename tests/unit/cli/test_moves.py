"""``barnabas cluster rebalance|drain``: the plan that is shown, what is asked of the cluster, and how it goes on."""

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
    """Brokers 1 to 3, partitions, settings, and moves that end after they were looked at ``lasts`` times."""

    def __init__(self, admin: FakeAdmin, replicas: Mapping[str, Sequence[tuple[int, ...]]]) -> None:
        self.alive = {1: "a", 2: "b", 3: "c"}
        self.replicas = {
            TopicPartition(name, index): brokers
            for name, all_ in replicas.items()
            for index, brokers in enumerate(all_)
        }
        self.leaders: dict[TopicPartition, int | None] = {each: brokers[0] for each, brokers in self.replicas.items()}
        self.settings: dict[ConfigResource, dict[str, str]] = {}
        self.under_way: dict[TopicPartition, tuple[int, ...]] = {}
        self.lasts, self.looked = 1, 0
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
        nodes = tuple(Node(each, f"host-{each}", 9092, rack) for each, rack in self.alive.items())
        return ClusterDescription("id", nodes, nodes[0])

    async def describe_topics(self, names: Sequence[str]) -> Results[Any, Any]:
        return Results({name: self._topic(name) for name in names}, {})

    def _topic(self, name: str) -> TopicDescription:
        partitions = tuple(
            TopicPartitionInfo(each.partition, self.leaders[each], brokers, brokers)
            for each, brokers in sorted(self.replicas.items())
            if each.topic == name
        )
        return TopicDescription(name, Uuid.from_int(1 << 90), False, partitions)

    async def describe_log_dirs(self, brokers: Any, **_: Any) -> Results[int, Any]:
        def directory(broker: int) -> LogDirDescription:
            held = {
                each: ReplicaInfo(10 * MIB, 0, False) for each, replicas in self.replicas.items() if broker in replicas
            }
            return LogDirDescription(held, 1 << 41, self.usable, broker in self.cordoned)

        return Results({broker: {"/data": directory(broker)} for broker in brokers}, {})

    async def list_partition_reassignments(self, *_: Any) -> dict[TopicPartition, PartitionReassignment]:
        self.looked += 1
        if self.looked > self.lasts:
            for each, brokers in self.under_way.items():
                self.replicas[each] = brokers
                if self.leaders[each] not in brokers:
                    self.leaders[each] = brokers[0]
            self.under_way.clear()
        return {each: self._going(each) for each in self.under_way}

    def _going(self, each: TopicPartition) -> PartitionReassignment:
        now, then = self.replicas[each], self.under_way[each]
        adding = tuple(broker for broker in then if broker not in now)
        return PartitionReassignment((*then, *(b for b in now if b not in then)), adding, tuple(set(now) - set(then)))

    async def alter_partition_reassignments(self, moves: Mapping[TopicPartition, Any], **_: Any) -> Results[Any, None]:
        self.looked = 0
        self.begun += moves
        for each, brokers in moves.items():
            if brokers is None:
                self.under_way.pop(each)
            else:
                self.under_way[each] = tuple(brokers)
        self.most_at_once = max(self.most_at_once, len(self.under_way))
        return Results(dict.fromkeys(moves), {})

    async def describe_configs(self, resources: Sequence[ConfigResource], *, keys: Sequence[str]) -> Results[Any, Any]:
        return Results({each: Config(each, self._entries(each, keys)) for each in resources}, {})

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
        values = {each: self.leaders[each] != self.replicas[each][0] for each in partitions}
        self.leaders |= {each: self.replicas[each][0] for each in partitions}
        return Results(values, {})

    def own_settings(self) -> dict[ConfigResource, dict[str, str]]:
        return {each: settings for each, settings in self.settings.items() if settings}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    real = asyncio.sleep
    monkeypatch.setattr(asyncio, "sleep", lambda _: real(0))


@pytest.fixture
def crowded(admin: FakeAdmin) -> Cluster:
    return Cluster(admin, {"orders": [(1,)] * 6})


def counts(cluster: Cluster) -> dict[int, int]:
    return {each: sum(each in brokers for brokers in cluster.replicas.values()) for each in cluster.alive}


def test_the_plan_is_shown_and_nothing_is_touched(crowded: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
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


def test_a_plan_is_a_file_for_reassign(crowded: Cluster, tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rebalance", "--dry-run", "-o", "json"]) == 0
    out = capsys.readouterr().out
    document = json.loads(out)
    (tmp_path / "plan.json").write_text(out)
    assert len(read_moves(str(tmp_path / "plan.json"), "--file")) == document["replicas_to_copy"] == 4
    assert document["bytes_to_copy"] == 40 * MIB
    assert [(each["id"], each["gets"], each["gives"]) for each in document["brokers"]] == [
        (1, 0, 4),
        (2, 2, 0),
        (3, 2, 0),
    ]


def test_moves_are_made_under_a_throttle_that_ends(
    crowded: Cluster, admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    seen: list[dict[ConfigResource, dict[str, str]]] = []

    async def watched(moves: Any, **more: Any) -> Results[Any, None]:
        seen.append({each: dict(settings) for each, settings in crowded.settings.items()})
        return await crowded.alter_partition_reassignments(moves, **more)

    admin.mock.alter_partition_reassignments.side_effect = watched
    assert main(["rebalance", "--throttle", "5000"]) == 0
    (held,) = seen
    assert all(held[ConfigResource.broker(each)] == dict.fromkeys(RATES, "5000") for each in (1, 2, 3))
    topic = held[ConfigResource.topic("orders")]
    moved = sorted((each.partition, *crowded.replicas[each]) for each in crowded.begun)
    assert topic["leader.replication.throttled.replicas"] == ",".join(f"{each}:1" for each, _ in moved)
    assert topic["follower.replication.throttled.replicas"] == ",".join(f"{each}:{to}" for each, to in moved)
    assert counts(crowded) == {1: 2, 2: 2, 3: 2}
    assert "4 partitions were moved" in capsys.readouterr().err
    assert crowded.own_settings() == {}


def test_few_partitions_of_a_broker_are_on_their_way_at_once(crowded: Cluster) -> None:
    assert main(["rebalance", "--at-once", "1"]) == 0
    assert crowded.most_at_once == 1
    assert counts(crowded) == {1: 2, 2: 2, 3: 2}


def test_what_was_stopped_goes_on_with_its_throttle(
    crowded: Cluster, admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    """The second command plans from where the moves of the first one are going to."""
    crowded.lasts = 1 << 30
    assert main(["rebalance", "--throttle", "5000", "--timeout", "0.001", "--at-once", "2"]) == 1
    captured = capsys.readouterr()
    assert "partitions were moved within 0.001 s" in captured.err
    assert "run the same command to make the remaining moves" in captured.err
    first = list(crowded.begun)
    assert 1 <= len(first) <= 2
    assert crowded.settings[ConfigResource.broker(1)] == dict.fromkeys(RATES, "5000")
    crowded.lasts = 1
    assert main(["rebalance"]) == 0
    assert "the existing throttle stays: 5000 bytes/s" in capsys.readouterr().err
    assert sorted(crowded.begun) == sorted(set(crowded.begun))
    assert counts(crowded) == {1: 2, 2: 2, 3: 2}
    assert crowded.own_settings() == {}
    assert main(["rebalance"]) == 0
    assert "no moves are needed" in capsys.readouterr().err


def test_a_throttle_that_was_left_behind_ends_though_nothing_moves(admin: FakeAdmin) -> None:
    cluster = Cluster(admin, {"orders": [(1,), (2,), (3,)]})
    cluster.settings[ConfigResource.topic("orders")] = {"follower.replication.throttled.replicas": "0:1"}
    cluster.settings[ConfigResource.broker(2)] = dict.fromkeys(RATES, "5000")
    assert main(["rebalance"]) == 0
    assert cluster.own_settings() == {}


def test_a_throttle_for_good_is_left_alone(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(admin, {"orders": [(1,)] * 3, "slow": [(1,)]})
    cluster.settings[ConfigResource.topic("slow")] = {"follower.replication.throttled.replicas": "*"}
    cluster.settings[ConfigResource.broker(2)] = dict.fromkeys(RATES, "5000")
    assert main(["rebalance", "--throttle", "70000"]) == 1
    assert "slow has a permanent throttle" in capsys.readouterr().err
    assert cluster.begun == []
    assert main(["rebalance"]) == 0
    assert len(cluster.own_settings()) == 2


def test_a_cut_connection_says_what_goes_on(
    crowded: Cluster, admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    admin.mock.alter_partition_reassignments.side_effect = OperationTimedOut("no node answered")
    assert main(["rebalance"]) == 1
    captured = capsys.readouterr()
    assert "no node answered" in captured.err
    assert "not all partitions were moved" in captured.err


def test_moves_are_taken_back_and_the_throttle_with_them(crowded: Cluster, capsys: pytest.CaptureFixture[str]) -> None:
    crowded.lasts = 1 << 30
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


def test_leaders_take_office_where_nothing_is_copied(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(admin, {"orders": [(1, 2), (2, 3), (3, 1)]})
    cluster.leaders[TopicPartition("orders", 2)] = 1
    assert main(["rebalance"]) == 0
    assert "0 partitions were moved, 1 leaders elected" in capsys.readouterr().err
    assert cluster.leaders[TopicPartition("orders", 2)] == 3


def test_a_broker_is_emptied(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(admin, {"orders": [(1, 2), (2, 3), (3, 1)], "one": [(3,)]})
    assert main(["drain", "3", "--throttle", "5000"]) == 0
    assert "broker 3 has no replicas: stop it, then 'barnabas cluster unregister'" in capsys.readouterr().err
    assert counts(cluster)[3] == 0
    assert all(len(set(brokers)) == len(brokers) for brokers in cluster.replicas.values())
    assert cluster.own_settings() == {}
    assert TopicPartition("orders", 0) not in cluster.begun


def test_an_emptied_broker_gets_nothing_new_until_it_is_let_go(admin: FakeAdmin) -> None:
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


def test_what_can_not_be_emptied_is_said_before_anything_moves(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    cluster = Cluster(admin, {"orders": [(1, 2, 3)], "lost": [(3,)]})
    assert main(["drain", "3"]) == 1
    assert "orders-0 has 3 replicas, and no other broker is left for the one on 3" in capsys.readouterr().err
    assert main(["drain", "7"]) == 1
    assert "no such broker exists" in capsys.readouterr().err
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


def test_cordoned_brokers_get_nothing(crowded: Cluster) -> None:
    crowded.cordoned = {3}
    assert main(["rebalance"]) == 0
    assert counts(crowded) == {1: 3, 2: 3, 3: 0}


def test_only_what_is_meant_moves(admin: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster(admin, {"orders": [(1,)] * 3, "payments": [(1,)] * 3})
    assert main(["rebalance", "--topic", "orders", "--broker-list", "1,2"]) == 0
    assert {each.topic for each in cluster.begun} == {"orders"}
    assert counts(cluster)[3] == 0
    assert main(["rebalance", "--topic", "order"]) == 1
    assert "did you mean orders?" in capsys.readouterr().err
    assert main(["rebalance", "--broker-list", "1,9"]) == 1
    assert "broker 9 is not alive" in capsys.readouterr().err
    cluster.alive[2] = None
    assert main(["rebalance"]) == 1
    assert "brokers 2 have no rack, but others do" in capsys.readouterr().err
    assert main(["rebalance", "--disable-rack-aware"]) == 0
