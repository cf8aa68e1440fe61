"""Clusters of ``barnabas.testing``: leaders change when nodes die, pause, fill their disks or are cut off."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import pytest

from barnabas.testing import Cluster, ClusterNode, NotPossible, allow
from barnabas.testing.cluster_calls import leader_of

pytestmark = pytest.mark.interop

TOPIC = "orders"


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3, topics=[TOPIC]) as running:
        yield running


def until(is_true: Callable[[], bool], what: str, timeout_s: float = 30) -> None:
    deadline = time.monotonic() + timeout_s
    while not is_true():
        assert time.monotonic() < deadline, f"{what} did not happen in {timeout_s} s"
        time.sleep(0.05)


def values(cluster: Cluster) -> list[bytes | None]:
    return [record.value for record in cluster.consume(TOPIC)]


FAULTS: dict[str, Callable[[ClusterNode], None]] = {
    "killed": lambda node: node.kill(),
    "paused": lambda node: node.pause(),
    "stopped": lambda node: node.stop(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_another_broker_leads_and_no_record_is_lost(cluster: Cluster, fault: str) -> None:
    cluster.produce(TOPIC, ["before"])
    leader = cluster.leader(TOPIC)
    FAULTS[fault](leader)
    until(lambda: cluster.leader(TOPIC) is not leader, "a new leader")
    cluster.produce(TOPIC, ["after"])
    assert values(cluster) == [b"before", b"after"]
    leader.resume()
    leader.start()
    assert leader.is_running
    assert values(cluster) == [b"before", b"after"]


def test_a_resumed_leader_knows_that_another_one_leads(cluster: Cluster) -> None:
    leader = cluster.leader(TOPIC)
    leader.pause()
    until(lambda: cluster.leader(TOPIC) is not leader, "a new leader")
    leader.resume()
    own_view = {**cluster.client_properties(), "bootstrap.servers": leader.address}
    assert asyncio.run(leader_of(own_view, TOPIC, 0)) == cluster.leader(TOPIC).node_id != leader.node_id


def test_a_leader_with_a_full_disk_is_replaced(cluster: Cluster) -> None:
    leader = cluster.leader(TOPIC)
    leader.disk_full()
    cluster.produce(TOPIC, ["a"])
    assert cluster.leader(TOPIC) is not leader
    until(lambda: not leader.is_running, "the end of the node")
    leader.disk_free()
    cluster.start()
    assert all(node.is_running for node in cluster.nodes)
    assert values(cluster) == [b"a"]


def test_an_isolated_controller_is_replaced_while_clients_still_reach_it(cluster: Cluster) -> None:
    isolated = cluster.active_controller()
    cluster.isolate(isolated)
    until(lambda: cluster.active_controller() is not isolated, "a new controller")
    assert isolated.is_running
    cluster.heal()
    cluster.produce(TOPIC, ["a"])
    assert values(cluster) == [b"a"]


def test_a_follower_behind_a_cut_leaves_the_isr_and_returns(cluster: Cluster) -> None:
    leader = cluster.leader(TOPIC)
    controller = cluster.active_controller()  # The leader needs its answers to shrink the ISR.
    follower = next(broker for broker in cluster.brokers if broker not in (leader, controller))

    def isr() -> int:
        with cluster.admin() as admin:
            return len(admin.describe_topics([TOPIC])[TOPIC].partitions[0].isr)

    cluster.cut(follower, leader, one_way=True)
    cluster.produce(TOPIC, ["a"])  # It is acknowledged when the follower has left the ISR.
    until(lambda: isr() == 2, "the shrinking of the ISR")
    cluster.heal()
    until(lambda: isr() == 3, "the return to the ISR")


def test_all_nodes_stop_and_start_with_their_records(cluster: Cluster) -> None:
    cluster.produce(TOPIC, ["a"])
    before = cluster.bootstrap_servers
    cluster.stop()
    assert not any(node.is_running for node in cluster.nodes)
    cluster.start()
    assert cluster.bootstrap_servers == before
    assert values(cluster) == [b"a"]


def test_controllers_may_be_nodes_of_their_own_and_everything_secured() -> None:
    acls = allow("alice", "read", "write", "describe", topic=TOPIC)
    with Cluster(
        brokers=2, controllers=1, topics=[TOPIC], users={"alice": "secret"}, acls=acls, tls=True, replication=2
    ) as cluster:
        assert [node.node_id for node in cluster.nodes] == [3001, 1, 2]
        assert cluster.active_controller() is cluster.controllers[0]
        with pytest.raises(NotPossible, match=r"node-3001 is a controller without a broker"):
            _ = cluster.controllers[0].address
        assert cluster.bootstrap_controllers == f"127.0.0.1:{cluster.controllers[0].controller_port}"
        with pytest.raises(NotPossible, match=r"node-1 is not a controller"):
            _ = cluster.brokers[0].controller_port
        cluster.produce(TOPIC, ["a"], user="alice")
        with cluster.admin() as admin:
            assert len(admin.describe_topics([TOPIC])[TOPIC].partitions[0].isr) == 2
        assert [record.value for record in cluster.consume(TOPIC, user="alice")] == [b"a"]


def test_threads_form_a_cluster_whose_links_can_not_be_cut() -> None:
    with Cluster(brokers=2, topics=[TOPIC], in_process=True) as cluster:
        cluster.produce(TOPIC, ["a"])
        with pytest.raises(NotPossible, match="links can be cut between several nodes in processes of their own"):
            cluster.cut(*cluster.brokers)
        with pytest.raises(LookupError, match=r"node 7 does not exist; the ids are \[1, 2\]"):
            cluster.node(7)
        with pytest.raises(LookupError, match="topic orders has no partition 5; it has 1"):
            cluster.leader(TOPIC, 5)
