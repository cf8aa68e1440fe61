"""A broker's metrics about share groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.server.metrics.share_groups import SHARE_GROUP_METRICS, share_group_histograms, share_group_values
from tests.unit.broker.share.share_broker import LOCK_MS, Member, ShareBroker, acquired

LABELS = ("workers", "jobs", "0")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ShareBroker]:
    made = ShareBroker(tmp_path)
    made.set_config("share.auto.offset.reset", "earliest")
    yield made
    made.close()


def values_of(broker: ShareBroker) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return the values that are not zero."""
    return {
        (name.removeprefix("kafka_server_"), labels): value
        for name, labels, value in share_group_values(broker.shares)
        if value
    }


def test_each_metric_has_its_labels(broker: ShareBroker) -> None:
    Member(broker).fetch([0])
    labels = {info.name: info.labels for info in SHARE_GROUP_METRICS}
    values = list(share_group_values(broker.shares))
    histograms = list(share_group_histograms(broker.shares))
    names = [name for name, _, _ in values] + [name for name, *_ in histograms]
    found = [found for _, found, _ in values] + [found for _, found, *_ in histograms]
    broker.produce(10)
    Member(broker, "other").fetch([0])
    assert {*names, *(name for name, *_ in share_group_histograms(broker.shares))} == labels.keys()
    assert all(len(of_value) == len(labels[name]) for name, of_value in zip(names, found, strict=True))
    assert list(share_group_values(None)) == list(share_group_histograms(None)) == []


def histograms_of(broker: ShareBroker) -> dict[tuple[str, tuple[str, ...]], tuple[int, float]]:
    """Return the count and the sum of each, in the unit of the metric."""
    return {
        (name.removeprefix("kafka_server_"), labels): (histogram.count, histogram.total / units)
        for name, labels, histogram, units in share_group_histograms(broker.shares)
    }


def test_fetches_and_batches_are_measured(broker: ShareBroker) -> None:
    member = Member(broker)
    broker.produce(10)
    member.fetch([0])
    broker.produce(6)
    member.fetch([0])
    histograms = histograms_of(broker)
    assert histograms["share_partition_metrics_in_flight_batch_message_count", LABELS] == (2, 16)
    assert histograms["share_group_metrics_request_topic_partitions_fetch_ratio", ("workers",)] == (2, 200)
    assert histograms["share_group_metrics_topic_partitions_acquire_time_seconds", ("workers",)][0] == 2


def test_what_is_measured_by_group_ends_with_its_sessions(broker: ShareBroker) -> None:
    member = Member(broker)
    broker.produce(10)
    member.fetch([0])
    broker.shares.unload_group("workers")
    assert list(histograms_of(broker)) == [("share_group_metrics_partition_load_time_seconds", ())]


def test_records_sessions_and_requests_are_counted(broker: ShareBroker) -> None:
    member = Member(broker)
    for batch in range(2):
        broker.produce(10)
        assert acquired(member.fetch([0])) == [(10 * batch, 10 * batch + 9, 1)]
    member.acknowledge({0: [(0, 4, [1])]})
    assert values_of(broker) == {
        ("share_group_metrics_record_acknowledgements", ("accept",)): 5,
        ("barnabas_share_records_acquired", ()): 20,
        ("share_partition_metrics_in_flight_message_count", LABELS): 15,
        ("share_partition_metrics_in_flight_batch_count", LABELS): 2,
        ("share_session_cache_share_sessions_count", ()): 1,
        ("share_session_cache_share_partitions_count", ()): 1,
        ("delayed_share_fetch_metrics_expires", ()): 1,
        ("broker_topic_metrics_total_share_fetch_requests", ()): 2,
        ("broker_topic_metrics_total_share_acknowledgement_requests", ()): 1,
    }
    assert broker.shares.stats.load_times.count == 1


def test_what_goes_wrong_is_counted(broker: ShareBroker) -> None:
    broker.produce(10)
    Member(broker, "other").fetch([1])
    member = Member(broker)
    member.fetch([0])
    member.fetch(max_wait_ms=100)
    broker.run(LOCK_MS)
    member.acknowledge({0: [(0, 9, [1])]})
    member.peer.close()
    values = values_of(broker)
    assert values["share_partition_metrics_acquisition_lock_timeout", LABELS] == 10
    assert values["delayed_share_fetch_metrics_expires", ()] == 3
    assert values["broker_topic_metrics_failed_share_acknowledgement_requests", ()] == 1
    assert values["share_session_cache_share_session_evictions", ()] == 1
