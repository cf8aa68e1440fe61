"""Kafka's own ConfigCommand against our node, for every kind of resource, and for settings that change while it
runs."""

from __future__ import annotations

import pytest

from barnabas.testing import Node
from tests.interop.test_java_tools import tool

pytestmark = [pytest.mark.interop, pytest.mark.timeout(180)]

JAVA = pytest.mark.usefixtures("kafka_peer")


def configs(node: Node, kind: str, name: str | None, *args: str, check: bool = True) -> str:
    entity = ("--entity-default",) if name is None else ("--entity-name", name)
    return tool(node, "configs", "--entity-type", kind, *entity, *args, check=check)


@JAVA
@pytest.mark.parametrize(
    ("kind", "name", "change"),
    [
        ("brokers", "1", "log.cleaner.backoff.ms=20000"),
        ("brokers", None, "message.max.bytes=2000000"),
        pytest.param("groups", "java-group", "consumer.session.timeout.ms=50000", marks=pytest.mark.long),
        pytest.param("client-metrics", "java-metrics", "interval.ms=5000", marks=pytest.mark.long),
        pytest.param("broker-loggers", "1", "barnabas.network.connection=ERROR", marks=pytest.mark.long),
    ],
)
def test_configs_are_set_shown_and_deleted(barnabas_node: Node, kind: str, name: str | None, change: str) -> None:
    key = change.partition("=")[0]
    configs(barnabas_node, kind, name, "--alter", "--add-config", change)
    assert change in configs(barnabas_node, kind, name, "--describe")
    configs(barnabas_node, kind, name, "--alter", "--delete-config", key)
    assert change not in configs(barnabas_node, kind, name, "--describe")


@JAVA
def test_a_config_that_needs_a_restart_is_refused_by_name(barnabas_node: Node) -> None:
    answer = configs(barnabas_node, "brokers", "1", "--alter", "--add-config", "num.partitions=3", check=False)
    assert "Cannot update these configs dynamically: [num.partitions]" in answer
