"""Clients that use a disabled protocol of groups fail immediately, with the reason, and the node's log names them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka import Consumer

from barnabas.testing import Node
from tests.peers.java import run_source

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(120),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

LIMIT_S = 20.0
"""The timeout of each client; an immediate failure needs less than a second."""


@pytest.fixture(scope="module")
def node() -> Iterator[Node]:
    with Node(settings={"group.coordinator.rebalance.protocols": "classic"}) as node:
        yield node


def test_librdkafkas_consumer_of_the_consumer_protocol(node: Node) -> None:
    name = "rdkafka-consumer"
    settings = {"bootstrap.servers": node.bootstrap_servers, "group.id": "new", "group.protocol": "consumer"}
    consumer = Consumer({**settings, "client.id": name})
    consumer.subscribe(["t"])
    message = consumer.poll(LIMIT_S)
    assert message is not None
    assert message.error() is not None
    assert "ConsumerGroupHeartbeat" in message.error().str()
    consumer.close()
    assert f"client '{name}' (confluent-kafka-python" in node.log
    assert "does not support: set group.protocol=classic in the consumer" in node.log


def test_javas_consumer_of_the_consumer_protocol(node: Node, kafka_peer: Any) -> None:
    outcome = run_source("DisabledConsumer", node.bootstrap_servers)
    assert outcome.startswith("at once UnsupportedVersionException")
    assert "group.protocol=classic" in outcome
