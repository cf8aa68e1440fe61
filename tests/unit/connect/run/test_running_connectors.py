from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from barnabas.common.config_providers import ConfigProviders
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry
from barnabas.connect.errors import ConnectError
from barnabas.connect.run.known_secrets import KnownSecrets
from barnabas.connect.run.running_connectors import ConnectorEvents, RunningConnectors, TopicPartitions, _Subscription

COUNTS = {"orders": 3, "orders-eu": 1, "flights": 2}


def test_a_sink_reads_those_of_its_topics_that_exist() -> None:
    subscription = _Subscription.of({"topics": " orders, flights,orders,,missing"})
    assert subscription.names == ("orders", "flights", "missing")
    assert subscription.chosen(COUNTS) == {"flights": 2, "orders": 3}


def test_a_pattern_must_match_the_whole_name() -> None:
    assert _Subscription.of({"topics.regex": "orders"}).chosen(COUNTS) == {"orders": 3}
    assert _Subscription.of({"topics.regex": "orders.*"}).chosen(COUNTS) == {"orders": 3, "orders-eu": 1}


def test_without_topics_and_pattern_nothing_is_read() -> None:
    assert _Subscription.of({}).chosen(COUNTS) == {}


def test_the_topics_that_a_sink_waits_for_are_reported() -> None:
    named = _Subscription.of({"topics": "orders,missing,also"})
    assert named.missing(named.chosen(COUNTS)) == ("missing", "also")
    assert named.missing({"orders": 3, "missing": 1, "also": 1}) == ()
    pattern = _Subscription.of({"topics.regex": "payments.*"})
    assert pattern.missing(pattern.chosen(COUNTS)) == ("topics.regex=payments.*",)
    assert pattern.missing({"payments-eu": 1}) == ()


def test_the_only_task_created_by_a_kafka_worker_reads_all_partitions() -> None:
    class Topics:
        async def counts(self, topics: Sequence[str] | None = None) -> dict[str, int]:
            return {name: count for name, count in COUNTS.items() if topics is None or name in topics}

    providers = ConfigProviders({})
    topics, no_events = cast("TopicPartitions", Topics()), cast("ConnectorEvents", None)
    connectors = RunningConnectors(PluginRegistry([]), providers, KnownSecrets(providers), topics, no_events, {})
    config = connectors.with_all_partitions({"topics.regex": "orders.*"}, {"task.class": "X"})
    assert asyncio.run(config) == {"task.class": "X", "barnabas.task.partitions": '{"orders":[0,1,2],"orders-eu":[0]}'}
    with pytest.raises(ConnectError, match="no topic of the connector exists yet"):
        asyncio.run(connectors.with_all_partitions({"topics": "missing"}, {}))
