"""Metrics of a broker's replicated partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.server.metrics.metric_info import MetricInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.replica_manager import ReplicaManager
    from barnabas.server.broker.replica_fetcher_manager import ReplicaFetchers

__all__ = ["REPLICATION_METRICS", "replication_values"]

_REPLICAS = "kafka_server_replica_manager"
_TOPICS = "kafka_server_broker_topic_metrics"
_FETCHERS = "kafka_server_replica_fetcher_manager"

REPLICATION_METRICS = (
    MetricInfo(
        f"{_REPLICAS}_under_replicated_partitions",
        "gauge",
        "Partitions led here with replicas that are not in sync; those that are being added don't count.",
    ),
    MetricInfo(
        f"{_REPLICAS}_under_min_isr_partition_count",
        "gauge",
        "Partitions led here with fewer replicas in sync than min.insync.replicas.",
    ),
    MetricInfo(
        f"{_REPLICAS}_at_min_isr_partition_count",
        "gauge",
        "Partitions led here with exactly min.insync.replicas replicas in sync.",
    ),
    MetricInfo(f"{_REPLICAS}_reassigning_partitions", "gauge", "Partitions led here whose replicas are being changed."),
    MetricInfo(f"{_REPLICAS}_isr_shrinks", "counter", "Replicas that fell behind left an ISR."),
    MetricInfo(f"{_REPLICAS}_isr_expands", "counter", "Replicas that caught up joined an ISR."),
    MetricInfo(f"{_REPLICAS}_failed_isr_updates", "counter", "Changes of an ISR that the controller refused."),
    MetricInfo(f"{_TOPICS}_replication_bytes_out", "counter", "Bytes of records that followers fetched."),
    MetricInfo(f"{_TOPICS}_replication_bytes_in", "counter", "Bytes of records copied from leaders."),
    MetricInfo(
        "kafka_server_leader_replication_bytes", "counter", "Bytes to followers that count towards the throttle."
    ),
    MetricInfo(
        "kafka_server_follower_replication_bytes", "counter", "Bytes from leaders that count towards the throttle."
    ),
    MetricInfo(
        f"{_FETCHERS}_max_lag",
        "gauge",
        "Lag of the most delayed followed partition, in committed records.",
    ),
    MetricInfo(
        f"{_FETCHERS}_failed_partitions_count",
        "gauge",
        "Followed partitions that are not copied: their disk failed, or a newer leader epoch is expected.",
    ),
)


def replication_values(replicas: ReplicaManager, fetchers: ReplicaFetchers | None) -> Iterator[tuple[str, float]]:
    """Yield a value for each of ``REPLICATION_METRICS``. May run on another thread than the objects it reads."""
    led = replicas.leader_replicas
    every = [] if led is None else [partition for partition in list(led.all) if not partition.is_over]
    missing = [len(partition.leadership.isr) - partition.required_in_sync() for partition in every]
    yield (
        f"{_REPLICAS}_under_replicated_partitions",
        sum(partition.leadership.is_under_replicated for partition in every),
    )
    yield f"{_REPLICAS}_under_min_isr_partition_count", sum(count < 0 for count in missing)
    yield f"{_REPLICAS}_at_min_isr_partition_count", sum(count == 0 for count in missing)
    yield f"{_REPLICAS}_reassigning_partitions", sum(partition.leadership.is_reassigning for partition in every)
    yield f"{_REPLICAS}_isr_shrinks", 0 if led is None else led.stats.shrinks
    yield f"{_REPLICAS}_isr_expands", 0 if led is None else led.stats.expands
    yield f"{_REPLICAS}_failed_isr_updates", 0 if led is None else led.stats.failed_updates
    yield f"{_TOPICS}_replication_bytes_out", 0 if led is None else led.stats.bytes_out
    yield f"{_TOPICS}_replication_bytes_in", 0 if fetchers is None else fetchers.bytes_in
    quota = replicas.leader_quota
    yield "kafka_server_leader_replication_bytes", 0 if quota is None else quota.throttled_bytes
    yield "kafka_server_follower_replication_bytes", 0 if fetchers is None else fetchers.throttled_bytes
    yield f"{_FETCHERS}_max_lag", 0 if fetchers is None else fetchers.max_lag
    yield f"{_FETCHERS}_failed_partitions_count", 0 if fetchers is None else fetchers.failed_count
