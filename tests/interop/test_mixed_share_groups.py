"""Share groups in a cluster of Kafka's broker and ours: groups, their state and share-partitions move between both."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from barnabas.clients.admin import NewTopic, SyncAdminClient
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from barnabas.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
)
from barnabas.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.share_group_describe import ShareGroupDescribeRequest
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest
from tests.interop.raw_client import RawClient
from tests.interop.share_work import share_work
from tests.peers.mixed import OurBroker, RealBroker
from tests.peers.quorums import OurController, running_quorum, wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(400)]

KAFKA, OURS = 1, 2
SETTINGS = {
    "group.share.assignment.interval.ms": "0",
    "group.share.heartbeat.interval.ms": "1000",
    "group.share.min.heartbeat.interval.ms": "1000",
    "group.share.initialize.retry.interval.ms": "1000",
    "group.share.min.record.lock.duration.ms": "3000",
    "group.share.record.lock.duration.ms": "3000",
    "group.share.delivery.count.limit": "10",
    # Members that this test plays stay while brokers start.
    "group.share.max.session.timeout.ms": "600000",
    "group.share.session.timeout.ms": "600000",
    "share.coordinator.state.topic.num.partitions": "4",
    "offsets.topic.num.partitions": "1",
    "replica.lag.time.max.ms": "3000",
    "broker.session.timeout.ms": "3000",
}
GROUPS = ("empty", "full")


class Both:
    """A broker of Kafka's and one of ours. Each has all topics; Kafka's is the preferred leader of half of them."""

    def __init__(self, kafka: RealBroker, ours: OurBroker) -> None:
        self.nodes: dict[int, RealBroker | OurBroker] = {KAFKA: kafka, OURS: ours}

    @property
    def bootstrap(self) -> str:
        return ",".join(node.bootstrap_servers for node in self.nodes.values())

    def create_topics(self) -> None:
        placements: list[tuple[str, int, dict[str, str]]] = [
            ("__consumer_offsets", 1, {"cleanup.policy": "compact"}),
            ("__share_group_state", 4, {"cleanup.policy": "delete", "retention.ms": "-1"}),
            ("queue", 4, {}),
            ("jobs", 4, {}),
        ]
        with SyncAdminClient(self.bootstrap) as admin:
            for name, partitions, configs in placements:
                assignments = [[KAFKA, OURS] if number % 2 == 0 else [OURS, KAFKA] for number in range(partitions)]
                topic = NewTopic(name, configs={"min.insync.replicas": "1", **configs}, assignments=assignments)
                admin.create_topics([topic], wait=True).raise_for_errors()

    def move_from(self, stopped: int) -> RawClient:
        """Kill a broker once the other one has everything. Return a connection to that one when it leads all."""
        left = OURS if stopped == KAFKA else KAFKA
        wait_until(lambda: self._are_in_sync(left), what="all replicas are in sync", timeout_s=90)
        self.nodes[stopped].kill()
        client = RawClient(self.nodes[left].port)
        wait_until(lambda: self._leaders(client) == {left}, what=f"broker {left} leads all", timeout_s=60)
        return client

    def _are_in_sync(self, asked: int) -> bool:
        with closing(RawClient(self.nodes[asked].port)) as client:
            topics = client.call(MetadataRequest(topics=None)).topics
        return all(len(partition.isr_nodes) == 2 for topic in topics for partition in topic.partitions)

    def _leaders(self, client: RawClient) -> set[int]:
        topics = client.call(MetadataRequest(topics=None)).topics
        return {partition.leader_id for topic in topics for partition in topic.partitions}


@pytest.fixture
def both(kafka_peer: Path, tmp_path: Path) -> Iterator[Both]:
    settings = {"broker.session.timeout.ms": "3000", "auto.leader.rebalance.enable": "false"}
    with running_quorum(tmp_path / "controllers", [OurController], settings=settings) as quorum:
        named: dict[str, Any] = {
            "controllers": quorum.servers,
            "cluster_id": quorum.cluster_id,
            "settings": SETTINGS,
        }
        kafka = RealBroker(tmp_path / "kafka", KAFKA, own_process=True, **named)
        ours = OurBroker(tmp_path / "ours", OURS, **named)
        try:
            kafka.start()
            ours.start()
            cluster = Both(kafka, ours)
            cluster.create_topics()
            yield cluster
            assert "Traceback" not in ours.printed()
        finally:
            kafka.kill()
            ours.kill()


class Seen(NamedTuple):
    """What one can see of the groups."""

    listed: dict[str, Any]
    described: dict[str, Any]
    offsets: dict[str, dict[tuple[str, int], Any]]


def see(client: RawClient) -> Seen:
    """Wait until the coordinator is there."""

    def offsets() -> Any:
        groups = [DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=None) for group in GROUPS]
        return client.call(DescribeShareGroupOffsetsRequest(groups=groups)).groups

    def is_there(answer: Any) -> bool:
        partitions = [part for group in answer for topic in group.topics for part in topic.partitions]
        return not any(item.error_code for item in (*answer, *partitions))

    wait_until(lambda: is_there(offsets()), what="offsets are known", timeout_s=60)
    listed = client.call(ListGroupsRequest(), 5).to_json(5)
    described = client.call(ShareGroupDescribeRequest(group_ids=list(GROUPS)), 1).to_json(1)
    return Seen(
        {group["groupId"]: group for group in listed["groups"]},
        {group["groupId"]: {**group, "members": _by_id(group)} for group in described["groups"]},
        {group.group_id: _offsets_in(group) for group in offsets()},
    )


def _by_id(group: Any) -> dict[str, Any]:
    return {member["memberId"]: member for member in group["members"]}


def _offsets_in(group: Any) -> dict[tuple[str, int], Any]:
    return {
        (topic.topic_name, part.partition_index): (part.start_offset, part.leader_epoch, part.lag)
        for topic in group.topics
        for part in topic.partitions
    }


def beat(client: RawClient, group: str, member_id: str, epoch: int, topics: list[str] | None = None) -> Any:
    request = ShareGroupHeartbeatRequest(
        group_id=group, member_id=member_id, member_epoch=epoch, subscribed_topic_names=topics
    )
    answers: list[Any] = []

    def is_answered() -> bool:
        answers[:] = [client.call(request)]
        return bool(answers[0].error_code == 0)

    wait_until(is_answered, what=f"{answers} is no error", timeout_s=60)
    return answers[0]


def alter(client: RawClient, offset: int) -> None:
    partitions = [AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=offset)]
    topics = [AlterShareGroupOffsetsRequestTopic(topic_name="queue", partitions=partitions)]
    answer = client.call(AlterShareGroupOffsetsRequest(group_id="empty", topics=topics))
    assert [part.error_code for topic in answer.responses for part in topic.partitions] == [0], answer


def delete(client: RawClient) -> None:
    """Kafka's coordinator refuses until it has read of the topic in the metadata log."""
    request = DeleteShareGroupOffsetsRequest(
        group_id="empty", topics=[DeleteShareGroupOffsetsRequestTopic(topic_name="jobs")]
    )
    answers: list[Any] = []

    def is_deleted() -> bool:
        answers[:] = [client.call(request)]
        return [topic.error_code for topic in answers[0].responses] == [0]

    wait_until(is_deleted, what=f"{answers} is no error", timeout_s=60)


