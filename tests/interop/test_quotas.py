"""Quotas that are set while clients work: a client over its quota is throttled, and is not read; the same on a real
Kafka."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.create_topics import CreateTopicsRequest
from barnabas.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from barnabas.protocol.messages.list_groups import ListGroupsRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch
from barnabas.testing import Node
from tests.peers import KafkaNode, running_kafka
from tests.peers.admin_requests import new_topic
from tests.peers.mutation_requests import quota, quotas
from tests.peers.record_admin_answers import Connection

pytestmark = [pytest.mark.interop, pytest.mark.timeout(240)]


@pytest.fixture(scope="module", params=["ours", "kafka"])
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Node | KafkaNode]:
    running: AbstractContextManager[Node | KafkaNode] = Node()
    if request.param == "kafka":
        request.getfixturevalue("kafka_peer")
        running = running_kafka(tmp_path_factory.mktemp("quotas") / "kafka")
    with running as node:
        yield node
        assert "Traceback" not in node.log_path.read_text()


@contextmanager
def connected(node: Node | KafkaNode) -> Iterator[Connection]:
    connection = Connection(node.port)
    try:
        yield connection
    finally:
        connection.close()


def set_quota(node: Node | KafkaNode, key: str, value: float | None) -> None:
    with connected(node) as connection:
        assert connection.ask(quotas(quota([("user", "ANONYMOUS")], (key, value))), 1).entries[0].error_code == 0
    time.sleep(0.2)  # Kafka answers before its brokers apply the quota.


def topic_id(connection: Connection, name: str) -> object:
    connection.ask(CreateTopicsRequest(topics=[new_topic(name)], timeout_ms=10_000), 7)
    for _ in range(50):
        found = connection.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 12).topics[0]
        if found.error_code == 0:
            return found.topic_id
        time.sleep(0.1)
    raise AssertionError(f"{name} is missing")


def produce(name: str, size: int) -> ProduceRequest:
    batch = build_batch([Record(0, int(time.time() * 1000), b"", bytes(size), ())])
    data = TopicProduceData(name=name, partition_data=[PartitionProduceData(index=0, records=batch)])
    return ProduceRequest(acks=1, timeout_ms=5000, topic_data=[data])


def test_a_producer_over_its_quota_waits(node: Node | KafkaNode) -> None:
    with connected(node) as connection:
        topic_id(connection, "produced")
        assert connection.ask(produce("produced", 100_000), 9).throttle_time_ms == 0
        set_quota(node, "producer_byte_rate", 10_000.0)
        time.sleep(0.5)
        throttled = [connection.ask(produce("produced", 60_000), 9).throttle_time_ms for _ in range(2)][-1]
        assert 500 < throttled <= 14_000
        began = time.monotonic()
        set_quota(node, "producer_byte_rate", None)
        connection.ask(MetadataRequest(topics=[]), 12)
        assert time.monotonic() - began > throttled / 1000 - 1
        assert connection.ask(produce("produced", 500_000), 9).throttle_time_ms == 0


def test_a_consumer_over_its_quota_waits(node: Node | KafkaNode) -> None:
    with connected(node) as connection:
        named = topic_id(connection, "fetched")
        for _ in range(10):
            connection.ask(produce("fetched", 50_000), 9)
        set_quota(node, "consumer_byte_rate", 20_000.0)
        wanted = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
        request = FetchRequest(
            max_wait_ms=100,
            min_bytes=1,
            topics=[FetchTopic(topic_id=named, partitions=[wanted])],  # type: ignore[arg-type]
        )
        answers = [connection.ask(request, 15) for _ in range(3)]  # In Kafka's answer, either may be empty.
        sizes = [sum(len(p.records or b"") for t in a.responses for p in t.partitions) for a in answers]
        assert 150_000 <= max(sizes) <= 200_000, "no more than the quota allows in ten seconds"
        assert max(answer.throttle_time_ms for answer in answers) > 500
        set_quota(node, "consumer_byte_rate", None)


def test_a_client_over_its_request_quota_waits_at_most_a_second(node: Node | KafkaNode) -> None:
    set_quota(node, "request_percentage", 0.001)
    with connected(node) as connection:
        throttled = [connection.ask(ListGroupsRequest(), 4).throttle_time_ms for _ in range(3)]
        assert max(throttled) > 0
        assert max(throttled) <= 1000
    set_quota(node, "request_percentage", None)


def test_partitions_are_not_created_faster_than_allowed(node: Node | KafkaNode) -> None:
    with connected(node) as connection:
        set_quota(node, "controller_mutation_rate", 2.0)
        first = connection.ask(CreateTopicsRequest(topics=[new_topic("mutated", 25)], timeout_ms=10_000), 7)
        assert first.topics[0].error_code == 0
        assert first.throttle_time_ms == 0
        with connected(node) as other:
            again = other.ask(CreateTopicsRequest(topics=[new_topic("mutated-2")], timeout_ms=10_000), 7)
        assert again.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert 0 < again.throttle_time_ms <= 1500
        set_quota(node, "controller_mutation_rate", None)
