"""The limits of one share group, which may change while its records are in flight."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["SharePartitionSettings"]


class SharePartitionSettings(NamedTuple):
    record_lock_duration_ms: int = 30_000
    delivery_count_limit: int = 5
    partition_max_record_locks: int = 2_000
    renew_acknowledge_enable: bool = True

    @property
    def throttling_delivery_count(self) -> int:
        """From this delivery count on, ever fewer records are delivered together, to isolate the one that fails."""
        return max(2, (self.delivery_count_limit + 1) // 2)
