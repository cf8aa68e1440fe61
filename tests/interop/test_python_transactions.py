"""Transactional producers of librdkafka, kafka-python and aiokafka commit and abort; readers see what was committed."""

from __future__ import annotations

import asyncio
from contextlib import closing
from uuid import uuid4

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

from barnabas.testing import Node

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LIMIT_S = 20.0


@pytest.fixture
def topic(barnabas_node: Node) -> str:
    name = f"transactions-{uuid4().hex[:8]}"
    barnabas_node.create_topic(name, partitions=2)
    return name


def committed(node: Node, topic: str) -> set[bytes | None]:
    return {record.value for record in node.consume(topic, read_committed=True)}


def everything(node: Node, topic: str) -> set[bytes | None]:
    return {record.value for record in node.consume(topic)}


def test_librdkafka(barnabas_node: Node, topic: str) -> None:
    settings = {"bootstrap.servers": barnabas_node.bootstrap_servers}
    producer = Producer({**settings, "transactional.id": topic})
    producer.init_transactions(LIMIT_S)
    for name, is_commit in (("a", True), ("b", False), ("c", True)):
        producer.begin_transaction()
        for partition in range(2):
            producer.produce(topic, f"{name}{partition}", partition=partition)
        if is_commit:
            producer.commit_transaction(LIMIT_S)
        else:
            producer.flush(LIMIT_S)
            producer.abort_transaction(LIMIT_S)
    assert committed(barnabas_node, topic) == {b"a0", b"a1", b"c0", b"c1"}
    assert everything(barnabas_node, topic) == {b"a0", b"a1", b"b0", b"b1", b"c0", b"c1"}


def test_librdkafka_commits_offsets_with_its_records(barnabas_node: Node, topic: str) -> None:
    settings = {"bootstrap.servers": barnabas_node.bootstrap_servers}
    barnabas_node.produce(topic, [f"{number}" for number in range(10)])
    consumer = Consumer({**settings, "group.id": topic, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer.subscribe([topic])
    for _ in range(10):
        assert consumer.poll(LIMIT_S) is not None
    producer = Producer({**settings, "transactional.id": topic})
    producer.init_transactions(LIMIT_S)

    def offsets() -> int:
        return sum(max(found.offset, 0) for found in consumer.committed(consumer.assignment(), timeout=LIMIT_S))

    for is_commit in (False, True):
        producer.begin_transaction()
        producer.produce(topic, "out")
        producer.send_offsets_to_transaction(
            consumer.position(consumer.assignment()), consumer.consumer_group_metadata(), LIMIT_S
        )
        if is_commit:
            producer.commit_transaction(LIMIT_S)
        else:
            producer.abort_transaction(LIMIT_S)
        assert offsets() == (10 if is_commit else 0)
    consumer.close()


def test_a_second_librdkafka_fences_the_first(barnabas_node: Node, topic: str) -> None:
    settings = {"bootstrap.servers": barnabas_node.bootstrap_servers, "transactional.id": topic}
    first, second = Producer(settings), Producer(settings)
    first.init_transactions(LIMIT_S)
    first.begin_transaction()
    first.produce(topic, "zombie")
    first.flush(LIMIT_S)
    second.init_transactions(LIMIT_S)
    with pytest.raises(KafkaException) as fenced:
        first.commit_transaction(LIMIT_S)
    assert fenced.value.args[0].fatal()
    assert committed(barnabas_node, topic) == set()


def test_kafka_python(barnabas_node: Node, topic: str) -> None:
    from kafka import KafkaProducer

    settings = {"bootstrap_servers": barnabas_node.bootstrap_servers, "max_block_ms": int(LIMIT_S * 1000)}
    with closing(KafkaProducer(**settings, transactional_id=topic)) as producer:
        producer.init_transactions()
        for value, is_commit in ((b"a", True), (b"b", False)):
            producer.begin_transaction()
            producer.send(topic, value).get(LIMIT_S)
            if is_commit:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    assert committed(barnabas_node, topic) == {b"a"}


def test_aiokafka(barnabas_node: Node, topic: str) -> None:
    import aiokafka

    async def produce() -> None:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=barnabas_node.bootstrap_servers, transactional_id=topic)
        async with asyncio.timeout(LIMIT_S), producer:
            async with producer.transaction():
                await producer.send_and_wait(topic, b"a")
            await producer.begin_transaction()
            await producer.send_and_wait(topic, b"b")
            await producer.abort_transaction()

    asyncio.run(produce())
    assert committed(barnabas_node, topic) == {b"a"}
    assert everything(barnabas_node, topic) == {b"a", b"b"}
