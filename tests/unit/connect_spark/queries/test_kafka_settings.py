from __future__ import annotations

import pytest

from barnabas.connect.decide.validation.connector_rules import consumer_group_of
from barnabas.connect.settings.plugin_config_def import ConfigException
from barnabas.connect_spark.queries.kafka_settings import (
    admin_settings,
    consumer_settings,
    producer_settings,
    spark_consumer_options,
    spark_producer_options,
)

WORKER = {
    "bootstrap.servers": "kafka:9092",
    "security.protocol": "SSL",
    "consumer.security.protocol": "SASL_SSL",
    "consumer.fetch.max.bytes": "5",
    "producer.compression.type": "zstd",
    "admin.request.timeout.ms": "7",
}


def test_a_task_inherits_only_the_bootstrap_servers_and_settings_with_its_prefix() -> None:
    assert admin_settings(WORKER, {}) == {"bootstrap.servers": "kafka:9092", "request.timeout.ms": "7"}
    assert consumer_settings(WORKER, {})["security.protocol"] == "SASL_SSL"
    assert "security.protocol" not in producer_settings(WORKER, {})


def test_overrides_of_the_connector_win() -> None:
    connector = {"consumer.override.fetch.max.bytes": "6", "producer.override.acks": "1"}
    assert consumer_settings(WORKER, connector)["fetch.max.bytes"] == "6"
    assert producer_settings(WORKER, connector)["acks"] == "1"
    assert producer_settings(WORKER, {})["acks"] == "all"
    assert producer_settings(WORKER, {"producer.override.linger.ms": "0"})["linger.ms"] == "0"


def test_spark_does_not_decide_positions_and_formats() -> None:
    connector = {
        "consumer.override.group.id": "mine",
        "consumer.override.auto.offset.reset": "latest",
        "consumer.override.key.deserializer": "x.Y",
        "consumer.override.enable.auto.commit": "true",
    }
    settings = consumer_settings(WORKER, connector)
    options = spark_consumer_options(settings, "connector-consumer-c-1")
    assert options == {
        "kafka.bootstrap.servers": "kafka:9092",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.fetch.max.bytes": "5",
        "kafka.client.id": "connector-consumer-c-1",
        "kafka.max.poll.records": "2000",
    }
    assert settings["auto.offset.reset"] == "latest"
    assert consumer_group_of("c", connector) == "mine"
    assert consumer_group_of("c", {}) == "connect-c"


def test_our_default_sizes_apply_unless_the_user_sets_others() -> None:
    assert spark_consumer_options(WORKER, "c")["kafka.max.poll.records"] == "2000"
    assert spark_consumer_options({**WORKER, "max.poll.records": "7"}, "c")["kafka.max.poll.records"] == "7"


def test_a_client_id_can_be_chosen() -> None:
    settings = producer_settings(WORKER, {"producer.override.client.id": "me"})
    assert spark_producer_options(settings, "connector-producer-c-0")["kafka.client.id"] == "me"


@pytest.mark.parametrize("name", ["transactional.id", "interceptor.classes", "partitioner.class"])
def test_settings_that_would_be_ignored_are_refused_by_name(name: str) -> None:
    with pytest.raises(ConfigException, match=f"producer.override.{name}"):
        producer_settings(WORKER, {f"producer.override.{name}": "x"})
    with pytest.raises(ConfigException, match=f"producer.{name}"):
        producer_settings({**WORKER, f"producer.{name}": "x"}, {})
