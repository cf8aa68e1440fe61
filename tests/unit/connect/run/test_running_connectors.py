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


def test_a_sink_reads_the_topics_that_it_names_as_far_as_they_are_there() -> None:
    subscription = _Subscription.of({"topics": " orders, flights,orders,,missing"})
    assert subscription.names == ("orders", "flights", "missing")
    assert subscription.chosen(COUNTS) == {"flights": 2, "orders": 3}


def test_a_pattern_must_fit_the_whole_name() -> None:
    assert _Subscription.of({"topics.regex": "orders"}).chosen(COUNTS) == {"orders": 3}
    assert _Subscription.of({"topics.regex": "orders.*"}).chosen(COUNTS) == {"orders": 3, "orders-eu": 1}


def test_without_either_nothing_is_read() -> None:
    assert _Subscription.of({}).chosen(COUNTS) == {}


def test_the_only_task_that_a_worker_of_kafkas_has_made_reads_all_that_is_there() -> None:
    class Topics:
        async def counts(self, topics: Sequence[str] | None = None) -> dict[str, int]:
            return {name: count for name, count in COUNTS.items() if topics is None or name in topics}

    providers = ConfigProviders({})
    topics, nobody = cast("TopicPartitions", Topics()), cast("ConnectorEvents", None)
    connectors = RunningConnectors(PluginRegistry([]), providers, KnownSecrets(providers), topics, nobody, {})
    made = connectors.with_all_partitions({"topics.regex": "orders.*"}, {"task.class": "X"})
    assert asyncio.run(made) == {"task.class": "X", "barnabas.task.partitions": '{"orders":[0,1,2],"orders-eu":[0]}'}
    with pytest.raises(ConnectError, match="no topic yet"):
        asyncio.run(connectors.with_all_partitions({"topics": "missing"}, {}))
