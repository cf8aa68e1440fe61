"""Stores one offset per partition of a log directory: recovery points, high watermarks, log starts, cleaned-up-to
offsets.

``recovery-point-offset-checkpoint``: everything below is durable, recovery need not read it.
``replication-offset-checkpoint``: high watermarks. ``log-start-offset-checkpoint``: where logs start that do not start
at their first segment. ``cleaner-offset-checkpoint``: everything below was compacted.
"""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.common.topic_partition import TopicPartition
from barnabas.storage.checkpoint_file import read_checkpoint, write_checkpoint
from barnabas.storage.errors import CorruptFileError

__all__ = [
    "CLEANER_OFFSET_CHECKPOINT",
    "LOG_START_OFFSET_CHECKPOINT",
    "RECOVERY_POINT_OFFSET_CHECKPOINT",
    "REPLICATION_OFFSET_CHECKPOINT",
    "read_offsets",
    "write_offsets",
]

RECOVERY_POINT_OFFSET_CHECKPOINT = "recovery-point-offset-checkpoint"
REPLICATION_OFFSET_CHECKPOINT = "replication-offset-checkpoint"
LOG_START_OFFSET_CHECKPOINT = "log-start-offset-checkpoint"
CLEANER_OFFSET_CHECKPOINT = "cleaner-offset-checkpoint"


def read_offsets(path: str) -> dict[TopicPartition, int]:
    try:
        return {
            TopicPartition(topic, int(partition)): int(offset) for topic, partition, offset in read_checkpoint(path, 3)
        }
    except ValueError as error:
        raise CorruptFileError(path, str(error)) from error


def write_offsets(path: str, offsets: Mapping[TopicPartition, int], *, sync: bool = True) -> None:
    write_checkpoint(
        path, [f"{topic} {partition} {offset}" for (topic, partition), offset in offsets.items()], sync=sync
    )
