"""The settings of the share coordinator, under Kafka's names with dots as underscores."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.protocol.compression import Compression

__all__ = ["ShareCoordinatorConfig"]


@dataclass(frozen=True, slots=True)
class ShareCoordinatorConfig:
    share_coordinator_state_topic_num_partitions: int = 50
    share_coordinator_state_topic_compression_codec: Compression = Compression.NONE
    share_coordinator_snapshot_update_records_per_snapshot: int = 500
    share_coordinator_cold_partition_snapshot_interval_ms: int = 300_000
    share_coordinator_state_topic_prune_interval_ms: int = 300_000
    share_coordinator_write_timeout_ms: int = 5_000
