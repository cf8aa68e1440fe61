"""The settings of the group coordinator, under Kafka's names with dots as underscores."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from barnabas.coordinator.group.heartbeat_settings import HeartbeatLimits, Limited

__all__ = ["GroupCoordinatorConfig", "MigrationPolicy"]


class MigrationPolicy(Enum):
    """Between which protocols a consumer group may change while it has members."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    """From classic to consumer."""
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def allows_upgrade(self) -> bool:
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def allows_downgrade(self) -> bool:
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)


@dataclass(frozen=True, slots=True)
class GroupCoordinatorConfig:
    group_initial_rebalance_delay_ms: int = 3_000
    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_max_size: int = 2_147_483_647
    group_max_pending_members: int = 2_000
    """Members of one group that received an id and have not joined with it yet."""
    groups_max_pending_members: int = 20_000
    """The same for all groups of a partition of the offsets topic together."""
    group_new_member_join_timeout_ms: int = 300_000
    """How long a new member's parked JoinGroup keeps it in the group; it has no heartbeat yet. Fixed in Kafka."""
    offset_metadata_max_bytes: int = 4_096
    offsets_commit_timeout_ms: int = 5_000
    offsets_retention_minutes: int = 10_080
    offsets_retention_check_interval_ms: int = 600_000
    offsets_topic_num_partitions: int = 50
    offsets_topic_compression_codec: int = 0

    serves_consumer_groups: bool = True
    """Whether ``group.coordinator.rebalance.protocols`` has ``consumer``."""
    group_consumer_assignment_interval_ms: int = 1_000
    group_consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """The first is the default of members that ask for none."""
    group_consumer_heartbeat_interval_ms: int = 5_000
    group_consumer_max_assignment_interval_ms: int = 15_000
    group_consumer_max_heartbeat_interval_ms: int = 15_000
    group_consumer_max_session_timeout_ms: int = 60_000
    group_consumer_max_size: int = 2_147_483_647
    group_consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    group_consumer_min_assignment_interval_ms: int = 0
    group_consumer_min_heartbeat_interval_ms: int = 5_000
    group_consumer_min_session_timeout_ms: int = 45_000
    group_consumer_regex_refresh_interval_ms: int = 600_000
    group_consumer_session_timeout_ms: int = 45_000

    group_share_assignment_interval_ms: int = 1_000
    group_share_heartbeat_interval_ms: int = 5_000
    group_share_initialize_retry_interval_ms: int = 30_000
    group_share_max_assignment_interval_ms: int = 15_000
    group_share_max_heartbeat_interval_ms: int = 15_000
    group_share_max_session_timeout_ms: int = 60_000
    group_share_max_size: int = 200
    group_share_min_assignment_interval_ms: int = 0
    group_share_min_heartbeat_interval_ms: int = 5_000
    group_share_min_session_timeout_ms: int = 45_000
    group_share_session_timeout_ms: int = 45_000
    serves_streams_groups: bool = True
    """Whether ``group.coordinator.rebalance.protocols`` has ``streams``."""
    group_streams_assignment_interval_ms: int = 1_000
    group_streams_heartbeat_interval_ms: int = 5_000
    group_streams_initial_rebalance_delay_ms: int = 3_000
    group_streams_max_assignment_interval_ms: int = 15_000
    group_streams_max_heartbeat_interval_ms: int = 15_000
    group_streams_max_session_timeout_ms: int = 60_000
    group_streams_max_size: int = 2_147_483_647
    group_streams_max_standby_replicas: int = 2
    group_streams_min_assignment_interval_ms: int = 0
    group_streams_min_heartbeat_interval_ms: int = 5_000
    group_streams_min_session_timeout_ms: int = 45_000
    group_streams_num_standby_replicas: int = 0
    group_streams_session_timeout_ms: int = 45_000

    @property
    def offsets_retention_ms(self) -> int:
        return self.offsets_retention_minutes * 60_000

    @property
    def consumer_limits(self) -> HeartbeatLimits:
        return HeartbeatLimits(
            Limited(
                self.group_consumer_session_timeout_ms,
                self.group_consumer_min_session_timeout_ms,
                self.group_consumer_max_session_timeout_ms,
            ),
            Limited(
                self.group_consumer_heartbeat_interval_ms,
                self.group_consumer_min_heartbeat_interval_ms,
                self.group_consumer_max_heartbeat_interval_ms,
            ),
            Limited(
                self.group_consumer_assignment_interval_ms,
                self.group_consumer_min_assignment_interval_ms,
                self.group_consumer_max_assignment_interval_ms,
            ),
        )

    @property
    def share_limits(self) -> HeartbeatLimits:
        return HeartbeatLimits(
            Limited(
                self.group_share_session_timeout_ms,
                self.group_share_min_session_timeout_ms,
                self.group_share_max_session_timeout_ms,
            ),
            Limited(
                self.group_share_heartbeat_interval_ms,
                self.group_share_min_heartbeat_interval_ms,
                self.group_share_max_heartbeat_interval_ms,
            ),
            Limited(
                self.group_share_assignment_interval_ms,
                self.group_share_min_assignment_interval_ms,
                self.group_share_max_assignment_interval_ms,
            ),
        )

    @property
    def share_initialize_retry_ms(self) -> int:
        """How long a state that is being initialized is waited for; at least as long as its records may take."""
        return max(self.group_share_initialize_retry_interval_ms, self.offsets_commit_timeout_ms)

    @property
    def streams_limits(self) -> HeartbeatLimits:
        return HeartbeatLimits(
            Limited(
                self.group_streams_session_timeout_ms,
                self.group_streams_min_session_timeout_ms,
                self.group_streams_max_session_timeout_ms,
            ),
            Limited(
                self.group_streams_heartbeat_interval_ms,
                self.group_streams_min_heartbeat_interval_ms,
                self.group_streams_max_heartbeat_interval_ms,
            ),
            Limited(
                self.group_streams_assignment_interval_ms,
                self.group_streams_min_assignment_interval_ms,
                self.group_streams_max_assignment_interval_ms,
            ),
        )
