"""Metrics of the share-partitions that a broker leads, and of its share sessions.

They have no samples until a member of a share group sends its first request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.server.metrics.metric_info import MetricInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.forwarding_stats import Histogram
    from barnabas.broker.share.share_partition_manager import SharePartitionManager

__all__ = ["SHARE_GROUP_METRICS", "share_group_histograms", "share_group_values"]

_GROUPS = "kafka_server_share_group_metrics"
_PARTITIONS = "kafka_server_share_partition_metrics"
_SESSIONS = "kafka_server_share_session_cache"
_TOPICS = "kafka_server_broker_topic_metrics"

_LOAD_TIME = f"{_GROUPS}_partition_load_time_seconds"
_ACQUIRE_TIME = f"{_GROUPS}_topic_partitions_acquire_time_seconds"
_FETCH_RATIO = f"{_GROUPS}_request_topic_partitions_fetch_ratio"
_BATCH_SIZE = f"{_PARTITIONS}_in_flight_batch_message_count"
_MS_PER_S = 1_000
_PARTITION_LABELS = ("group", "topic", "partition")

SHARE_GROUP_METRICS = (
    MetricInfo(
        f"{_GROUPS}_record_acknowledgements",
        "counter",
        "Records that members of share groups acknowledged; gaps don't count.",
        ("ack_type",),
    ),
    MetricInfo(_LOAD_TIME, "histogram", "Time to read a share-partition's state from the persister."),
    MetricInfo(
        _ACQUIRE_TIME, "histogram", "Time until a share fetch found partitions with records to acquire.", ("group",)
    ),
    MetricInfo(
        _FETCH_RATIO,
        "histogram",
        "Of 100 partitions of a share fetch, those with records to acquire.",
        ("group",),
    ),
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
    MetricInfo(_BATCH_SIZE, "histogram", "Records of each batch that was acquired.", _PARTITION_LABELS),
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
        "kafka_server_delayed_operation_purgatory_num_delayed_operations",
        "gauge",
        "Requests that wait for records: share fetches.",
        ("delayed_operation",),
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
    purgatory = "kafka_server_delayed_operation_purgatory_num_delayed_operations"
    yield purgatory, ("ShareFetch",), stats.waiting_fetches
    yield "kafka_server_delayed_share_fetch_metrics_expires", (), stats.expired_fetches
    yield f"{_TOPICS}_total_share_fetch_requests", (), stats.fetch_requests
    yield f"{_TOPICS}_failed_share_fetch_requests", (), stats.failed_fetch_requests
    yield f"{_TOPICS}_total_share_acknowledgement_requests", (), stats.acknowledge_requests
    yield f"{_TOPICS}_failed_share_acknowledgement_requests", (), stats.failed_acknowledge_requests


def share_group_histograms(
    share_partitions: SharePartitionManager | None,
) -> Iterator[tuple[str, tuple[str, ...], Histogram, int]]:
    """Yield name, labels, values, and how many of its units are one of the metric's."""
    if share_partitions is None:
        return
    stats = share_partitions.stats
    yield _LOAD_TIME, (), stats.load_times, _MS_PER_S
    for group_id, times in list(stats.acquire_times.items()):
        yield _ACQUIRE_TIME, (group_id,), times, _MS_PER_S
    for group_id, ratios in list(stats.fetch_ratios.items()):
        yield _FETCH_RATIO, (group_id,), ratios, 1
    for led in share_partitions.share_partitions():
        topic, index = led.partition.topic_partition
        yield _BATCH_SIZE, (led.key.group_id, topic, str(index)), led.batch_sizes, 1


def _partition_values(share_partitions: SharePartitionManager) -> Iterator[tuple[str, tuple[str, ...], float]]:
    for led in share_partitions.share_partitions():
        state, (topic, index) = led.state, led.partition.topic_partition
        if state is None:
            continue
        labels = (led.key.group_id, topic, str(index))
        yield f"{_PARTITIONS}_in_flight_message_count", labels, state.in_flight_record_count
        yield f"{_PARTITIONS}_in_flight_batch_count", labels, len(state.in_flight_batches)
        yield f"{_PARTITIONS}_acquisition_lock_timeout", labels, state.locks_expired
