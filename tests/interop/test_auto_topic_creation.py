"""Topics that clients name are created when ``auto.create.topics.enable`` and the client allow it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.interop.raw_client import RawClient
from tests.peers.barnabas_node import BarnabasNode, running_barnabas

pytestmark = [
    pytest.mark.interop,
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]

PARTITIONS = 3


@pytest.fixture(scope="module")
def creating(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasNode]:
    """A node that creates what is asked for, with three partitions."""
    with running_barnabas(tmp_path_factory.mktemp("creating"), settings={"num.partitions": str(PARTITIONS)}) as node:
        yield node
        assert "Traceback" not in node.printed()


@pytest.fixture(scope="module")
def failing_fast(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasNode]:
    """A node that can't create what it is asked for, and says so."""
    settings = {"barnabas.metadata.autocreate.fail.fast": "true", "default.replication.factor": "3"}
    with running_barnabas(tmp_path_factory.mktemp("failing"), settings=settings) as node:
        yield node
        assert "Traceback" not in node.printed()


@pytest.mark.parametrize(
    ("version", "code"),
    [
        (13, ErrorCode.INVALID_REPLICATION_FACTOR),
        (10, ErrorCode.INVALID_REPLICATION_FACTOR),
        (9, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
def test_a_client_learns_why_its_topic_is_not_made(failing_fast: BarnabasNode, version: int, code: ErrorCode) -> None:
    name = f"hopeless-{version}"
    assert ask(failing_fast, name, version=version)[name].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    deadline = time.monotonic() + 3
    found = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    while found == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and time.monotonic() < deadline:
        found = ErrorCode(ask(failing_fast, name, version=version)[name].error_code)
    assert found is code


@pytest.fixture(scope="module")
def refusing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BarnabasNode]:
    with running_barnabas(tmp_path_factory.mktemp("refusing"), settings={"auto.create.topics.enable": "false"}) as node:
        yield node
        assert "Traceback" not in node.printed()


def ask(node: BarnabasNode, *names: str, version: int = 12, **fields: Any) -> dict[str, Any]:
    client = RawClient(node.port)
    try:
        topics = [MetadataRequestTopic(name=name) for name in names]
        answer = client.call(MetadataRequest(topics=topics, **fields), version)
        return {topic.name: topic for topic in answer.topics}
    finally:
        client.close()


def every_topic(node: BarnabasNode) -> set[str]:
    client = RawClient(node.port)
    try:
        return {topic.name for topic in client.call(MetadataRequest(topics=None), 12).topics}
    finally:
        client.close()


def wait_for(node: BarnabasNode, name: str) -> Any:
    """The topic, once it is there."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        topic = ask(node, name, allow_auto_topic_creation=False)[name]
        if topic.error_code == 0:
            return topic
        time.sleep(0.02)
    raise AssertionError(f"{name} did not appear")


@pytest.mark.parametrize("version", [0, 3, 4, 8, 9, 12, 13])
def test_a_named_topic_is_created_with_the_settings_of_the_node(creating: BarnabasNode, version: int) -> None:
    name = f"asked-in-{version}"
    assert ask(creating, name, version=version)[name].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert len(wait_for(creating, name).partitions) == PARTITIONS


def test_a_producer_and_a_consumer_find_topics_that_were_not_there(creating: BarnabasNode) -> None:
    from confluent_kafka import Producer
    from kafka import KafkaConsumer

    producer = Producer({"bootstrap.servers": creating.bootstrap})
    reports: list[Any] = []
    producer.produce("produced-to", b"value", on_delivery=lambda error, message: reports.append(error))
    assert producer.flush(20) == 0
    assert reports == [None]
    assert len(wait_for(creating, "produced-to").partitions) == PARTITIONS

    # librdkafka's consumer asks without wanting a topic to be made, whatever it is told.
    consumer = KafkaConsumer("fetched-from", bootstrap_servers=creating.bootstrap, group_id="finds")
    deadline = time.monotonic() + 20
    while "fetched-from" not in every_topic(creating) and time.monotonic() < deadline:
        consumer.poll(100)
    consumer.close()
    assert len(wait_for(creating, "fetched-from").partitions) == PARTITIONS


def test_a_client_may_say_no(creating: BarnabasNode) -> None:
    asked = ask(creating, "unwanted", allow_auto_topic_creation=False)
    assert asked["unwanted"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    time.sleep(0.3)
    asked = ask(creating, "unwanted", allow_auto_topic_creation=False)
    assert asked["unwanted"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_an_impossible_name_is_named_as_such(creating: BarnabasNode) -> None:
    assert ask(creating, "not a name")["not a name"].error_code == ErrorCode.INVALID_TOPIC_EXCEPTION


def test_a_node_may_say_no(refusing: BarnabasNode) -> None:
    for _ in range(2):
        asked = ask(refusing, "nowhere", allow_auto_topic_creation=True)
        assert asked["nowhere"].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        time.sleep(0.2)


def test_a_node_that_refuses_still_makes_its_own_topics(refusing: BarnabasNode) -> None:
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
