"""Our producer with transactions, against our node and a real Kafka, before and since KIP-890."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import NamedTuple
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, Producer
from confluent_kafka import TopicPartition as TheirPartition

from barnabas.clients.admin import FeatureUpdate, NewTopic, OffsetAndMetadata, SyncAdminClient, UpgradeType
from barnabas.clients.client_config import client_config
from barnabas.clients.network_client import NetworkClient
from barnabas.clients.producer.config import producer_config
from barnabas.clients.producer.prepared_transaction import PreparedTransaction, end_prepared_transaction
from barnabas.clients.producer.stream_batches import StreamRecord
from barnabas.clients.producer.transaction_errors import (
    CommitFailed,
    FatalTransactionError,
    ProducerFenced,
    TransactionAbortable,
)
from barnabas.clients.producer.transaction_requests import GroupMetadata
from barnabas.clients.producer.transactional_producer import TransactionalProducer
from barnabas.common.topic_partition import TopicPartition
from barnabas.testing import Node
from tests.peers import running_kafka

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

LIMIT_S = 30.0
SIDES = [f"{side}-{version}" for side in ("barnabas", "kafka") for version in (1, 2)]


class Side(NamedTuple):
    servers: str
    version: int

    def new_topic(self) -> str:
        name = f"t-{uuid4().hex[:8]}"
        with SyncAdminClient(self.servers) as admin:
            admin.create_topics([NewTopic(name, partitions=2)], wait=True).raise_for_errors()
        return name

    def use(self, topic: str, work: Callable[[TransactionalProducer], Awaitable[None]], **properties: str) -> None:
        """Run the work with a producer whose transactional id is the topic's name."""

        async def main() -> None:
            settings = {"transactional.id": topic, "linger.ms": "0"} | properties
            config = producer_config(settings, is_transactional=True)
            async with (
                asyncio.timeout(120),
                self.network() as network,
                TransactionalProducer(network, config, timeout_s=LIMIT_S) as producer,
            ):
                await producer.init_transactions()
                await work(producer)

        asyncio.run(main())

    def network(self) -> NetworkClient:
        return NetworkClient(client_config({"bootstrap.servers": self.servers}))

    def end(self, prepared: PreparedTransaction, *, is_commit: bool) -> None:
        async def main() -> None:
            async with self.network() as network:
                await end_prepared_transaction(network, prepared, is_commit=is_commit, timeout_s=LIMIT_S)

        asyncio.run(main())

    def committed(self, topic: str) -> list[bytes]:
        """Return the values that librdkafka reads with read_committed, sorted."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "reader",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
            }
        )
        consumer.assign([TheirPartition(topic, partition, 0) for partition in range(2)])
        values, ended = [], 0
        while ended < 2:
            message = consumer.poll(LIMIT_S)
            assert message is not None, f"{values} and nothing more"
            if message.error():
                ended += 1
            else:
                values.append(message.value())
        consumer.close()
        return sorted(value for value in values if value is not None)

    def offset(self, topic: str, group: str) -> int:
        with SyncAdminClient(self.servers) as admin:
            return admin.list_group_offsets([group], require_stable=True)[group][TopicPartition(topic, 0)].offset


@pytest.fixture(scope="module", params=SIDES)
def side(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Side]:
    name, _, version = request.param.partition("-")
    if name == "barnabas":
        with Node() as node:
            yield _at_version(node.bootstrap_servers, int(version))
    else:
        request.getfixturevalue("kafka_peer")
        with running_kafka(tmp_path_factory.mktemp("kafka")) as kafka:
            yield _at_version(kafka.bootstrap_servers, int(version))


def _at_version(servers: str, version: int) -> Side:
    if version < 2:
        update = FeatureUpdate(version, UpgradeType.SAFE_DOWNGRADE)
        with SyncAdminClient(servers) as admin:
            admin.update_features({"transaction.version": update}, wait=True).raise_for_errors()
    return Side(servers, version)


async def write(producer: TransactionalProducer, topic: str, value: str) -> None:
    for partition in range(2):
        record = StreamRecord(producer.now_ms(), b"key", f"{value}{partition}".encode())
        await producer.send(topic, [record], partition=partition)


def test_commits_and_aborts(side: Side) -> None:
    topic = side.new_topic()

    async def work(producer: TransactionalProducer) -> None:
        for name in "abcdefgh":
            producer.begin()
            await write(producer, topic, name)
            if name in "bdh":
                await producer.flush()
                await producer.abort()
            else:
                await producer.commit()

    side.use(topic, work)
    assert side.committed(topic) == sorted(f"{name}{number}".encode() for name in "acefg" for number in range(2))


def test_many_batches_of_several_topics(side: Side) -> None:
    topics = [side.new_topic(), side.new_topic()]
    values = [b"%04d" % number for number in range(3000)]

    async def work(producer: TransactionalProducer) -> None:
        for start in range(0, 3000, 1000):
            async with producer.transaction():
                for topic in topics:
                    await producer.send_values(topic, values[start : start + 1000], producer.now_ms())

    side.use(topics[0], work, **{"batch.size": "1000"})
    assert side.committed(topics[0]) == side.committed(topics[1]) == values


def test_offsets_belong_to_the_transaction(side: Side) -> None:
    topic = side.new_topic()
    group = GroupMetadata(f"{topic}-group")

    async def work(producer: TransactionalProducer) -> None:
        for offset, is_commit in ((5, False), (7, True), (9, False)):
            producer.begin()
            await producer.send_offsets({TopicPartition(topic, 0): OffsetAndMetadata(offset)}, group)
            await (producer.commit() if is_commit else producer.abort())

    side.use(topic, work)
    assert side.offset(topic, group.group_id) == 7


def test_offsets_of_a_former_member_are_refused_and_the_producer_continues(side: Side) -> None:
    topic = side.new_topic()
    group = f"{topic}-group"
    consumer = Consumer({"bootstrap.servers": side.servers, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    while not consumer.assignment():
        consumer.poll(0.1)

    async def work(producer: TransactionalProducer) -> None:
        producer.begin()
        await write(producer, topic, "a")
        with pytest.raises(CommitFailed, match="UNKNOWN_MEMBER_ID"):
            await producer.send_offsets(
                {TopicPartition(topic, 0): OffsetAndMetadata(1)}, GroupMetadata(group, 1, "former-member")
            )
        await producer.abort()
        async with producer.transaction():
            await write(producer, topic, "b")

    side.use(topic, work)
    consumer.close()
    assert side.committed(topic) == [b"b0", b"b1"]


def test_a_later_producer_fences_an_earlier_one_of_another_client(side: Side) -> None:
    topic = side.new_topic()
    earlier = Producer({"bootstrap.servers": side.servers, "transactional.id": topic, "log_level": 0})
    earlier.init_transactions(LIMIT_S)
    earlier.begin_transaction()
    earlier.produce(topic, b"fenced")
    earlier.flush(LIMIT_S)

    async def work(producer: TransactionalProducer) -> None:
        async with producer.transaction():
            await write(producer, topic, "a")
        producer.begin()
        await write(producer, topic, "b")
        await producer.flush()
        later = Producer({"bootstrap.servers": side.servers, "transactional.id": topic, "log_level": 0})
        later.init_transactions(LIMIT_S)
        with pytest.raises(ProducerFenced):
            await producer.commit()

    side.use(topic, work)
    assert side.committed(topic) == [b"a0", b"a1"]


def test_a_refused_record_aborts_and_the_producer_continues(side: Side) -> None:
    topic = side.new_topic()

    async def work(producer: TransactionalProducer) -> None:
        producer.begin()
        await write(producer, topic, "a")
        await producer.flush()
        await producer.send(topic, [StreamRecord(producer.now_ms(), None, b"x" * 2_000_000)], partition=0)
        with pytest.raises(TransactionAbortable, match="MESSAGE_TOO_LARGE"):
            await producer.commit()
        await producer.abort()
        for name in "bc":
            async with producer.transaction():
                await write(producer, topic, name)

    side.use(topic, work)
    assert side.committed(topic) == [b"b0", b"b1", b"c0", b"c1"]


def test_another_process_ends_a_prepared_transaction(side: Side) -> None:
    topic = side.new_topic()

    def prepared(name: str) -> PreparedTransaction:
        found: list[PreparedTransaction] = []

        async def work(producer: TransactionalProducer) -> None:
            producer.begin()
            await write(producer, topic, name)
            found.append(await producer.prepare())

        side.use(topic, work)
        return found[0]

    first = prepared("a")
    for _ in range(2):  # A driver that restarts repeats its decision.
        side.end(first, is_commit=True)
    with pytest.raises(FatalTransactionError, match="INVALID_TXN_STATE"):
        side.end(first, is_commit=False)
    side.end(prepared("b"), is_commit=False)
    forgotten = prepared("c")
    side.end(prepared("d"), is_commit=True)
    with pytest.raises(ProducerFenced):
        side.end(forgotten, is_commit=True)
    assert side.committed(topic) == [b"a0", b"a1", b"d0", b"d1"]
