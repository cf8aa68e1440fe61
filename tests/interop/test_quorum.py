"""Three controllers of ours in three processes: they elect, follow, lose a leader, and answer Kafka's own tool."""

from __future__ import annotations

import asyncio
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from barnabas.clients.admin import NewTopic, SyncAdminClient
from barnabas.clients.client_config import client_config
from barnabas.clients.errors import ClientError
from barnabas.clients.network_client import NetworkClient
from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponsePartitionData,
)
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.vote import VoteRequest
from barnabas.protocol.schema import Request
from tests.peers import run_class
from tests.peers.node_process import NodeProcess, free_ports
from tests.peers.quorums import (
    ControllerNode,
    OurBroker,
    OurCombined,
    OurController,
    Quorum,
    barnabas,
    running_quorum,
    wait_until,
)

pytestmark = pytest.mark.interop

OURS = (OurController, OurController, OurController)


def ask(controller: ControllerNode, request: Request[Any], version: int | None = None) -> Any:
    async def exchange() -> Any:
        async with NetworkClient(client_config({}, bootstrap=controller.address)) as client:
            return await client.request(request, version=version, timeout_s=5)

    return asyncio.run(exchange())


def quorum_seen_by(controller: ControllerNode) -> DescribeQuorumResponsePartitionData | None:
    """Return None for a controller that does not lead or is unreachable."""
    partitions = [DescribeQuorumRequestPartitionData(partition_index=0)]
    topics = [DescribeQuorumRequestTopicData(topic_name="__cluster_metadata", partitions=partitions)]
    try:
        response = ask(controller, DescribeQuorumRequest(topics=topics))
    except ClientError:
        return None
    partition: DescribeQuorumResponsePartitionData = response.topics[0].partitions[0]
    return partition if partition.error_code == ErrorCode.NONE else None


def leader_of(quorum: Quorum) -> ControllerNode | None:
    for controller in quorum.controllers:
        if controller.is_running and quorum_seen_by(controller) is not None:
            return controller
    return None


def elected(quorum: Quorum) -> ControllerNode:
    wait_until(lambda: leader_of(quorum) is not None, what="an election")
    leader = leader_of(quorum)
    assert leader is not None
    return leader


@pytest.fixture(scope="module")
def quorum(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Quorum]:
    patient = {"controller.quorum.fetch.timeout.ms": "6000"}
    with running_quorum(tmp_path_factory.mktemp("quorum"), OURS, settings=patient) as running:
        yield running


def test_kafkas_tool_finds_the_leader_and_its_followers_from_any_controller(quorum: Quorum) -> None:
    leader = elected(quorum)
    follower = next(controller for controller in quorum.controllers if controller is not leader)
    status = run_class("quorum", "--bootstrap-controller", follower.address, "describe", "--status").stdout
    assert re.search(rf"LeaderId:\s+{leader.node_id}\n", status)
    assert all(f'"id": {controller.node_id}' in status for controller in quorum.controllers)
    rows = run_class("quorum", "--bootstrap-controller", leader.address, "describe", "--replication").stdout
    assert len(re.findall(r"\tFollower", rows)) == 2
    assert len(re.findall(r"\tLeader", rows)) == 1


def test_a_controller_serves_only_the_metadata_log(quorum: Quorum) -> None:
    request = FetchRequest(topics=[FetchTopic(topic="orders", partitions=[FetchPartition(partition=0)])], max_wait_ms=0)
    response = ask(quorum.controllers[0], request, version=12)
    assert response.error_code == ErrorCode.INVALID_REQUEST


def test_a_vote_for_another_cluster_is_refused(quorum: Quorum) -> None:
    response = ask(quorum.controllers[0], VoteRequest(cluster_id="another", topics=[]))
    assert response.error_code == ErrorCode.INCONSISTENT_CLUSTER_ID


def test_another_controller_leads_after_a_kill_and_the_old_leader_follows(
    quorum: Quorum,
) -> None:
    old = elected(quorum)
    before = quorum_seen_by(old)
    assert before is not None
    old.kill()
    took_s = wait_until(lambda: leader_of(quorum) is not None, what="the election of a new leader", timeout_s=10)
    assert took_s < 3, "the leader's port refuses connections: the others do not wait for the fetch timeout of 6 s"
    new = elected(quorum)
    after = quorum_seen_by(new)
    assert after is not None
    assert new is not old
    assert after.leader_epoch > before.leader_epoch
    old.start()

    def is_followed_by_all() -> bool:
        seen = quorum_seen_by(new)
        return seen is not None and all(voter.log_end_offset >= after.high_watermark for voter in seen.current_voters)

    wait_until(is_followed_by_all, what="the return of the old leader")


