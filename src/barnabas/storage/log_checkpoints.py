"""Writes the checkpoint files of a log directory for the logs in it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from barnabas.common.topic_partition import TopicPartition
from barnabas.storage.log_directory import LogDirectory
from barnabas.storage.partition_log import PartitionLog

__all__ = ["write_checkpoints", "write_high_watermarks"]


def write_checkpoints(directory: LogDirectory, logs: Sequence[PartitionLog]) -> None:
    """Write recovery points, high watermarks and log starts. Any thread may do it: the files are forced to disk."""
    directory.write_recovery_points(_offsets(logs, lambda log: log.recovery_point))
    write_high_watermarks(directory, logs)
    inside = [log for log in logs if log.log_start_offset > log.segments[0].base_offset]
    directory.write_log_start_offsets(_offsets(inside, lambda log: log.log_start_offset))


def write_high_watermarks(directory: LogDirectory, logs: Sequence[PartitionLog]) -> None:
    """Write the high watermarks, which only leaders know: a replica that restarts cannot compute them."""
    directory.write_high_watermarks(_offsets(logs, lambda log: log.high_watermark))


def _offsets(logs: Iterable[PartitionLog], offset_of: Callable[[PartitionLog], int]) -> dict[TopicPartition, int]:
    """Return the non-zero offsets: a missing entry reads as 0."""
    return {log.topic_partition: offset for log in logs if (offset := offset_of(log)) > 0}
