from __future__ import annotations

import pytest

from barnabas.connect.run.internal_topics.topic_admin import (
    InternalTopic,
    UnusableTopic,
    config_topic,
    ensure_partitions,
    internal_client_properties,
    offset_topic,
    status_topic,
)

SETTINGS: dict[str, object] = {
    "bootstrap.servers": "a:1",
    "group.id": "g",
    "config.storage.topic": "configs",
    "offset.storage.topic": "offsets",
    "status.storage.topic": "statuses",
}


def test_topics_have_kafkas_defaults() -> None:
    assert config_topic(SETTINGS) == InternalTopic("configs", "config.storage.topic", 1, 3, {}, True)
    assert offset_topic(SETTINGS) == InternalTopic("offsets", "offset.storage.topic", 25, 3)
    assert status_topic(SETTINGS) == InternalTopic("statuses", "status.storage.topic", 5, 3)


def test_settings_of_a_topic_are_passed_through_except_those_that_connect_decides() -> None:
    given = SETTINGS | {
        "offset.storage.partitions": "-1",
        "offset.storage.replication.factor": 2,
        "offset.storage.cleanup.policy": "delete",
        "offset.storage.segment.bytes": "1000",
        "status.storage.min.insync.replicas": "2",
    }
    assert offset_topic(given) == InternalTopic("offsets", "offset.storage.topic", -1, 2, {"segment.bytes": "1000"})
    assert offset_topic(given, "own").name == "own"
    assert status_topic(given).configs == {"min.insync.replicas": "2"}


def test_an_ignored_cleanup_policy_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    config_topic(SETTINGS | {"config.storage.cleanup.policy": "delete"})
    assert "config.storage.cleanup.policy=delete is not used" in caplog.text


def test_clients_use_the_settings_of_the_worker_and_none_for_connectors() -> None:
    given = SETTINGS | {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.truststore.location": "/t",
        "producer.security.protocol": "PLAINTEXT",
        "consumer.sasl.mechanism": "x",
        "admin.client.id": "x",
        "listeners.https.ssl.keystore.location": "/k",
        "key.converter": "x",
        "ssl.client.auth": "required",
    }
    assert internal_client_properties(given, "configs") == {
        "bootstrap.servers": "a:1",
        "group.id": "g",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "ssl.truststore.location": "/t",
        "client.id": "g-configs",
    }


def test_only_the_config_topic_must_have_one_partition() -> None:
    with pytest.raises(UnusableTopic, match=r"configs \(config.storage.topic\) has 2 partitions"):
        ensure_partitions(config_topic(SETTINGS), 2)
    ensure_partitions(config_topic(SETTINGS), 1)
    ensure_partitions(offset_topic(SETTINGS), 50)
