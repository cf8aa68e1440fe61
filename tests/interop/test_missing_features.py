"""Clients that request unsupported features fail immediately, with the reason, and the node's log names them."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from confluent_kafka import Consumer, KafkaException, Producer

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


def test_librdkafkas_transactional_producer(barnabas_node: Node) -> None:
    name = "rdkafka-transactional"
    producer = Producer(
        {"bootstrap.servers": barnabas_node.bootstrap_servers, "transactional.id": "tx", "client.id": name}
    )
    with pytest.raises(KafkaException) as failed:
        producer.init_transactions(LIMIT_S)
    error = failed.value.args[0]
    assert error.fatal()
    assert "This broker does not support transactions" in error.str()
    printed = barnabas_node.log
    assert f"client '{name}' (confluent-kafka-python" in printed
    assert "of User:ANONYMOUS requests transactions" in printed


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


def test_kafka_pythons_transactional_producer(barnabas_node: Node) -> None:
    from kafka import KafkaProducer

    producer = KafkaProducer(
        bootstrap_servers=barnabas_node.bootstrap_servers, transactional_id="tx", max_block_ms=int(LIMIT_S * 1000)
    )
    with pytest.raises(Exception, match="UnsupportedVersionError"):
        producer.init_transactions()
    producer.close(timeout=0)


def test_aiokafkas_transactional_producer(barnabas_node: Node) -> None:
    import aiokafka

    async def start() -> Any:
        producer = aiokafka.AIOKafkaProducer(bootstrap_servers=barnabas_node.bootstrap_servers, transactional_id="tx")
        try:
            async with asyncio.timeout(LIMIT_S):
                await producer.start()
        finally:
            await producer.stop()

    with pytest.raises(aiokafka.errors.TransactionalIdAuthorizationFailed):
        asyncio.run(start())


def test_clients_of_java(barnabas_node: Node, kafka_peer: Any) -> None:
    outcomes = dict(
        line.split(": ", 1) for line in run_source("MissingFeatures", barnabas_node.bootstrap_servers).splitlines()
    )
    assert "slow" not in outcomes
    assert "This broker does not support transactions" in outcomes["transactions"]
    assert "UnsupportedVersionException" in outcomes["consumer"]
    assert "group.protocol=classic" in outcomes["consumer"]
    assert "UnsupportedVersionException" in outcomes["share"]