def create_topic(broker: NodeProcess, name: str) -> None:
    with SyncAdminClient(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name, partitions=2, replication_factor=1)]).raise_for_errors()


def test_a_separate_broker_follows_the_quorum_across_a_leader_kill(quorum: Quorum, tmp_path: Path) -> None:
    broker = OurBroker(tmp_path, quorum)
    broker.start()
    try:
        create_topic(broker, "before")
        leader = elected(quorum)
        seen = quorum_seen_by(leader)
        assert seen is not None
        assert [observer.replica_id for observer in seen.observers] == [1]
        leader.kill()
        create_topic(broker, "after")
        leader.start()
        assert broker.stop() == 0
        broker.start()
        create_topic(broker, "later")
        for controller in quorum.controllers:
            shown = barnabas("shell", "--bootstrap-controller", controller.address, "ls", "/image/topics/byName")
            assert shown.split() == ["after", "before", "later"]
    finally:
        broker.kill()


def test_a_stopping_leader_hands_over_immediately(quorum: Quorum) -> None:
    old = elected(quorum)
    assert old.stop() == 0
    took_s = wait_until(lambda: leader_of(quorum) is not None, what="the election of a new leader")
    assert took_s < 3, "the others waited for their fetch timeout of 6 s"
    old.start()


def voters(quorum: Quorum) -> dict[int, str]:
    """Return the id and the directory of each voter."""
    seen = quorum_seen_by(elected(quorum))
    assert seen is not None
    return {voter.replica_id: str(voter.replica_directory_id) for voter in seen.current_voters}


def directory_id(controller: ControllerNode) -> str:
    lines = (controller.folder / "data" / "meta.properties").read_text().splitlines()
    return next(line.partition("=")[2] for line in lines if line.startswith("directory.id="))


def test_a_controller_joins_automatically_and_again_with_a_new_disk(quorum: Quorum, tmp_path: Path) -> None:
    settings = {
        "controller.quorum.bootstrap.servers": quorum.servers,
        "controller.quorum.auto.join.enable": "true",
        "controller.quorum.fetch.timeout.ms": "500",
    }
    joining = OurController(tmp_path, 3009, free_ports(1)[0], settings)
    try:
        for _ in range(2):
            shutil.rmtree(joining.folder / "data", ignore_errors=True)
            joining.format(quorum.cluster_id, "--no-initial-controllers")
            joining.start()
            wait_until(lambda: voters(quorum).get(3009) == directory_id(joining), what="joining")
            joining.kill()
        removed = ("--controller-id", "3009", "--controller-directory-id", directory_id(joining))
        run_class("quorum", "--bootstrap-controller", quorum.servers, "remove-controller", *removed)
        assert sorted(voters(quorum)) == [3000, 3001, 3002]
    finally:
        joining.kill()


def test_voters_may_be_static_settings(tmp_path: Path) -> None:
    with running_quorum(tmp_path, OURS, is_static=True) as quorum:
        seen = quorum_seen_by(elected(quorum))
        assert seen is not None
        assert {voter.replica_id: str(voter.replica_directory_id) for voter in seen.current_voters} == dict.fromkeys(
            (3000, 3001, 3002), str(Uuid.ZERO)
        )

        def is_upgraded() -> bool:
            """The upgrade is refused until each voter has reported its directory to the leader."""
            upgrade = ("--bootstrap-controller", quorum.servers, "upgrade", "--feature", "kraft.version=1")
            return run_class("features", *upgrade, check=False).returncode == 0

        wait_until(is_upgraded, what="the upgrade of kraft.version")
        assert voters(quorum) == {controller.node_id: directory_id(controller) for controller in quorum.controllers}


def test_combined_nodes_form_a_quorum_and_each_broker_finds_the_active_controller(tmp_path: Path) -> None:
    sessions = {"broker.heartbeat.interval.ms": "500", "broker.session.timeout.ms": "2000"}
    with running_quorum(tmp_path, (OurCombined, OurCombined, OurCombined), settings=sessions) as quorum:
        for node in quorum.controllers:
            create_topic(node, f"by-{node.node_id}")
        leader = elected(quorum)
        leader.kill()
        others = [node for node in quorum.controllers if node is not leader]
        for node in others:
            create_topic(node, f"later-by-{node.node_id}")
        leader.start()
        create_topic(leader, "back")
        assert leader.stop() == 0
