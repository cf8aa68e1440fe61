"""librdkafka's admin client changes and reads configs of our node."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewTopic, ResourceType

from barnabas.testing import Node

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(60),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning"),
]

BROKER = ConfigResource(ResourceType.BROKER, "1")


@pytest.fixture
def admin(barnabas_node: Node) -> AdminClient:
    return AdminClient({"bootstrap.servers": barnabas_node.bootstrap_servers})


def entry(name: str, value: str | None, how: AlterConfigOpType = AlterConfigOpType.SET) -> ConfigEntry:
    return ConfigEntry(name, value, incremental_operation=how)


def described(admin: AdminClient, resource: ConfigResource) -> dict[str, Any]:
    (future,) = admin.describe_configs([resource]).values()
    found: dict[str, Any] = future.result(10)
    return found


def test_librdkafka_changes_single_configs(admin: AdminClient) -> None:
    (created,) = admin.create_topics([NewTopic("rdkafka-configs", 1, 1)]).values()
    created.result(10)
    for resource, name, value in (
        (ConfigResource(ResourceType.TOPIC, "rdkafka-configs"), "retention.ms", "70000"),
        (BROKER, "log.cleaner.backoff.ms", "22000"),
    ):
        resource.add_incremental_config(entry(name, value))
        (changed,) = admin.incremental_alter_configs([resource]).values()
        changed.result(10)
        assert described(admin, resource)[name].value == value
        undone = ConfigResource(resource.restype, resource.name)
        undone.add_incremental_config(entry(name, None, AlterConfigOpType.DELETE))
        (changed,) = admin.incremental_alter_configs([undone]).values()
        changed.result(10)
        assert described(admin, resource)[name].value != value


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("sasl.kerberos.min.time.before.relogin", "58000"),  # What librdkafka's own tests set.
        ("remote.log.reader.threads", "11"),
    ],
)
def test_librdkafka_may_set_configs_that_have_no_effect(
    admin: AdminClient, barnabas_node: Node, name: str, value: str
) -> None:
    resource = ConfigResource(ResourceType.BROKER, "1")
    resource.add_incremental_config(entry(name, value))
    (changed,) = admin.incremental_alter_configs([resource]).values()
    changed.result(10)
    assert described(admin, BROKER)[name].value == value
    assert f"{name} has no effect here" in barnabas_node.log


def test_librdkafka_replaces_all_configs(admin: AdminClient) -> None:
    (created,) = admin.create_topics([NewTopic("rdkafka-replaced", 1, 1, config={"flush.ms": "5000"})]).values()
    created.result(10)
    resource = ConfigResource(ResourceType.TOPIC, "rdkafka-replaced", set_config={"retention.ms": "80000"})
    (changed,) = admin.alter_configs([resource]).values()
    changed.result(10)
    now = described(admin, resource)
    assert (now["retention.ms"].value, now["flush.ms"].is_default) == ("80000", True)


def test_librdkafka_receives_the_reason_of_a_refusal(admin: AdminClient) -> None:
    resource = ConfigResource(ResourceType.TOPIC, "rdkafka-configs")
    resource.add_incremental_config(entry("retention.m", "5"))
    resource.add_incremental_config(entry("segment.bytes", "1"))
    (refused,) = admin.incremental_alter_configs([resource]).values()
    with pytest.raises(KafkaException, match=r"did you mean retention\.ms.*segment\.bytes"):
        refused.result(10)
