"""Settings of a group, of a client-metrics subscription, and quotas of a broker."""
# A row is two lines, however long they are: how the value is read, and what it means.
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from barnabas.common.settings.setting import (
    BOOLEAN,
    CLUSTER_WIDE,
    INT,
    LIST,
    LONG,
    MEDIUM,
    STRING,
    SettingTable,
    by_name,
)

__all__ = ["ClientMetricsSettings", "DynamicQuotas", "GroupSettings"]


class GroupSettings(SettingTable):
    consumer_assignment_interval_ms = by_name(INT, "1000", "0..", MEDIUM, CLUSTER_WIDE,
        "The shortest time between two computations of a consumer group's assignment.")
    consumer_heartbeat_interval_ms = by_name(INT, "5000", "1..", MEDIUM, CLUSTER_WIDE,
        "The interval between heartbeats that the coordinator requests from members of a consumer group.")
    consumer_session_timeout_ms = by_name(INT, "45000", "1..", MEDIUM, CLUSTER_WIDE,
        "After how long without heartbeats a member leaves its consumer group.")
    share_assignment_interval_ms = by_name(INT, "1000", "0..", MEDIUM, CLUSTER_WIDE,
        "The shortest time between two computations of a share group's assignment.")
    share_auto_offset_reset = by_name(STRING, "latest", "auto-offset-reset", MEDIUM, CLUSTER_WIDE,
        "Where a new share group starts: at the latest or earliest record, or as long ago as a duration says.")
    share_delivery_count_limit = by_name(INT, "5", "2..", MEDIUM, CLUSTER_WIDE,
        "How many times a record is delivered to a share group before delivery stops.")
    share_heartbeat_interval_ms = by_name(INT, "5000", "1..", MEDIUM, CLUSTER_WIDE,
        "The interval between heartbeats that the coordinator requests from members of a share group.")
    share_isolation_level = by_name(STRING, "read_uncommitted", "read_committed|read_uncommitted", MEDIUM, CLUSTER_WIDE,
        "Whether a share group sees records of open and aborted transactions.")
    share_partition_max_record_locks = by_name(INT, "2000", "100..", MEDIUM, CLUSTER_WIDE,
        "How many records of a partition a share group may have in delivery at the same time.")
    share_record_lock_duration_ms = by_name(INT, "30000", "1000..", MEDIUM, CLUSTER_WIDE,
        "How long a record that was delivered to a member of a share group is not delivered to other members.")
    share_renew_acknowledge_enable = by_name(BOOLEAN, "true", "", MEDIUM, CLUSTER_WIDE,
        "Whether members of a share group may prolong their lock on a record.")
    share_session_timeout_ms = by_name(INT, "45000", "1..", MEDIUM, CLUSTER_WIDE,
        "After how long without heartbeats a member leaves its share group.")
    streams_assignment_interval_ms = by_name(INT, "1000", "0..", MEDIUM, CLUSTER_WIDE,
        "The shortest time between two computations of a streams group's assignment.")
    streams_heartbeat_interval_ms = by_name(INT, "5000", "1..", MEDIUM, CLUSTER_WIDE,
        "The interval between heartbeats that the coordinator requests from members of a streams group.")
    streams_initial_rebalance_delay_ms = by_name(INT, "3000", "0..", MEDIUM, CLUSTER_WIDE,
        "How long a new streams group waits for more members before its first assignment.")
    streams_num_standby_replicas = by_name(INT, "0", "0..", MEDIUM, CLUSTER_WIDE,
        "How many standby copies of each stateful task a streams group keeps.")
    streams_session_timeout_ms = by_name(INT, "45000", "1..", MEDIUM, CLUSTER_WIDE,
        "After how long without heartbeats a member leaves its streams group.")


class ClientMetricsSettings(SettingTable):
    interval_ms = by_name(INT, "300000", "", MEDIUM, CLUSTER_WIDE,
        "How often clients that match push their metrics.")
    match = by_name(LIST, "", "list", MEDIUM, CLUSTER_WIDE,
        "Which clients: pairs of a client attribute and a regular expression; all of them must match. Client metrics are not collected yet.")
    metrics = by_name(LIST, "", "list", MEDIUM, CLUSTER_WIDE,
        "Which metrics: prefixes of their names; nothing means none, * all.")


class DynamicQuotas(SettingTable):
    """Settings that can be set only at run time, and are described only if they were set."""

    leader_replication_throttled_rate = by_name(LONG, "9223372036854775807", "0..", MEDIUM, CLUSTER_WIDE,
        "How many bytes a second a leader sends to throttled replicas.")
    follower_replication_throttled_rate = by_name(LONG, "9223372036854775807", "0..", MEDIUM, CLUSTER_WIDE,
        "How many bytes a second a follower fetches for throttled replicas.")
    replica_alter_log_dirs_io_max_bytes_per_second = by_name(LONG, "9223372036854775807", "0..", MEDIUM, CLUSTER_WIDE,
        "How many bytes a second are moved between log directories.")
