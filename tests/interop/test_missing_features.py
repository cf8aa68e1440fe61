"""Clients that request unsupported features fail immediately, with the reason, and the node's log names them."""

from __future__ import annotations

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


def test_librdkafkas_consumer_of_the_new_protocol(barnabas_node: Node) -> None:
    name = "rdkafka-consumer"
    settings = {"bootstrap.servers": barnabas_node.bootstrap_servers, "group.id": "new", "group.protocol": "consumer"}
    consumer = Consumer({**settings, "client.id": name})
    consumer.subscribe(["t"])
    message = consumer.poll(LIMIT_S)
    assert message is not None
    assert message.error() is not None
    assert "ConsumerGroupHeartbeat" in message.error().str()
    consumer.close()
    assert f"client '{name}' (confluent-kafka-python" in barnabas_node.log


def test_clients_of_java(barnabas_node: Node, kafka_peer: Any) -> None:
    outcomes = dict(
        line.split(": ", 1) for line in run_source("MissingFeatures", barnabas_node.bootstrap_servers).splitlines()
    )
    assert "slow" not in outcomes
    assert "UnsupportedVersionException" in outcomes["consumer"]
    assert "group.protocol=classic" in outcomes["consumer"]
    assert "UnsupportedVersionException" in outcomes["share"]
