"""Metrics of the share-partitions that a broker leads, and of its share sessions.

They have no samples until a member of a share group sends its first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.server.metrics.metric_info import MetricInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.share.share_partition_manager import SharePartitionManager

__all__ = ["LOAD_TIME", "SHARE_GROUP_METRICS", "share_group_values"]

_GROUPS = "kafka_server_share_group_metrics"
_PARTITIONS = "kafka_server_share_partition_metrics"
_SESSIONS = "kafka_server_share_session_cache"
_TOPICS = "kafka_server_broker_topic_metrics"

LOAD_TIME = f"{_GROUPS}_partition_load_time_seconds"
_PARTITION_LABELS = ("group", "topic", "partition")

SHARE_GROUP_METRICS = (
    MetricInfo(
        f"{_GROUPS}_record_acknowledgements",
        "counter",
        "Records that members of share groups acknowledged; gaps don't count.",
        ("ack_type",),
    ),
    MetricInfo(LOAD_TIME, "histogram", "Time to read a share-partition's state from the persister."),
    MetricInfo("barnabas_share_records_acquired", "counter", "Records that members of share groups acquired."),
    MetricInfo(
        f"{_PARTITIONS}_in_flight_message_count",
        "gauge",
        "Records between a share-partition's start and end offset.",
        _PARTITION_LABELS,
    ),
    MetricInfo(
        f"{_PARTITIONS}_in_flight_batch_count",
        "gauge",
        "Batches that hold the state of a share-partition's records in flight.",
        _PARTITION_LABELS,
    ),
    MetricInfo(
        f"{_PARTITIONS}_acquisition_lock_timeout",
        "counter",
        "Records whose lock ended before they were acknowledged.",
        _PARTITION_LABELS,
    ),
    MetricInfo(f"{_SESSIONS}_share_sessions_count", "gauge", "Share sessions."),
    MetricInfo(f"{_SESSIONS}_share_partitions_count", "gauge", "Partitions of all share sessions."),
    MetricInfo(
        f"{_SESSIONS}_share_session_evictions", "counter", "Share sessions that ended because a connection closed."
    ),
    MetricInfo(
        "kafka_server_delayed_share_fetch_metrics_expires", "counter", "Share fetches that waited for MaxWaitMs."
    ),
    MetricInfo(f"{_TOPICS}_total_share_fetch_requests", "counter", "Topics of all share fetches."),
    MetricInfo(f"{_TOPICS}_failed_share_fetch_requests", "counter", "Partitions that failed in share fetches."),
    MetricInfo(f"{_TOPICS}_total_share_acknowledgement_requests", "counter", "Topics of all share acknowledgements."),
    MetricInfo(
        f"{_TOPICS}_failed_share_acknowledgement_requests",
        "counter",
        "Topics of share acknowledgements with a partition that failed.",
    ),
)


def share_group_values(
    share_partitions: SharePartitionManager | None,
) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Yield name, labels and value. May run on another thread than the objects it reads."""
    if share_partitions is None:
        return
    stats, sessions = share_partitions.stats, share_partitions.sessions
    for type_, count in stats.acknowledgements.items():
        yield f"{_GROUPS}_record_acknowledgements", (type_.name.lower(),), count
    yield "barnabas_share_records_acquired", (), stats.records_acquired
    yield from _partition_values(share_partitions)
    yield f"{_SESSIONS}_share_sessions_count", (), len(sessions)
    yield f"{_SESSIONS}_share_partitions_count", (), sessions.partition_count()
    yield f"{_SESSIONS}_share_session_evictions", (), sessions.evictions
    yield "kafka_server_delayed_share_fetch_metrics_expires", (), stats.expired_fetches
    yield f"{_TOPICS}_total_share_fetch_requests", (), stats.fetch_requests
    yield f"{_TOPICS}_failed_share_fetch_requests", (), stats.failed_fetch_requests
    yield f"{_TOPICS}_total_share_acknowledgement_requests", (), stats.acknowledge_requests
    yield f"{_TOPICS}_failed_share_acknowledgement_requests", (), stats.failed_acknowledge_requests


def _partition_values(share_partitions: SharePartitionManager) -> Iterator[tuple[str, tuple[str, ...], float]]:
    for led in share_partitions.share_partitions():
        state, (topic, index) = led.state, led.partition.topic_partition
        if state is None:
            continue
        labels = (led.key.group_id, topic, str(index))
        yield f"{_PARTITIONS}_in_flight_message_count", labels, state.in_flight_record_count
        yield f"{_PARTITIONS}_in_flight_batch_count", labels, len(state.in_flight_batches)
        yield f"{_PARTITIONS}_acquisition_lock_timeout", labels, state.locks_expired