def settle(client: RawClient, members: dict[str, int]) -> None:
    """Let the members of ``full`` beat until all have the same epoch and nothing changes. Set their epochs."""

    def are_settled() -> bool:
        before = dict(members)
        for name, epoch in before.items():
            members[name] = beat(client, "full", name, epoch).member_epoch
        (group,) = client.call(ShareGroupDescribeRequest(group_ids=["full"])).groups
        parts = [
            part
            for member in group.members
            for topic in member.assignment.topic_partitions
            for part in topic.partitions
        ]
        return members == before and len(set(members.values())) == 1 and sorted(set(parts)) == list(range(4))

    wait_until(are_settled, what="all partitions are assigned", timeout_s=60)


def test_groups_are_the_same_on_the_next_coordinator(both: Both) -> None:
    names = (str(Uuid.from_int(number)) for number in count(1))
    with closing(RawClient(both.nodes[KAFKA].port)) as client:
        name = next(names)
        beat(client, "empty", name, beat(client, "empty", name, 0, ["queue", "jobs"]).member_epoch)
        beat(client, "empty", name, -1)
        members = {name: beat(client, "full", name, 0, ["queue"]).member_epoch for name in (next(names), next(names))}
        settle(client, members)
        alter(client, 3)
        before = see(client)

    for stopped, offset in ((KAFKA, 5), (OURS, 7)):
        with closing(both.move_from(stopped)) as client:
            assert see(client) == before
            for name, epoch in members.items():
                assert beat(client, "full", name, epoch).member_epoch == epoch, "it goes on as before"
            leaving, joining = next(iter(members)), next(names)
            beat(client, "full", leaving, -1)
            del members[leaving]
            members[joining] = beat(client, "full", joining, 0, ["queue"]).member_epoch
            settle(client, members)
            alter(client, offset)
            if stopped == KAFKA:
                delete(client)
            before = see(client)
        both.nodes[stopped].start()


def test_members_go_on_while_leaders_and_coordinators_move(both: Both, tmp_path: Path) -> None:
    with share_work(both.bootstrap, "jobs", 4, tmp_path, members=2) as work:
        for stopped in (KAFKA, OURS, KAFKA):
            work.await_progress()
            both.move_from(stopped).close()
            work.await_progress()
            both.nodes[stopped].start()
        work.finish()
    print(work.check())
