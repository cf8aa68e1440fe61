"""A broker's metrics about partitions that it leads with followers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from barnabas.metadata.image.partition_registration import DIRECTORY_UNASSIGNED, PartitionRegistration
from barnabas.server.metrics.replication import REPLICATION_METRICS, replication_values
from tests.unit.broker.replication.leader import Leader, NumberLog, registration


def reassigning(isr: tuple[int, ...], adding: tuple[int, ...]) -> PartitionRegistration:
    return PartitionRegistration(
        replicas=(1, 2, 3),
        directories=(DIRECTORY_UNASSIGNED,) * 3,
        isr=isr,
        leader=1,
        leader_epoch=5,
        partition_epoch=10,
        adding_replicas=adding,
    )


def metrics_of(*leaders: Leader) -> dict[str, float]:
    led = SimpleNamespace(all={leader.replica for leader in leaders}, stats=leaders[0].stats)
    values = dict(replication_values(cast("Any", SimpleNamespace(leader_replicas=led, leader_quota=None)), None))
    return {name.removeprefix("kafka_server_replica_manager_"): value for name, value in values.items() if value}


def test_no_problem_is_reported_while_all_are_in_sync() -> None:
    assert metrics_of(Leader()) == {}


def test_missing_replicas_are_counted() -> None:
    assert metrics_of(Leader(state=registration(1, 2))) == {"under_replicated_partitions": 1}


def test_partitions_under_and_at_min_isr_are_counted() -> None:
    def leader(*isr: int) -> Leader:
        return Leader(NumberLog(min_insync_replicas=2), state=registration(*isr))

    assert metrics_of(leader(1), leader(1, 2), leader(1, 2, 3)) == {
        "under_replicated_partitions": 2,
        "under_min_isr_partition_count": 1,
        "at_min_isr_partition_count": 1,
    }


def test_adding_replicas_do_not_count_as_missing() -> None:
    assert metrics_of(Leader(state=reassigning((1, 2), (3,)))) == {"reassigning_partitions": 1}
    assert metrics_of(Leader(state=reassigning((1,), (3,)))) == {
        "reassigning_partitions": 1,
        "under_replicated_partitions": 1,
        "at_min_isr_partition_count": 1,
    }


def test_changes_of_isrs_are_counted() -> None:
    leader = Leader(state=registration(1, 2))
    leader.fetch(3, 0)
    leader.accept()
    leader.now_ms += 100_000
    leader.append()
    leader.now_ms += 100_000
    leader.fetch(2, 1)
    leader.check()
    leader.accept()
    assert metrics_of(leader)["isr_expands"] == 1
    assert metrics_of(leader)["isr_shrinks"] == 1


def test_a_broker_without_followers_reports_zeros() -> None:
    values = dict(replication_values(cast("Any", SimpleNamespace(leader_replicas=None, leader_quota=None)), None))
    assert set(values) == {metric.name for metric in REPLICATION_METRICS}
    assert not any(values.values())
