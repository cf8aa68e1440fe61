from __future__ import annotations

from collections.abc import Sequence

import pytest

from barnabas.clients.admin.config_entries import ConfigResource
from barnabas.clients.admin.errors import admin_error
from barnabas.clients.admin.topics import NewTopic
from barnabas.common.error_code import ErrorCode
from barnabas.connect.run.internal_topics.topic_admin import (
    InternalTopic,
    UnusableTopic,
    config_topic,
    ensure_internal_topic,
    ensure_partitions,
    internal_client_properties,
    offset_topic,
    status_topic,
)
from tests.simulation.cluster.virtual_loop import VirtualLoop

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


class FakeAdmin:
    """Refuses to create a topic with these errors in turn, the last one forever."""

    def __init__(self, *codes: ErrorCode) -> None:
        self.codes = list(codes)
        self.attempts = 0

    async def create_topics(self, topics: Sequence[NewTopic], *, wait: bool) -> FakeAdmin:
        self.attempts += 1
        return self

    def raise_for_errors(self) -> None:
        code = self.codes.pop(0) if len(self.codes) > 1 else self.codes[0]
        if code is not ErrorCode.NONE:
            raise admin_error(code, "only 1 broker is registered", "offsets")

    async def describe_configs(self, resources: Sequence[ConfigResource], *, keys: Sequence[str]) -> object:
        raise admin_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, None, "offsets")


def ensure(*codes: ErrorCode) -> tuple[FakeAdmin, str | None]:
    """Create the offset topic within a minute of a virtual loop."""
    loop, admin = VirtualLoop(), FakeAdmin(*codes)
    task = loop.create_task(ensure_internal_topic(admin, offset_topic(SETTINGS), timeout_s=60))  # type: ignore[arg-type]
    loop.run_until(loop.time() + 100)
    return admin, task.result()


def test_too_few_brokers_are_named_as_the_cause_and_the_log_is_short(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UnusableTopic) as raised:
        ensure(ErrorCode.INVALID_REPLICATION_FACTOR)
    text = str(raised.value)
    assert "INVALID_REPLICATION_FACTOR: only 1 broker is registered" in text
    assert "start more brokers, or lower offset.storage.replication.factor (it is 3)" in text
    assert "The worker has tried for 60 s" in text
    assert 1 <= len(caplog.records) <= 3


def test_brokers_that_register_later_are_waited_for() -> None:
    admin, refusal = ensure(ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.INVALID_REPLICATION_FACTOR, ErrorCode.NONE)
    assert (admin.attempts, refusal) == (3, None)


def test_a_missing_right_to_create_is_returned_because_the_topic_may_exist() -> None:
    _, refusal = ensure(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
    assert refusal is not None
    assert "TOPIC_AUTHORIZATION_FAILED" in refusal
