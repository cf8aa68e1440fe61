"""Operations on a serving cluster: leaders die, nodes restart one by one, replicas move."""

from __future__ import annotations

import time
from collections.abc import Sequence

from barnabas.clients.admin import NewTopic, OffsetSpec, SyncAdminClient
from barnabas.common.topic_partition import TopicPartition
from tests.history.cluster import Cluster, ClusterNode
from tests.history.log_files import INTERNAL_TOPICS, all_named, compare_topics
from tests.peers.quorums import wait_until

__all__ = [
    "check_equal_logs",
    "create_replicated",
    "high_watermarks",
    "kill_leader",
    "leader",
    "move_replicas",
    "restart_one_by_one",
    "wait_for_replicas",
]

_TIMEOUT_S = 60.0


def create_replicated(cluster: Cluster, topic: str, assignments: Sequence[Sequence[int]]) -> None:
    """The replicas of each partition, its preferred leader first; two must have every acknowledged record."""
    with SyncAdminClient(cluster.bootstrap_servers) as admin:
        wait_until(lambda: len(admin.describe_cluster().nodes) == len(cluster.brokers), what="all brokers")
        new = NewTopic(
            topic, assignments=[list(assignment) for assignment in assignments], configs={"min.insync.replicas": "2"}
        )
        admin.create_topics([new], wait=True).raise_for_errors()


def leader(cluster: Cluster, topic: str, partition: int = 0) -> ClusterNode:
    with SyncAdminClient(cluster.bootstrap_servers) as admin:
        leader_id = admin.describe_topics([topic])[topic].partitions[partition].leader
    return cluster.node(f"broker-{leader_id}")


def wait_for_replicas(cluster: Cluster, topics: Sequence[str], *, timeout_s: float = _TIMEOUT_S) -> float:
    """Wait until every replica is in sync. Return the duration in seconds."""
    with SyncAdminClient(cluster.bootstrap_servers) as admin:

        def are_in_sync() -> bool:
            described = admin.describe_topics(topics).values.values()
            return all(
                len(partition.isr) == len(partition.replicas) for topic in described for partition in topic.partitions
            )

        return wait_until(are_in_sync, what="replicas in sync", timeout_s=timeout_s)


def kill_leader(cluster: Cluster, topic: str, partition: int = 0, *, away_s: float = 2.0) -> None:
    """Kill the leader with SIGKILL; another broker leads before it restarts."""
    node = leader(cluster, topic, partition)
    node.kill()
    wait_until(lambda: leader(cluster, topic, partition) is not node, what="another leader", timeout_s=_TIMEOUT_S)
    time.sleep(away_s)
    node.start()
    wait_for_replicas(cluster, [topic])


def restart_one_by_one(cluster: Cluster, topics: Sequence[str]) -> None:
    """Restart as for an upgrade: each broker leaves in an orderly way, and the next waits for its return to the ISR."""
    for broker in cluster.brokers:
        broker.stop()
        broker.start()
        wait_for_replicas(cluster, topics)


def move_replicas(cluster: Cluster, topic: str, assignments: Sequence[Sequence[int]]) -> None:
    """Wait until the moves have ended."""
    with SyncAdminClient(cluster.bootstrap_servers) as admin:
        wanted = {TopicPartition(topic, number): list(replicas) for number, replicas in enumerate(assignments)}
        admin.alter_partition_reassignments(wanted, wait=True, timeout_s=_TIMEOUT_S).raise_for_errors()


def high_watermarks(bootstrap: str, topics: Sequence[str]) -> dict[str, int]:
    """Return the high watermark of each partition, by the name of its folder."""
    with SyncAdminClient(bootstrap) as admin:
        described = admin.describe_topics(topics)
        partitions = [
            TopicPartition(topic, number) for topic in topics if topic in described.values
            for number in range(len(described[topic].partitions))
        ]  # fmt: skip
        found = admin.list_offsets(dict.fromkeys(partitions, OffsetSpec.latest())).raise_for_errors()
    return {str(partition): listed.offset for partition, listed in found.items()}


def check_equal_logs(cluster: Cluster, topics: Sequence[str]) -> int:
    """Stop all brokers and compare their logs byte by byte. Return the number of batches that every one of them has."""
    wait_for_replicas(cluster, topics)
    ends = high_watermarks(cluster.bootstrap_servers, INTERNAL_TOPICS)
    for broker in cluster.brokers:
        broker.stop()
    folders = {broker.name: broker.data for broker in cluster.brokers}
    count, unequal = compare_topics(folders, all_named(topics), ends=ends)
    assert unequal == []
    return count
