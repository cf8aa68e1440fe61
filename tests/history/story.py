"""What operators do to a cluster that serves: leaders die, nodes are restarted one by one, replicas move."""

from __future__ import annotations

import time
from collections.abc import Sequence

from barnabas.clients.admin import NewTopic, SyncAdminClient
from barnabas.common.topic_partition import TopicPartition
from tests.history.cluster import Cluster, ClusterNode
from tests.history.log_files import all_named, compare_topics
from tests.peers.quorums import wait_until

__all__ = [
    "check_equal_logs",
    "create_replicated",
    "kill_leader",
    "leader",
    "move_replicas",
    "restart_one_by_one",
    "wait_for_replicas",
]

_TIMEOUT_S = 60.0


def create_replicated(cluster: Cluster, topic: str, assignments: Sequence[Sequence[int]]) -> None:
    """Replicas of each partition, its preferred leader first; two must have what is acknowledged."""
    with SyncAdminClient(cluster.bootstrap) as admin:
        wait_until(lambda: len(admin.describe_cluster().nodes) == len(cluster.brokers), what="all brokers")
        new = NewTopic(topic, assignments=[list(each) for each in assignments], configs={"min.insync.replicas": "2"})
        admin.create_topics([new], wait=True).raise_for_errors()


def leader(cluster: Cluster, topic: str, partition: int = 0) -> ClusterNode:
    with SyncAdminClient(cluster.bootstrap) as admin:
        leader_id = admin.describe_topics([topic])[topic].partitions[partition].leader
    return cluster.node(f"broker-{leader_id}")


def wait_for_replicas(cluster: Cluster, topics: Sequence[str], *, timeout_s: float = _TIMEOUT_S) -> float:
    """Until every replica is in sync; how long it took, in seconds."""
    with SyncAdminClient(cluster.bootstrap) as admin:

        def are_in_sync() -> bool:
            described = admin.describe_topics(topics).values.values()
            return all(len(each.isr) == len(each.replicas) for topic in described for each in topic.partitions)

        return wait_until(are_in_sync, what="replicas in sync", timeout_s=timeout_s)


def kill_leader(cluster: Cluster, topic: str, partition: int = 0, *, away_s: float = 2.0) -> None:
    """With SIGKILL; another leads before it is started again."""
    node = leader(cluster, topic, partition)
    node.kill()
    wait_until(lambda: leader(cluster, topic, partition) is not node, what="another leader", timeout_s=_TIMEOUT_S)
    time.sleep(away_s)
    node.start()
    wait_for_replicas(cluster, [topic])


def restart_one_by_one(cluster: Cluster, topics: Sequence[str]) -> None:
    """As for a new version: each broker leaves in an orderly way, and the next waits for its return into the ISR."""
    for broker in cluster.brokers:
        broker.stop()
        broker.start()
        wait_for_replicas(cluster, topics)


def move_replicas(cluster: Cluster, topic: str, assignments: Sequence[Sequence[int]]) -> None:
    """Until the moves have come to their end."""
    with SyncAdminClient(cluster.bootstrap) as admin:
        wanted = {TopicPartition(topic, number): list(each) for number, each in enumerate(assignments)}
        admin.alter_partition_reassignments(wanted, wait=True, timeout_s=_TIMEOUT_S).raise_for_errors()


def check_equal_logs(cluster: Cluster, topics: Sequence[str]) -> int:
    """All brokers are stopped for it. How many batches every one of them has, byte by byte."""
    wait_for_replicas(cluster, topics)
    for broker in cluster.brokers:
        broker.stop()
    count, unequal = compare_topics({each.name: each.data for each in cluster.brokers}, all_named(topics))
    assert unequal == []
    return count
