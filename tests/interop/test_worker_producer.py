"""The producer of a worker whose Spark is elsewhere: batches that Spark has computed, in transactions."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from barnabas.clients.producer.transaction_errors import ProducerFenced
from barnabas.common.topic_partition import TopicPartition
from barnabas.connect.decide.tasks.task_runtime import TopicRecord
from barnabas.connect_spark.queries.worker_producer import WorkerProducer
from barnabas.testing import Node

pytestmark = [pytest.mark.interop, pytest.mark.timeout(300)]

_SCHEMA = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def frame(*rows: dict[str, Any]) -> Any:
    """A DataFrame of Spark's, as far as the producer uses it."""
    table = pa.Table.from_pylist([*rows], schema=_SCHEMA)
    return SimpleNamespace(toArrow=lambda: table)


def row(topic: str, value: bytes, **others: Any) -> dict[str, Any]:
    return {"topic": topic, "value": value, **others}


def committed(node: Node, topic: str, partitions: int = 1) -> list[Any]:
    """Read all committed records with librdkafka, by partition."""
    settings = {"bootstrap.servers": node.bootstrap_servers, "group.id": "reader", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "isolation.level": "read_committed", "enable.partition.eof": True})
    consumer.assign([Position(topic, partition, 0) for partition in range(partitions)])
    found: list[Any] = []
    ended = 0
    try:
        while ended < partitions:
            message = consumer.poll(60)
            assert message is not None
            if message.error() is None:
                found.append(message)
            else:
                ended += 1
    finally:
        consumer.close()
    return sorted(found, key=lambda message: (message.partition(), message.offset()))


@pytest.fixture
def topic(barnabas_node: Node) -> str:
    name = f"t-{uuid4().hex[:8]}"
    barnabas_node.create_topic(name, partitions=2)
    return name


@pytest.fixture
def producer(barnabas_node: Node) -> Iterator[WorkerProducer]:
    made = WorkerProducer({"bootstrap.servers": barnabas_node.bootstrap_servers, "linger.ms": "0"}, "workers-c-0")
    made.init_transactions()
    yield made
    made.close()


def test_a_batch_its_positions_and_offsets_of_a_group_are_one_transaction(
    barnabas_node: Node, producer: WorkerProducer, topic: str
) -> None:
    producer.begin()
    headers = [{"key": "h", "value": b"1"}, {"key": "n", "value": None}]
    producer.write(frame(row(topic, b"a", partition=1, key=b"k", headers=headers), row(topic, b"b", partition=1)))
    producer.write(frame(row(topic, b"c", partition=0), row(topic, b"d", partition=0)))
    producer.send([TopicRecord(topic, b"position", None)])
    producer.send_offsets("group", {TopicPartition(topic, 0): 7})
    assert committed(barnabas_node, topic, 2) == []
    producer.commit()
    found = committed(barnabas_node, topic, 2)
    values = [(message.partition(), message.value()) for message in found if message.key() != b"position"]
    assert values == [(0, b"c"), (0, b"d"), (1, b"a"), (1, b"b")]
    (first,) = [message for message in found if message.key() == b"k"]
    assert first.headers() == [("h", b"1"), ("n", None)]
    with barnabas_node.admin() as admin:
        offsets = admin.list_group_offsets(["group"])["group"].raise_for_errors()
    assert offsets[TopicPartition(topic, 0)].offset == 7


def test_an_aborted_batch_is_not_seen(barnabas_node: Node, producer: WorkerProducer, topic: str) -> None:
    producer.begin()
    producer.write(frame(row(topic, b"a", partition=0)))
    producer.abort()
    producer.begin()
    producer.write(frame(row(topic, b"b", partition=0)))
    producer.commit()
    assert [message.value() for message in committed(barnabas_node, topic)] == [b"b"]


def test_a_later_producer_fences_an_earlier_one(barnabas_node: Node, producer: WorkerProducer, topic: str) -> None:
    producer.begin()
    producer.write(frame(row(topic, b"a", partition=0)))
    successor = WorkerProducer({"bootstrap.servers": barnabas_node.bootstrap_servers}, "workers-c-0")
    successor.init_transactions()
    with pytest.raises(ProducerFenced):
        producer.commit()
    successor.close()
    assert committed(barnabas_node, topic) == []
