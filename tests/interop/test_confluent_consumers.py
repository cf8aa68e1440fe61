"""Members of confluent-kafka-python, of both protocols and of share groups, on our node as on a real Kafka 4.3.1.

librdkafka's own tests (``test_librdkafka_groups.py``) cover its single functions; here are whole lives: members that
come and go, regular expressions, static members, commits, and members whose coordinator has forgotten them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import Any

import pytest
from confluent_kafka import (
    AcknowledgeType,
    Consumer,
    KafkaError,
    KafkaException,
    Producer,
    ShareConsumer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewTopic,
    OffsetSpec,
    ResourceType,
)

from barnabas.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode
from tests.peers.command_node import CommandNode
from tests.peers.kinds import KAFKA, run_on_each_kind
from tests.peers.node_process import NodeProcess
from tests.peers.quorums import wait_until

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]

SETTINGS = {
    "group.consumer.heartbeat.interval.ms": "500",
    "group.consumer.min.heartbeat.interval.ms": "500",
    "group.share.heartbeat.interval.ms": "500",
    "group.share.min.heartbeat.interval.ms": "500",
    "share.coordinator.state.topic.num.partitions": "4",
}
PARTITIONS = 6
PROTOCOLS = ("classic", "consumer")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "node")


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    kind = KafkaNode if request.param == KAFKA else CommandNode
    node: NodeProcess = kind(tmp_path_factory.mktemp("confluent"), settings=SETTINGS)
    node.start()
    yield node
    node.stop()
    if request.param != KAFKA:
        assert "Traceback" not in node.printed()


@pytest.fixture
def topic(node: NodeProcess, request: pytest.FixtureRequest) -> str:
    name = re.sub(r"[^a-z-]+", "-", request.node.name.removeprefix("test_").replace("_", "-"))[:120]
    create_topic(node, name)
    return name


def create_topic(node: NodeProcess, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)


def produce(node: NodeProcess, topic: str, numbers: Sequence[int]) -> None:
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    for number in numbers:
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    assert producer.flush(30) == 0


class Member:
    """A consumer that notes what it was told; ``partitions`` are those that it has."""

    def __init__(self, node: NodeProcess, group: str, topics: list[str], protocol: str, **settings: Any) -> None:
        given = {"group.id": group, "group.protocol": protocol, "auto.offset.reset": "earliest"}
        if protocol == "classic":
            given["partition.assignment.strategy"] = "cooperative-sticky"
        given |= {name.replace("_", "."): value for name, value in settings.items()}
        self.consumer = Consumer({"bootstrap.servers": node.bootstrap_servers, "log_level": 0, **given})
        self.partitions: set[tuple[str, int]] = set()
        self.kept_in_revocations: list[int] = []
        self.lost: list[set[tuple[str, int]]] = []
        self.read: list[int] = []
        self.errors: list[KafkaError] = []
        self.consumer.subscribe(topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost)

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.partitions |= _names(partitions)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.partitions -= _names(partitions)
        self.kept_in_revocations.append(len(self.partitions))

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.partitions -= _names(partitions)
        self.lost.append(_names(partitions))

    def poll(self) -> None:
        message = self.consumer.poll(0.05)
        if message is not None and message.error() is None:
            self.read.append(int(message.value() or b""))
        elif message is not None:
            self.errors.append(message.error())

    def close(self) -> None:
        self.consumer.close()


def _names(partitions: list[TopicPartition]) -> set[tuple[str, int]]:
    return {(partition.topic, partition.partition) for partition in partitions}


def poll_until(is_true: Callable[[], bool], *members: Member, what: str) -> None:
    def is_true_now() -> bool:
        for member in members:
            member.poll()
        return is_true()

    wait_until(is_true_now, what=what, timeout_s=90)


def have_equal_parts(*members: Member) -> Callable[[], bool]:
    return lambda: (
        all(len(member.partitions) == PARTITIONS // len(members) for member in members)
        and (len(set().union(*(member.partitions for member in members))) == PARTITIONS)
    )


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_partitions_move_one_by_one_as_members_come_and_go(node: NodeProcess, topic: str, protocol: str) -> None:
    with ExitStack() as closes:
        members: list[Member] = []
        for count in (1, 2, 3):
            members.append(closes.enter_context(closing(Member(node, topic, [topic], protocol))))
            poll_until(have_equal_parts(*members), *members, what=f"partitions for {count} members")
        assert members[0].kept_in_revocations
        assert min(members[0].kept_in_revocations) > 0
        members.pop().close()
        poll_until(have_equal_parts(*members), *members, what="partitions of the one that has left")
        assert [member.lost for member in members] == [[], []]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_topics_are_found_by_an_expression(node: NodeProcess, topic: str, protocol: str) -> None:
    settings = {"topic_metadata_refresh_interval_ms": 500} if protocol == "classic" else {}
    with closing(Member(node, topic, [f"^{topic}(-more)?$"], protocol, **settings)) as member:
        poll_until(lambda: len(member.partitions) == PARTITIONS, member, what="the first topic")
        create_topic(node, f"{topic}-other")
        create_topic(node, f"{topic}-more")
        poll_until(lambda: len(member.partitions) == 2 * PARTITIONS, member, what="the second topic")
        assert {name for name, _ in member.partitions} == {topic, f"{topic}-more"}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_static_member_returns_to_its_partitions_and_a_second_one_is_refused(
    node: NodeProcess, topic: str, protocol: str
) -> None:
    with closing(Member(node, topic, [topic], protocol)) as other:
        first = Member(node, topic, [topic], protocol, group_instance_id="first")
        poll_until(have_equal_parts(other, first), other, first, what="partitions for both")
        had = set(first.partitions)
        first.close()
        before = set(other.partitions)
        with closing(Member(node, topic, [topic], protocol, group_instance_id="first")) as again:
            poll_until(lambda: bool(again.partitions), other, again, what="the return")
            assert again.partitions == had
            assert other.partitions == before
            with closing(Member(node, topic, [topic], protocol, group_instance_id="first")) as second:
                # In the classic protocol the newer one fences the older one.
                refused, goes_on = (again, second) if protocol == "classic" else (second, again)
                poll_until(lambda: bool(refused.errors), other, again, second, what="an error of one of the two")
                assert refused.errors[0].code() == KafkaError._FATAL
                poll_until(lambda: goes_on.partitions == had, other, goes_on, what="the partitions of the other one")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_what_is_committed_is_where_a_member_goes_on(node: NodeProcess, topic: str, protocol: str) -> None:
    produce(node, topic, range(60))
    manual = {"enable_auto_commit": False, "enable_auto_offset_store": False}
    with closing(Member(node, topic, [topic], protocol, **manual)) as member:
        poll_until(lambda: len(member.read) == 60, member, what="60 records")
        offsets = [TopicPartition(topic, 0, 4, metadata="four"), TopicPartition(topic, 1, 5)]
        (committed, _) = member.consumer.commit(offsets=offsets, asynchronous=False)
        assert committed.error is None
        member.consumer.store_offsets(offsets=[TopicPartition(topic, 2, 6)])
        member.consumer.commit(asynchronous=False)
        found = member.consumer.committed([TopicPartition(topic, partition) for partition in range(4)], 30)
        assert [partition.offset for partition in found] == [4, 5, 6, -1001]
        assert found[0].metadata == "four"
        member.consumer.seek(TopicPartition(topic, 3, 8))
        member.consumer.pause([TopicPartition(topic, 4)])
        member.read.clear()
        produce(node, topic, [64, 65])
        poll_until(lambda: {51, 57, 65} <= set(member.read), member, what="the records after the seek")
        assert 64 not in member.read
        member.consumer.resume([TopicPartition(topic, 4)])
        poll_until(lambda: 64 in member.read, member, what="the record of the paused partition")
    with closing(Member(node, topic, [topic], protocol, **manual)) as again:
        poll_until(lambda: len(again.read) == 62 - 4 - 5 - 6, again, what="what was not committed")
        assert sorted(number for number in again.read if number % PARTITIONS == 0) == [24, 30, 36, 42, 48, 54]


def test_a_member_that_the_coordinator_does_not_know_joins_again(node: NodeProcess, topic: str) -> None:
    with closing(Member(node, topic, [topic], "consumer")) as member, closing(RawClient(node.port)) as raw:
        poll_until(lambda: len(member.partitions) == PARTITIONS, member, what="all partitions")
        member_id = member.consumer.memberid()
        leaving = ConsumerGroupHeartbeatRequest(group_id=topic, member_id=member_id, member_epoch=-1)
        assert raw.call(leaving).error_code == 0
        poll_until(lambda: bool(member.lost), member, what="the loss of all partitions")
        assert [len(partitions) for partitions in member.lost] == [PARTITIONS]
        poll_until(lambda: len(member.partitions) == PARTITIONS, member, what="the return")
        produce(node, topic, range(6))
        poll_until(lambda: sorted(member.read) == [*range(6)], member, what="the records")


def test_the_member_chooses_the_assignor_of_the_server(node: NodeProcess, topic: str) -> None:
    with ExitStack() as closes:
        members = [
            closes.enter_context(closing(Member(node, topic, [topic], "consumer", group_remote_assignor="range")))
            for _ in range(2)
        ]
        poll_until(have_equal_parts(*members), *members, what="partitions for both")
        for member in members:
            partitions = sorted(partition for _, partition in member.partitions)
            assert partitions in ([0, 1, 2], [3, 4, 5])
        with closing(Member(node, f"{topic}-x", [topic], "consumer", group_remote_assignor="mine")) as refused:
            poll_until(lambda: bool(refused.errors), refused, what="the refusal")
            assert "assignor" in refused.errors[0].str()


def test_a_group_is_administered(node: NodeProcess, topic: str) -> None:
    produce(node, topic, range(12))
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    with closing(Member(node, topic, [topic], "consumer", group_instance_id="first")) as member:
        poll_until(lambda: len(member.read) == 12, member, what="12 records")
        described = admin.describe_consumer_groups([topic])[topic].result(30)
        assert (described.state.name, described.type.name) == ("STABLE", "CONSUMER")
        assert described.partition_assignor == "uniform"
        [found] = described.members
        assert (found.member_id, found.group_instance_id) == (member.consumer.memberid(), "first")
        assert _names(found.assignment.topic_partitions) == member.partitions
        assert _names(found.target_assignment.topic_partitions) == member.partitions
        with pytest.raises(KafkaException) as refused:
            admin.delete_consumer_groups([topic])[topic].result(30)
        assert refused.value.args[0].code() == KafkaError.NON_EMPTY_GROUP
    listed = admin.list_consumer_groups(states=None).result(30)
    assert topic in {group.group_id for group in listed.valid}
    ends = admin.list_offsets({TopicPartition(topic, 0): OffsetSpec.latest()})
    assert next(iter(ends.values())).result(30).offset == 2


def test_share_consumers_accept_release_and_reject(node: NodeProcess, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    earliest = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, topic, incremental_configs=[earliest])
    for altered in admin.incremental_alter_configs([resource]).values():
        altered.result(30)
    produce(node, topic, range(30))
    settings = {"group.id": topic, "share.acknowledgement.mode": "explicit"}
    consumer = ShareConsumer({"bootstrap.servers": node.bootstrap_servers, "log_level": 0, **settings})
    consumer.subscribe([topic])
    deliveries: dict[int, list[int]] = {}

    def is_done() -> bool:
        for message in consumer.poll(0.2):
            assert message.error() is None
            number, count = int(message.value()), len(deliveries.get(int(message.value()), []))
            deliveries.setdefault(number, []).append(message.delivery_count())
            consumer.acknowledge(message, _verdict(number, count))
        return set(deliveries) == set(range(30)) and all(len(deliveries[number]) == 2 for number in range(0, 30, 3))

    wait_until(is_done, what="all deliveries", timeout_s=90)
    assert all(error is None for error in (consumer.commit_sync(30) or {}).values())
    consumer.close()
    assert deliveries == {number: [1, 2] if number % 3 == 0 else [1] for number in range(30)}


def _verdict(number: int, count: int) -> AcknowledgeType:
    """Multiples of 3 are released once, and those of 5 rejected."""
    if number % 3 == 0 and count == 0:
        return AcknowledgeType.RELEASE
    return AcknowledgeType.REJECT if number % 5 == 0 else AcknowledgeType.ACCEPT
