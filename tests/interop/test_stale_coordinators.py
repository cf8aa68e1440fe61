"""A coordinator that was frozen too long to still be the coordinator does not return committed offsets from old state.

A broker is frozen with a request in its socket. When it resumes, it reads this request first, before it can learn that
another broker now coordinates the group.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from barnabas.clients.admin import SyncAdminClient
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.history.cluster import Cluster, ClusterNode, running_cluster
from tests.history.story import create_replicated
from tests.interop.raw_client import RawClient
from tests.peers.quorums import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.long, pytest.mark.timeout(240)]

TOPIC = "orders"
SESSION_S = 3.0
"""broker.session.timeout.ms of the cluster."""
QUESTIONS = 20
BY_NAME = 9
"""The newest version of both requests that names topics."""


@contextmanager
def client_of(broker: ClusterNode) -> Iterator[RawClient]:
    client = RawClient(broker.port)
    try:
        yield client
    finally:
        client.close()


def coordinator(cluster: Cluster, group: str, *, by: ClusterNode) -> ClusterNode | None:
    with client_of(by) as client:
        [found] = client.call(FindCoordinatorRequest(key_type=0, coordinator_keys=[group])).coordinators
    return None if found.error_code else cluster.node(f"broker-{found.node_id}")


def commit(broker: ClusterNode, group: str, offset: int) -> ErrorCode:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
    topic = OffsetCommitRequestTopic(name=TOPIC, partitions=[partition])
    with client_of(broker) as client:
        answer = client.call(OffsetCommitRequest(group_id=group, topics=[topic]), BY_NAME)
    return ErrorCode(answer.topics[0].partitions[0].error_code)


def question(group: str) -> OffsetFetchRequest:
    topics = [OffsetFetchRequestTopics(name=TOPIC, partition_indexes=[0])]
    return OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=topics)])


def committed(answer: OffsetFetchResponse) -> int | ErrorCode:
    [group] = answer.groups
    return ErrorCode(group.error_code) if group.error_code else group.topics[0].partitions[0].committed_offset


def ask(broker: ClusterNode, group: str) -> int | ErrorCode:
    with client_of(broker) as client:
        return committed(client.call(question(group), BY_NAME))


def begin(cluster: Cluster, group: str, offset: int) -> ClusterNode:
    """Make the first commit of the group. Return its coordinator."""
    first = cluster.brokers[0]
    wait_until(lambda: coordinator(cluster, group, by=first) is not None, what="a coordinator", timeout_s=30)
    found = coordinator(cluster, group, by=first)
    assert found is not None
    wait_until(lambda: commit(found, group, offset) is ErrorCode.NONE, what="a commit", timeout_s=30)
    return found


def test_a_frozen_coordinator_does_not_return_stale_offsets(tmp_path: Path) -> None:
    with running_cluster(tmp_path) as cluster:
        create_replicated(cluster, TOPIC, [[1, 2, 3]])
        for turn in range(3):
            group = f"group-{turn}"
            frozen = begin(cluster, group, 10)
            other = next(broker for broker in cluster.brokers if broker is not frozen)
            with client_of(frozen) as client:
                assert committed(client.call(question(group), BY_NAME)) == 10
                frozen.freeze()
                for _ in range(QUESTIONS):
                    client.send(question(group), BY_NAME)
                moved_on(cluster, group, frozen, other)
                frozen.thaw()
                answers = [committed(client.receive()) for _ in range(QUESTIONS)]
            assert set(answers) == {ErrorCode.NOT_COORDINATOR}, f"turn {turn}: {answers}"
            assert ask_anybody(cluster, group, other) == 20


def moved_on(cluster: Cluster, group: str, frozen: ClusterNode, other: ClusterNode) -> None:
    """Commit a later offset through another coordinator."""

    def has_committed() -> bool:
        found = coordinator(cluster, group, by=other)
        return found is not None and found is not frozen and commit(found, group, 20) is ErrorCode.NONE

    wait_until(has_committed, what="a commit at another coordinator", timeout_s=30)


def ask_while_frozen(broker: ClusterNode, group: str) -> int | ErrorCode:
    with client_of(broker) as client:
        broker.freeze()
        client.send(question(group), BY_NAME)
        time.sleep(1)
        broker.thaw()
        return committed(client.receive())


def ask_anybody(cluster: Cluster, group: str, other: ClusterNode) -> int | ErrorCode:
    found = coordinator(cluster, group, by=other)
    assert found is not None
    return ask(found, group)


@pytest.mark.parametrize("replicas", [1, 3])
def test_coordinators_answer_without_a_controller(tmp_path: Path, replicas: int) -> None:
    settings = {"offsets.topic.replication.factor": str(replicas)}
    with running_cluster(tmp_path, settings=settings) as cluster:
        create_replicated(cluster, TOPIC, [[1, 2, 3]])
        group, broker = "group", begin(cluster, "group", 10)
        with SyncAdminClient(cluster.bootstrap_servers) as admin:
            offsets = admin.describe_topics(["__consumer_offsets"])["__consumer_offsets"]
            assert {len(partition.isr) for partition in offsets.partitions} == {replicas}
        for controller in cluster.controllers:
            controller.freeze()
        time.sleep(SESSION_S + 1)
        times = []
        for offset in range(11, 31):
            assert commit(broker, group, offset) is ErrorCode.NONE
            began = time.monotonic()
            assert ask(broker, group) == offset
            times.append(time.monotonic() - began)
        assert sorted(times)[len(times) // 2] < 0.2, times
        assert ask_while_frozen(broker, group) == 30
        for controller in cluster.controllers:
            controller.thaw()
        time.sleep(1)
        assert ask_anybody(cluster, group, broker) == 30
