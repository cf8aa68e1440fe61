"""Seeded runs of a whole quorum: committed records survive lost messages, partitions, crashes and restarts."""

from __future__ import annotations

import random

import pytest

from barnabas.raft.errors import NotLeaderException
from tests.simulation.raft_cluster import Cluster

pytestmark = pytest.mark.simulation


def settle(cluster: Cluster, limit_ms: int = 60_000) -> None:
    """Heal everything and wait until all replicas have what the leader has committed."""
    cluster.heal()
    cluster.loss = 0.0
    for replica in cluster.replicas.values():
        if not replica.is_up:
            replica.start()
    for _ in range(limit_ms // 100):
        cluster.run_for(100)
        leader = cluster.leader
        if leader is not None and leader.node is not None and leader.node.high_watermark == leader.node.log_end_offset:
            if all(replica.applied_to == leader.applied_to for replica in cluster.replicas.values()):
                return
    raise AssertionError([(r.node_id, r.node and r.node.state_name, r.applied_to) for r in cluster.replicas.values()])


@pytest.mark.parametrize("voters", [1, 2, 3, 5])
@pytest.mark.parametrize("is_static", [False, True])
def test_a_quorum_elects_a_leader_and_commits(voters: int, is_static: bool) -> None:
    cluster = Cluster(list(range(1, voters + 1)), seed=voters, is_static=is_static)
    cluster.start()
    cluster.run_for(5000)
    assert cluster.leader is not None
    cluster.append(cluster.leader, "a", "b")
    settle(cluster)
    assert {tuple(replica.applied.values()) for replica in cluster.replicas.values()} == {("a", "b")}


def test_the_only_voter_leads_without_waiting() -> None:
    cluster = Cluster([1])
    cluster.start()
    assert cluster.leader is not None


def test_an_observer_follows_without_a_vote() -> None:
    cluster = Cluster([1], observer_ids=[100], seed=3)
    cluster.start()
    cluster.run_for(3000)
    assert cluster.leader is not None
    cluster.append(cluster.leader, "a")
    settle(cluster)
    assert cluster.replicas[100].applied == {3: "a"}


def test_a_new_leader_is_elected_after_the_leader_crashes() -> None:
    cluster = Cluster([1, 2, 3], seed=1)
    cluster.start()
    cluster.run_for(5000)
    first = cluster.leader
    assert first is not None
    first.crash()
    cluster.run_for(10_000)
    second = cluster.leader
    assert second is not None
    assert second is not first
    assert second.node is not None
    assert second.node.epoch > first.last_epoch


def test_a_leader_without_a_majority_resigns() -> None:
    cluster = Cluster([1, 2, 3], seed=1)
    cluster.start()
    cluster.run_for(5000)
    leader = cluster.leader
    assert leader is not None
    cluster.partition([leader.node_id], [id_ for id_ in cluster.replicas if id_ != leader.node_id])
    cluster.run_for(4000)
    assert leader.node is not None
    assert leader.node.state_name != "Leader"


def test_a_replica_that_is_cut_off_does_not_disturb_the_others_when_it_returns() -> None:
    """Pre-votes ensure this: the epoch of the isolated replica does not increase."""
    cluster = Cluster([1, 2, 3], seed=5)
    cluster.start()
    cluster.run_for(5000)
    leader = cluster.leader
    assert leader is not None
    assert leader.node is not None
    epoch = leader.node.epoch
    isolated = next(id_ for id_ in cluster.replicas if id_ != leader.node_id)
    cluster.partition([isolated], [id_ for id_ in cluster.replicas if id_ != isolated])
    cluster.run_for(30_000)
    cluster.heal()
    cluster.run_for(10_000)
    assert cluster.leader is leader
    assert leader.node.epoch == epoch


def test_a_replica_that_is_far_behind_takes_a_snapshot() -> None:
    cluster = Cluster([1, 2, 3], observer_ids=[100], seed=2)
    cluster.start(1, 2, 3)
    cluster.run_for(5000)
    leader = cluster.leader
    assert leader is not None
    for number in range(20):
        cluster.append(leader, f"record-{number}")
        cluster.run_for(50)
    assert leader.snapshot() is not None
    cluster.append(leader, "after")
    settle(cluster)
    assert len(cluster.replicas[100].disk.snapshots) == 1
    assert cluster.replicas[100].applied == leader.applied


@pytest.mark.parametrize("seed", range(40))
def test_committed_records_survive_a_hostile_run(seed: int) -> None:
    chance = random.Random(seed)
    voters = chance.choice([1, 2, 3, 3, 3, 5])
    cluster = Cluster(list(range(1, voters + 1)), observer_ids=[100], seed=seed, is_static=chance.random() < 0.2)
    cluster.start()
    for number in range(80):
        _disturb(cluster, chance)
        leader = cluster.leader
        if leader is not None and chance.random() < 0.8:
            try:
                cluster.append(leader, *(f"r{number}.{index}" for index in range(chance.randint(1, 3))))
            except NotLeaderException:
                pass
        cluster.run_for(chance.choice([5, 50, 400, 1500]))
    settle(cluster)
    assert {tuple(sorted(replica.applied.items())) for replica in cluster.replicas.values()} == {
        tuple(sorted(cluster.committed.items()))
    }


def _disturb(cluster: Cluster, chance: random.Random) -> None:
    cluster.loss = chance.choice([0.0, 0.0, 0.1, 0.4])
    replica = chance.choice(list(cluster.replicas.values()))
    event = chance.random()
    if event < 0.10 and replica.is_up:
        replica.crash()
    elif event < 0.30:
        for other in cluster.replicas.values():
            if not other.is_up:
                other.start()
    elif event < 0.38:
        ids = list(cluster.replicas)
        chance.shuffle(ids)
        middle = chance.randint(0, len(ids))
        cluster.partition(ids[:middle], ids[middle:])
    elif event < 0.55:
        cluster.heal()
    elif event < 0.62 and cluster.static_voters is None:
        replica.snapshot()
    elif event < 0.66 and replica.node is not None:
        replica.carry_out(replica.node.resign(replica.node.epoch, cluster.now_ms))
