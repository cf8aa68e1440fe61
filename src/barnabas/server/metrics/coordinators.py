"""Metrics of the group coordinator and the share coordinator of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.server.metrics.metric_info import MetricInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.forwarding_stats import Histogram
    from barnabas.broker.share_state_service import ShareStateService
    from barnabas.coordinator.coordinator_runtime import ShardState
    from barnabas.coordinator.group.group_coordinator import GroupCoordinator

__all__ = [
    "GROUP_COORDINATOR_METRICS",
    "GROUP_LOAD_TIME",
    "SHARE_COORDINATOR_METRICS",
    "group_coordinator_values",
    "share_coordinator_histograms",
    "share_coordinator_values",
]

_GROUPS = "kafka_coordinator_group"
_SHARES = "kafka_server_share_coordinator_metrics"
_KINDS = ("consumer", "share", "streams")
_PARTITIONS = "Partitions of {} that this broker coordinates, by state: loading, active, failed."

GROUP_LOAD_TIME = f"{_GROUPS}_partition_load_time_seconds"

GROUP_COORDINATOR_METRICS = (
    MetricInfo(f"{_GROUPS}_group_count", "gauge", "Groups by kind and state.", ("protocol", "state")),
    MetricInfo(f"{_GROUPS}_num_partitions", "gauge", _PARTITIONS.format("__consumer_offsets"), ("state",)),
    MetricInfo(GROUP_LOAD_TIME, "histogram", "Time to read one of these partitions."),
    MetricInfo(f"{_GROUPS}_num_offsets", "gauge", "Stored committed offsets."),
    MetricInfo(f"{_GROUPS}_offset_commit", "counter", "Offsets committed."),
    MetricInfo(f"{_GROUPS}_offset_expiration", "counter", "Offsets that expired."),
    MetricInfo(f"{_GROUPS}_offset_deletion", "counter", "Offsets removed for any reason."),
    MetricInfo(f"{_GROUPS}_group_completed_rebalance", "counter", "Rebalances of classic groups completed."),
    *(
        MetricInfo(f"{_GROUPS}_{kind}_group_rebalance", "counter", f"Times that the epoch of a {kind} group grew.")
        for kind in _KINDS
    ),
)
SHARE_COORDINATOR_METRICS = (
    MetricInfo(f"{_SHARES}_num_partitions", "gauge", _PARTITIONS.format("__share_group_state"), ("state",)),
    MetricInfo(f"{_SHARES}_partition_load_time_seconds", "histogram", "Time to read one of these partitions."),
    MetricInfo(f"{_SHARES}_write_latency_seconds", "histogram", "Time of a write of a share-partition's state."),
    MetricInfo(
        f"{_SHARES}_last_pruned_offset",
        "gauge",
        "The offset of __share_group_state before which records were deleted last.",
        ("partition",),
    ),
)
_MS_PER_S = 1_000


def group_coordinator_values(coordinator: GroupCoordinator) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Yield name, labels and value. May run on another thread than the coordinator."""
    stats = coordinator.stats()
    for kind_and_state, count in stats.groups.items():
        yield f"{_GROUPS}_group_count", kind_and_state, count
    yield from _partition_counts(_GROUPS, coordinator.runtime.partition_counts())
    yield f"{_GROUPS}_num_offsets", (), stats.offset_count
    yield f"{_GROUPS}_offset_commit", (), stats.offset_commit_count
    yield f"{_GROUPS}_offset_expiration", (), stats.offset_expiration_count
    yield f"{_GROUPS}_offset_deletion", (), stats.offset_deletion_count
    yield f"{_GROUPS}_group_completed_rebalance", (), stats.completed_rebalance_count
    for kind, count in stats.rebalance_counts.items():
        yield f"{_GROUPS}_{kind}_group_rebalance", (), count


def share_coordinator_values(service: ShareStateService) -> Iterator[tuple[str, tuple[str, ...], float]]:
    """Do the same for the share coordinator."""
    runtime = service.coordinator.runtime
    yield from _partition_counts(_SHARES, runtime.partition_counts())
    for partition, shard in list(runtime.active_shards()):
        if shard.pruned_before is not None:
            yield f"{_SHARES}_last_pruned_offset", (str(partition),), shard.pruned_before


def share_coordinator_histograms(service: ShareStateService) -> Iterator[tuple[str, tuple[str, ...], Histogram, int]]:
    """Yield name, labels, values, and how many of its units are one of the metric's."""
    yield f"{_SHARES}_partition_load_time_seconds", (), service.load_times, _MS_PER_S
    yield f"{_SHARES}_write_latency_seconds", (), service.write_times, _MS_PER_S


def _partition_counts(prefix: str, counts: dict[ShardState, int]) -> Iterator[tuple[str, tuple[str, ...], float]]:
    for state, count in counts.items():
        yield f"{prefix}_num_partitions", (state.value,), count
