"""A broker's metrics about share groups."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.server.metrics.share_groups import LOAD_TIME, SHARE_GROUP_METRICS, share_group_values
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
    assert {name for name, _, _ in values} == labels.keys() - {LOAD_TIME}
    assert all(len(value_labels) == len(labels[name]) for name, value_labels, _ in values)
    assert list(share_group_values(None)) == []


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
