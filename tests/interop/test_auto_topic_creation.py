"""Topics that clients name are created when ``auto.create.topics.enable`` and the client allow it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from barnabas.common.config_codes import ConfigResourceType
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from barnabas.testing import Node
from tests.interop.raw_client import RawClient
from tests.peers import KafkaNode, running_kafka

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PARTITIONS = 3
_OF_THE_TOPIC = 1
"""The source of a config that was set on the topic itself."""


@pytest.fixture(scope="module")
def creating() -> Iterator[Node]:
    """A node that creates missing topics with three partitions."""
    with Node(settings={"num.partitions": str(PARTITIONS)}) as node:
        yield node
        node.stop()
        assert "Traceback" not in node.log


@pytest.fixture(scope="module")
def failing_fast() -> Iterator[Node]:
    """A node that fails to create missing topics, and reports the error."""
    settings = {"barnabas.metadata.autocreate.fail.fast": "true", "default.replication.factor": "3"}
    with Node(settings=settings) as node:
        yield node
        node.stop()
        assert "Traceback" not in node.log


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (13, ErrorCode.INVALID_REPLICATION_FACTOR),
        (10, ErrorCode.INVALID_REPLICATION_FACTOR),
        (9, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_client_learns_why_its_topic_is_not_created(failing_fast: Node, version: int, code: ErrorCode) -> None:
    name = f"hopeless-{version}"
    assert ask(failing_fast, name, version=version)[name].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    deadline = time.monotonic() + 3
    found = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    while found == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and time.monotonic() < deadline:
        found = ErrorCode(ask(failing_fast, name, version=version)[name].error_code)
    assert found is code


@pytest.fixture(scope="module")
def refusing() -> Iterator[Node]:
    with Node(settings={"auto.create.topics.enable": "false"}) as node:
        yield node
        node.stop()
        assert "Traceback" not in node.log


def ask(node: KafkaNode | Node, *names: str, version: int = 12, **fields: Any) -> dict[str, Any]:
    client = RawClient(node.port)
    try:
        topics = [MetadataRequestTopic(name=name) for name in names]
        answer = client.call(MetadataRequest(topics=topics, **fields), version)
        return {topic.name: topic for topic in answer.topics}
    finally:
        client.close()


def every_topic(node: Node) -> set[str]:
    client = RawClient(node.port)
    try:
        return {topic.name for topic in client.call(MetadataRequest(topics=None), 12).topics}
    finally:
        client.close()


def wait_for(node: KafkaNode | Node, name: str) -> Any:
    """Return the topic once it exists."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        topic = ask(node, name, allow_auto_topic_creation=False)[name]
        if topic.error_code == 0:
            return topic
        time.sleep(0.02)
    raise AssertionError(f"{name} did not appear")


@pytest.mark.parametrize("version", [0, 3, 4, 8, 9, 12, 13])
def test_a_named_topic_is_created_with_the_settings_of_the_node(creating: Node, version: int) -> None:
    name = f"asked-in-{version}"
    assert ask(creating, name, version=version)[name].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(wait_for(creating, name).partitions) == PARTITIONS


def test_a_producer_and_a_consumer_create_missing_topics(creating: Node) -> None:
    from confluent_kafka import Producer
    from kafka import KafkaConsumer

    producer = Producer({"bootstrap.servers": creating.bootstrap_servers})
    reports: list[Any] = []
    producer.produce("produced-to", b"value", on_delivery=lambda error, message: reports.append(error))
    assert producer.flush(20) == 0
    assert reports == [None]
    assert len(wait_for(creating, "produced-to").partitions) == PARTITIONS

    # librdkafka's consumer never asks for topic creation, whatever its settings are.
    settings = {"bootstrap_servers": creating.bootstrap_servers, "group_id": "finds"}
    with closing(KafkaConsumer("fetched-from", **settings)) as consumer:
        deadline = time.monotonic() + 20
        while "fetched-from" not in every_topic(creating) and time.monotonic() < deadline:
            consumer.poll(100)
    assert len(wait_for(creating, "fetched-from").partitions) == PARTITIONS


def test_a_client_can_disable_auto_creation(creating: Node) -> None:
    found = ask(creating, "unwanted", allow_auto_topic_creation=False)
    assert found["unwanted"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    time.sleep(0.3)
    found = ask(creating, "unwanted", allow_auto_topic_creation=False)
    assert found["unwanted"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_invalid_topic_name_is_rejected(creating: Node) -> None:
    assert ask(creating, "not a name")["not a name"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_node_can_disable_auto_creation(refusing: Node) -> None:
    for _ in range(2):
        found = ask(refusing, "nowhere", allow_auto_topic_creation=True)
        assert found["nowhere"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        time.sleep(0.2)


def test_a_node_without_auto_creation_still_creates_internal_topics(refusing: Node) -> None:
    from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest

    client = RawClient(refusing.port)
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        answer = client.call(FindCoordinatorRequest(key="a-group"), 3)
        if answer.error_code == 0:
            break
        assert answer.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
        time.sleep(0.05)
    client.close()
    assert answer.error_code == 0
    assert len(wait_for(refusing, "__consumer_offsets").partitions) == 4


INTERNAL = ("__consumer_offsets", "__share_group_state", "__transaction_state")


def described_internal_topics(node: KafkaNode | Node) -> dict[str, Any]:
    """Create each internal topic by naming it in Metadata; return its partitions and its own configs."""
    ask(node, *INTERNAL)
    counts = {name: len(wait_for(node, name).partitions) for name in INTERNAL}
    client = RawClient(node.port)
    resources = [
        DescribeConfigsResource(resource_type=ConfigResourceType.TOPIC, resource_name=name, configuration_keys=None)
        for name in INTERNAL
    ]
    results = client.call(DescribeConfigsRequest(resources=resources), 4).results
    client.close()
    return {
        result.resource_name: (
            counts[result.resource_name],
            {config.name: config.value for config in result.configs if config.config_source == _OF_THE_TOPIC},
        )
        for result in results
    }


def test_internal_topics_that_clients_name_are_created_with_kafkas_settings(kafka_peer: Path, tmp_path: Path) -> None:
    settings = {
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.segment.bytes": "2000000",
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.num.partitions": "5",
        "share.coordinator.state.topic.replication.factor": "1",
        "share.coordinator.state.topic.segment.bytes": "3000000",
        "share.coordinator.state.topic.min.isr": "1",
        "offsets.topic.segment.bytes": "4000000",
    }
    with running_kafka(tmp_path / "kafka", settings=settings) as kafka:
        theirs = described_internal_topics(kafka)
    with Node(settings=settings) as ours:
        assert described_internal_topics(ours) == theirs
    assert theirs["__transaction_state"][0] == 3
