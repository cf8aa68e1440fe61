"""The settings of a node for share-partitions. Names are those of ``group.share.*``."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Bounds", "SharePartitionConfig"]


class Bounds(NamedTuple):
    """What a group may set, and what it has without that."""

    default: int
    least: int
    most: int


class SharePartitionConfig(NamedTuple):
    record_lock_duration_ms: Bounds = Bounds(30_000, 15_000, 60_000)
    delivery_count_limit: Bounds = Bounds(5, 2, 10)
    partition_max_record_locks: Bounds = Bounds(2_000, 100, 4_000)
    max_share_sessions: int = 2_000
