"""The stand-in for testcontainers' KafkaContainer serves a client of another library."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer

from barnabas.testing.containers import KafkaContainer

pytestmark = pytest.mark.interop


def test_a_client_reaches_it_as_it_reaches_a_container() -> None:
    image = "confluentinc/cp-kafka:7.6.0"
    with KafkaContainer(image).with_kraft().with_env("KAFKA_NUM_PARTITIONS", "5") as kafka:
        server = kafka.get_bootstrap_server()
        assert server == f"{kafka.get_container_host_ip()}:{kafka.get_exposed_port(9093)}"
        failures: list[object] = []
        producer = Producer({"bootstrap.servers": server})
        producer.produce("orders", b"value", callback=lambda error, _: failures.append(error))
        producer.flush(20)
        assert failures == [None]
        with kafka.node.admin() as admin:
            assert len(admin.describe_topics(["orders"])["orders"].partitions) == 5
        assert b"is ready in" in kafka.get_logs()[0]
    assert not hasattr(kafka, "get_bootstrap_servers")


def test_it_starts_and_stops_without_a_with_block() -> None:
    kafka = KafkaContainer().with_cluster_id("MkU3OEVBNTcwNTJENDM2Qk")
    kafka.start(timeout=60)
    kafka.start()
    with kafka.node.admin() as admin:
        assert admin.describe_cluster().cluster_id == "MkU3OEVBNTcwNTJENDM2Qk"
    kafka.stop()
    kafka.stop()
