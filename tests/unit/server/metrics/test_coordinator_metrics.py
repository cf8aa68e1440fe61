"""The metrics of the group coordinator and the share coordinator."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from barnabas.broker.forwarding_stats import Latencies
from barnabas.coordinator.coordinator_runtime import CoordinatorRuntime
from barnabas.server.metrics.coordinators import (
    GROUP_COORDINATOR_METRICS,
    GROUP_LOAD_TIME,
    SHARE_COORDINATOR_METRICS,
    group_coordinator_values,
    share_coordinator_histograms,
    share_coordinator_values,
)
from tests.unit.coordinator.consumer_group_driver import ConsumerGroupDriver
from tests.unit.coordinator.group_driver import GroupDriver
from tests.unit.coordinator.share_group_driver import ShareGroupDriver
from tests.unit.coordinator.streams_group_driver import StreamsGroupDriver


def values_of(driver: GroupDriver) -> dict[tuple[str, ...], float]:
    """Return the values that are not zero, by the end of the name and the labels."""
    return {
        (name.removeprefix("kafka_coordinator_group_"), *labels): value
        for name, labels, value in group_coordinator_values(driver.coordinator)
        if value
    }


def test_each_metric_of_the_group_coordinator_has_its_labels() -> None:
    labels = {info.name: info.labels for info in GROUP_COORDINATOR_METRICS}
    values = list(group_coordinator_values(GroupDriver().load().coordinator))
    assert {name for name, _, _ in values} == labels.keys() - {GROUP_LOAD_TIME}
    assert all(len(found) == len(labels[name]) for name, found, _ in values)


def test_a_consumer_group_is_counted_by_its_state() -> None:
    driver = ConsumerGroupDriver()
    driver.load()
    driver.metadata.create_topic("orders", 2)
    (member,) = driver.consumers(1)
    counted = values_of(driver)
    assert counted == {
        ("group_count", "consumer", "Stable"): 1,
        ("num_partitions", "active"): 1,
        ("consumer_group_rebalance",): 1,
    }
    member.leave()
    assert values_of(driver)["group_count", "consumer", "Empty"] == 1


def test_a_share_group_is_counted_by_its_state() -> None:
    driver = ShareGroupDriver()
    driver.load()
    driver.create("orders", 2)
    driver.joined("a")
    counted = values_of(driver)
    assert counted["group_count", "share", "Stable"] == 1
    assert counted["share_group_rebalance",] == 2, "the member joined, and partitions became available"
    driver.beat("a", -1)
    assert values_of(driver)["group_count", "share", "Empty"] == 1


def test_a_streams_group_is_counted_by_its_state() -> None:
    driver = StreamsGroupDriver()
    driver.load()
    driver.threads(1)
    assert values_of(driver)["group_count", "streams", "NotReady"] == 1
    assert values_of(driver)["streams_group_rebalance",] == 1


def test_partitions_are_counted_by_their_state() -> None:
    driver = GroupDriver().load()
    shard = driver.coordinator.runtime.start_loading(1, 0, 0)
    assert values_of(driver) == {("num_partitions", "active"): 1, ("num_partitions", "loading"): 1}
    assert shard is not None
    driver.coordinator.runtime.fail_loading(1, shard)
    assert values_of(driver) == {("num_partitions", "active"): 1, ("num_partitions", "failed"): 1}


def test_each_metric_of_the_share_coordinator_has_its_labels() -> None:
    runtime: CoordinatorRuntime[Any] = CoordinatorRuntime(
        writer=cast("Any", None), new_shard=lambda partition, epoch: _PrunedShard()
    )
    shard = runtime.start_loading(3, 0, 0)
    runtime.finish_loading(3, shard, 0, 0)
    service: Any = SimpleNamespace(
        coordinator=SimpleNamespace(runtime=runtime), load_times=Latencies(), write_times=Latencies()
    )
    values, histograms = list(share_coordinator_values(service)), list(share_coordinator_histograms(service))
    assert ("kafka_server_share_coordinator_metrics_last_pruned_offset", ("3",), 17) in values
    names = {name for name, *_ in (*values, *histograms)}
    assert names == {info.name for info in SHARE_COORDINATOR_METRICS}


class _PrunedShard:
    pruned_before = 17
    timers = SimpleNamespace(on_earlier=None)

    def on_loaded(self, now_ms: int) -> list[Any]:
        return []
