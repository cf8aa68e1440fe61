"""Measures the usage of a node's log directories, for DescribeLogDirs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.common.topic_partition import TopicPartition
from barnabas.storage.log_directory import LogDirectory
from barnabas.storage.log_manager import LogManager
from barnabas.storage.partition_log import PartitionLog

__all__ = ["LogDirUsage", "ReplicaUsage", "log_dir_usage"]

_UNKNOWN = -1


class ReplicaUsage(NamedTuple):
    """``lag``: how many records a future log is behind its current one, or a current one behind its high watermark."""

    topic_partition: TopicPartition
    size_bytes: int
    lag: int
    is_future: bool


class LogDirUsage(NamedTuple):
    """One directory, its volume and its replicas; only ``failure`` when it is offline."""

    path: str
    failure: str | None
    total_bytes: int = _UNKNOWN
    usable_bytes: int = _UNKNOWN
    is_cordoned: bool = False
    replicas: Sequence[ReplicaUsage] = ()


def log_dir_usage(logs: LogManager) -> list[LogDirUsage]:
    """Measure a directory; one that cannot be read is reported as failed."""
    return [_usage(logs, directory) for directory in logs.directories.all]


def _usage(logs: LogManager, directory: LogDirectory) -> LogDirUsage:
    if directory.failure is not None:
        return LogDirUsage(directory.path, directory.failure)
    try:
        total, usable = directory.space()
    except OSError as error:
        logs.directories.failures.report(directory.path, error)
        return LogDirUsage(directory.path, str(error))
    replicas = [_replica(logs, log) for log in logs.table.in_directory(directory)]
    return LogDirUsage(directory.path, None, total, usable, directory.is_cordoned, replicas)


def _replica(logs: LogManager, log: PartitionLog) -> ReplicaUsage:
    current = logs.get(log.topic_partition)
    if current is None:
        return ReplicaUsage(log.topic_partition, log.size_bytes(), _UNKNOWN, True)
    if current is log:
        return ReplicaUsage(
            log.topic_partition, log.size_bytes(), max(log.high_watermark - log.log_end_offset, 0), False
        )
    return ReplicaUsage(log.topic_partition, log.size_bytes(), current.log_end_offset - log.log_end_offset, True)
