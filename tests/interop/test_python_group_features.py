"""What kafka-python and aiokafka do with groups beyond reading, on our node as on a real Kafka 4.3.1: administration,
static members and assignors.

Several members in one process are left to aiokafka. The leader of kafka-python 3.0.12 may join again without end when
its metadata is refreshed while it assigns, on Kafka too.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from importlib import import_module
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from tests.peers import KafkaNode
from tests.peers.command_node import CommandNode
from tests.peers.kinds import KAFKA, run_on_each_kind
from tests.peers.node_process import NodeProcess
from tests.peers.quorums import wait_until

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(240),
    # Warnings of the client libraries are not ours.
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

PARTITIONS = 4


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    run_on_each_kind(metafunc, "node")


@pytest.fixture(scope="module")
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeProcess]:
    kind = KafkaNode if request.param == KAFKA else CommandNode
    node: NodeProcess = kind(tmp_path_factory.mktemp("python"))
    node.start()
    yield node
    node.stop()
    if request.param != KAFKA:
        assert "Traceback" not in node.printed()


@pytest.fixture
def topic(node: NodeProcess, request: pytest.FixtureRequest) -> str:
    """A topic with 40 records."""
    name = re.sub(r"[^a-z-]+", "-", request.node.name.removeprefix("test_").replace("_", "-"))[:120]
    admin = AdminClient({"bootstrap.servers": node.bootstrap_servers})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    producer = Producer({"bootstrap.servers": node.bootstrap_servers})
    for number in range(40):
        producer.produce(name, str(number), partition=number % PARTITIONS)
    assert producer.flush(30) == 0
    return name


def kafka_python(node: NodeProcess, topic: str, **settings: Any) -> Any:
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        bootstrap_servers=node.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        metadata_max_age_ms=1000,
        **settings,
    )
    consumer.partitions_for_topic(topic)
    consumer.subscribe([topic])
    return consumer


def poll_until(is_true: Callable[[], bool], *consumers: Any, what: str) -> None:
    def is_true_now() -> bool:
        for consumer in consumers:
            consumer.poll(timeout_ms=100)
        return is_true()

    wait_until(is_true_now, what=what, timeout_s=90)


def parts_of(*consumers: Any) -> list[set[int]]:
    return [{partition.partition for partition in consumer.assignment()} for consumer in consumers]


def are_shared(*consumers: Any) -> Callable[[], bool]:
    return lambda: (
        sorted(len(part) for part in parts_of(*consumers)) == [PARTITIONS // len(consumers)] * len(consumers)
        and set().union(*parts_of(*consumers)) == set(range(PARTITIONS))
    )


def test_kafka_python_is_administered(node: NodeProcess, topic: str) -> None:
    from kafka import KafkaAdminClient, TopicPartition
    from kafka.structs import OffsetAndMetadata

    first = TopicPartition(topic, 0)
    with closing(KafkaAdminClient(bootstrap_servers=node.bootstrap_servers)) as admin:
        with closing(kafka_python(node, topic, client_id="worker")) as consumer:
            poll_until(are_shared(consumer), consumer, what="all partitions")
            consumer.commit({first: OffsetAndMetadata(7, "seven", -1)})
            described = admin.describe_groups([topic])[topic]
            assert described["group_state"] == "Stable"
            [member] = described["members"]
            assert member["client_id"] == "worker"
        assert topic in {group["group_id"] for group in admin.list_groups()}
        assert admin.list_group_offsets([topic])[topic][first].offset == 7
        admin.alter_group_offsets(topic, {first: OffsetAndMetadata(3, "", -1)})
        assert admin.list_group_offsets([topic])[topic][first].offset == 3
        admin.delete_group_offsets(topic, [first])
        assert first not in admin.list_group_offsets([topic])[topic]
        admin.delete_groups([topic])
        assert topic not in {group["group_id"] for group in admin.list_groups()}


async def _poll_until(is_true: Callable[[], bool], *consumers: Any) -> None:
    async with asyncio.timeout(90):
        while not is_true():
            for consumer in consumers:
                await consumer.getmany(timeout_ms=100)


def aiokafka(node: NodeProcess, topic: str, **settings: Any) -> Any:
    from aiokafka import AIOKafkaConsumer

    return AIOKafkaConsumer(
        topic,
        bootstrap_servers=node.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        **settings,
    )


def test_a_static_member_of_aiokafka_returns_to_its_partitions(node: NodeProcess, topic: str) -> None:
    async def leave_and_return() -> None:
        other, first, again = (aiokafka(node, topic, group_instance_id=name) for name in ("other", "first", "first"))
        await other.start()
        await first.start()
        await _poll_until(are_shared(other, first), other, first)
        [kept, had] = parts_of(other, first)
        await first.stop()
        await again.start()
        await _poll_until(lambda: parts_of(again) == [had], other, again)
        assert parts_of(other) == [kept]
        await asyncio.gather(other.stop(), again.stop())

    asyncio.run(leave_and_return())


@pytest.mark.parametrize(
    "assignor",
    [
        "range.RangePartitionAssignor",
        "roundrobin.RoundRobinPartitionAssignor",
        "sticky.sticky_assignor.StickyPartitionAssignor",
    ],
)
def test_members_of_aiokafka_share_with_each_assignor(node: NodeProcess, topic: str, assignor: str) -> None:
    module, _, name = assignor.rpartition(".")
    chosen = getattr(import_module(f"aiokafka.coordinator.assignors.{module}"), name)

    async def come_and_go() -> None:
        first, second = (aiokafka(node, topic, partition_assignment_strategy=(chosen,)) for _ in range(2))
        await first.start()
        await _poll_until(are_shared(first), first)
        await second.start()
        await _poll_until(are_shared(first, second), first, second)
        await second.stop()
        await _poll_until(are_shared(first), first)
        await first.stop()

    asyncio.run(come_and_go())


def test_aiokafka_describes_groups(node: NodeProcess, topic: str) -> None:
    from aiokafka import TopicPartition
    from aiokafka.admin import AIOKafkaAdminClient

    async def with_admin(call: Callable[[Any], Coroutine[Any, Any, Any]]) -> Any:
        admin = AIOKafkaAdminClient(bootstrap_servers=node.bootstrap_servers)
        await admin.start()
        try:
            return await call(admin)
        finally:
            await admin.close()

    async def commit_and_describe() -> None:
        consumer = aiokafka(node, topic)
        await consumer.start()
        await _poll_until(are_shared(consumer), consumer)
        await consumer.commit({TopicPartition(topic, 1): 5})
        assert (topic, "consumer") in await with_admin(lambda admin: admin.list_consumer_groups())
        [described] = await with_admin(lambda admin: admin.describe_consumer_groups([topic]))
        assert [(group[1], group[2]) for group in described.groups] == [(topic, "Stable")]
        offsets = await with_admin(lambda admin: admin.list_consumer_group_offsets(topic))
        assert {partition: found.offset for partition, found in offsets.items()} == {TopicPartition(topic, 1): 5}
        await consumer.stop()

    asyncio.run(commit_and_describe())
