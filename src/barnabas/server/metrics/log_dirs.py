"""Metrics of a broker's log directories."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.server.metrics.metric_info import MetricInfo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from barnabas.broker.replica_manager import ReplicaManager

__all__ = ["LOG_DIR_METRICS", "log_dir_values"]

LOG_DIR_METRICS = (
    MetricInfo(
        "kafka_log_log_manager_offline_log_directory_count",
        "gauge",
        "Log directories that are offline because their disks failed; the node's log names them and the errors.",
    ),
    MetricInfo(
        "kafka_server_replica_manager_offline_replica_count",
        "gauge",
        "Replicas of this broker in offline log directories.",
    ),
    MetricInfo(
        "barnabas_log_directory_moves", "gauge", "Replicas that are being moved to another directory of this broker."
    ),
    MetricInfo("barnabas_log_directory_moved_bytes", "counter", "Bytes copied for such moves since the node started."),
    MetricInfo(
        "barnabas_log_stray_count",
        "gauge",
        "Directories of partitions that belong to no replica of this broker; barnabas storage strays lists them.",
    ),
    MetricInfo(
        "barnabas_log_damaged_count",
        "gauge",
        "Partitions whose log here is known to hold damaged records; the node's log names file, position and offsets.",
    ),
)


def log_dir_values(replicas: ReplicaManager) -> Iterator[tuple[str, float]]:
    """Yield a value for each of ``LOG_DIR_METRICS``. May run on another thread than the objects it reads."""
    offline = [directory for directory in replicas.logs.directories.all if not directory.is_online]
    yield "kafka_log_log_manager_offline_log_directory_count", len(offline)
    partitions = list(replicas.partitions.values()) if offline else []
    yield "kafka_server_replica_manager_offline_replica_count", sum(map(replicas.is_offline, partitions))
    yield "barnabas_log_directory_moves", len(replicas.directories.moves)
    yield "barnabas_log_directory_moved_bytes", replicas.directories.moved_bytes
    yield "barnabas_log_stray_count", len(replicas.logs.strays)
    yield "barnabas_log_damaged_count", len(replicas.logs.damaged)
