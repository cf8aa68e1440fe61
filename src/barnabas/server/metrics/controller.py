"""Metrics of the partitions of the whole cluster, and of the elections that the controller decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.metadata.image.partition_registration import NO_LEADER
from barnabas.server.metrics.metric_info import MetricInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.metadata.image.topics import TopicsImage

__all__ = ["CONTROLLER_METRICS", "controller_values"]

_CONTROLLER = "kafka_controller_kafka_controller"
_STATS = "kafka_controller_controller_stats"

CONTROLLER_METRICS = (
    MetricInfo(f"{_CONTROLLER}_offline_partitions_count", "gauge", "Partitions of the cluster without a leader."),
    MetricInfo(
        f"{_CONTROLLER}_preferred_replica_imbalance_count",
        "gauge",
        "Partitions of the cluster whose preferred replica does not lead.",
    ),
    MetricInfo(
        f"{_STATS}_unclean_leader_elections",
        "counter",
        "Unclean leader elections by this controller: the leader may lack records.",
    ),
    MetricInfo(
        f"{_STATS}_election_from_eligible_leader_replicas",
        "counter",
        "Leaders that this controller elected from the eligible leader replicas (KIP-966).",
    ),
)


def controller_values(topics: TopicsImage, controller: QuorumController | None) -> Iterator[tuple[str, float]]:
    """Yield a value for each of ``CONTROLLER_METRICS``. May run on another thread than the objects it reads."""
    yield f"{_CONTROLLER}_offline_partitions_count", topics.index.led_count(NO_LEADER)
    yield f"{_CONTROLLER}_preferred_replica_imbalance_count", len(topics.imbalanced)
    yield f"{_STATS}_unclean_leader_elections", 0 if controller is None else controller.elections.unclean
    yield (
        f"{_STATS}_election_from_eligible_leader_replicas",
        0 if controller is None else controller.elections.from_elr,
    )
