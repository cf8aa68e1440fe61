"""Settings of topics, their logs and their replicas."""
# A row is two lines, however long they are: how the value is read, and what it means.
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from barnabas.common.settings.setting import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    PER_BROKER,
    READ_ONLY,
    STRING,
    SettingTable,
    by_name,
    derived,
    no_effect,
    setting,
)
from barnabas.common.settings.topic_settings import FILES_GROW, TIERED_ONLY

__all__ = ["ReplicaSettings"]

_NOTHING_TO_PURGE = "Waiting requests are removed as soon as they complete, so a purge is not needed."
_ONE_EVENT_LOOP = "One event loop does this work, without a pool or queue to size."


class ReplicaSettings(SettingTable):
    alter_log_dirs_replication_quota_window_num: int = setting(INT, "11", "1..", LOW, READ_ONLY,
        "How many windows the rate of moves between log directories is measured over.")
    alter_log_dirs_replication_quota_window_size_seconds: int = setting(INT, "1", "1..", LOW, READ_ONLY,
        "How long such a window is.")
    auto_create_topics_enable: bool = setting(BOOLEAN, "true", "", HIGH, READ_ONLY,
        "Whether a topic that a client requests is created if it does not exist.")
    auto_leader_rebalance_enable: bool = setting(BOOLEAN, "true", "", HIGH, READ_ONLY,
        "Whether the controller periodically moves leaderships back to the preferred replicas.")
    compression_gzip_level = by_name(INT, "-1", "gzip-level", MEDIUM, CLUSTER_WIDE)
    compression_lz4_level = by_name(INT, "9", "1..17", MEDIUM, CLUSTER_WIDE)
    compression_type = by_name(STRING, "producer", "uncompressed|zstd|lz4|snappy|gzip|producer", HIGH, CLUSTER_WIDE)
    compression_zstd_level = by_name(INT, "3", "-131072..22", MEDIUM, CLUSTER_WIDE)
    cordoned_log_dirs: list[str] = derived(LIST, "", "list?", MEDIUM, PER_BROKER,
        "Log directories that receive no new partitions; * for all.")
    default_replication_factor: int = setting(INT, "1", "", MEDIUM, READ_ONLY,
        "How many replicas a topic has that is created without a number.")
    delete_records_purgatory_purge_interval_requests = no_effect(_NOTHING_TO_PURGE, INT, "1", "", MEDIUM, READ_ONLY,
        "After how many finished requests the list of waiting DeleteRecords requests is tidied up.")
    delete_topic_enable: bool = setting(BOOLEAN, "true", "", HIGH, READ_ONLY,
        "Whether topics can be deleted.")
    fetch_max_bytes: int = setting(INT, "57671680", "1024..", MEDIUM, READ_ONLY,
        "How many bytes of records one answer to a fetch may have.")
    fetch_purgatory_purge_interval_requests = no_effect(_NOTHING_TO_PURGE, INT, "1000", "", MEDIUM, READ_ONLY,
        "After how many finished requests the list of waiting fetches is tidied up.")
    leader_imbalance_check_interval_seconds: int = setting(LONG, "300", "1..", HIGH, READ_ONLY,
        "The interval between checks whether leaderships should return to the preferred replicas.")
    log_cleaner_backoff_ms: int = setting(LONG, "15000", "0..", MEDIUM, CLUSTER_WIDE,
        "How long the cleaner sleeps when there is nothing to compact.")
    log_cleaner_dedupe_buffer_size: int = setting(LONG, "134217728", "", MEDIUM, CLUSTER_WIDE,
        "How many bytes of memory the cleaner uses to remember keys.")
    log_cleaner_delete_retention_ms = by_name(LONG, "86400000", "0..", MEDIUM, CLUSTER_WIDE)
    log_cleaner_enable: bool = setting(BOOLEAN, "true", "", MEDIUM, READ_ONLY,
        "Whether logs are compacted at all.")
    log_cleaner_io_buffer_load_factor: float = setting(DOUBLE, "0.9", "", MEDIUM, CLUSTER_WIDE,
        "How full the cleaner's memory of keys may get, as a fraction.")
    log_cleaner_io_buffer_size = no_effect("Buffers grow with what they hold, up to the limits of other settings.", INT, "524288", "0..", MEDIUM, CLUSTER_WIDE,
        "How many bytes of memory the cleaner reads and writes with.")
    log_cleaner_io_max_bytes_per_second: float = setting(DOUBLE, "1.7976931348623157E308", "", MEDIUM, CLUSTER_WIDE,
        "How many bytes a second the cleaner may read and write.")
    log_cleaner_max_compaction_lag_ms = by_name(LONG, "9223372036854775807", "1..", MEDIUM, CLUSTER_WIDE)
    log_cleaner_min_cleanable_ratio = by_name(DOUBLE, "0.5", "0..1", MEDIUM, CLUSTER_WIDE)
    log_cleaner_min_compaction_lag_ms = by_name(LONG, "0", "0..", MEDIUM, CLUSTER_WIDE)
    log_cleaner_threads = no_effect(_ONE_EVENT_LOOP, INT, "1", "0..", MEDIUM, CLUSTER_WIDE,
        "How many threads compact logs.")
    log_cleanup_policy = by_name(LIST, "delete", "list:compact|delete", MEDIUM, CLUSTER_WIDE)
    log_dir = by_name(LIST, "/tmp/kafka-logs", "list+", HIGH, READ_ONLY,
        "Where logs are kept, if log.dirs is not set.")
    log_dir_failure_timeout_ms: int = setting(LONG, "30000", "1..", LOW, READ_ONLY,
        "How long a broker tries to report a failed log directory to the controller before it stops.")
    log_dirs: list[str] = derived(LIST, None, "list+?", HIGH, READ_ONLY,
        "Where logs are kept: one or several directories.")
    log_flush_interval_messages = by_name(LONG, "9223372036854775807", "1..", HIGH, CLUSTER_WIDE)
    log_flush_interval_ms = by_name(LONG, None, "", HIGH, CLUSTER_WIDE)
    log_flush_offset_checkpoint_interval_ms: int = setting(INT, "60000", "0..", HIGH, READ_ONLY,
        "How often the recovery points are written: the offsets up to which logs are known to be on disk.")
    log_flush_scheduler_interval_ms: int = setting(LONG, "9223372036854775807", "", HIGH, READ_ONLY,
        "The interval between checks whether logs have to be flushed to disk; the default of log.flush.interval.ms.")
    log_flush_start_offset_checkpoint_interval_ms = no_effect("Written together with the checkpoint of log.flush.offset.checkpoint.interval.ms.", INT, "60000", "0..", HIGH, READ_ONLY,
        "How often the start offsets of logs are written.")
    log_index_interval_bytes = by_name(INT, "4096", "0..", MEDIUM, CLUSTER_WIDE)
    log_index_size_max_bytes = by_name(INT, "10485760", "4..", MEDIUM, CLUSTER_WIDE)
    log_initial_task_delay_ms = no_effect("A node starts in well under a second.", LONG, "30000", "0..", LOW, READ_ONLY,
        "How long after the start the first background work on logs waits.",
        internal=True)
    log_local_retention_bytes = no_effect(TIERED_ONLY, LONG, "-2", "-2..", MEDIUM, CLUSTER_WIDE)
    log_local_retention_ms = no_effect(TIERED_ONLY, LONG, "-2", "-2..", MEDIUM, CLUSTER_WIDE)
    log_message_timestamp_after_max_ms = by_name(LONG, "3600000", "0..", MEDIUM, CLUSTER_WIDE)
    log_message_timestamp_before_max_ms = by_name(LONG, "9223372036854775807", "0..", MEDIUM, CLUSTER_WIDE)
    log_message_timestamp_type = by_name(STRING, "CreateTime", "CreateTime|LogAppendTime", MEDIUM, CLUSTER_WIDE)
    log_preallocate = no_effect(FILES_GROW, BOOLEAN, "false", "", MEDIUM, CLUSTER_WIDE)
    log_retention_bytes = by_name(LONG, "-1", "", HIGH, CLUSTER_WIDE)
    log_retention_check_interval_ms: int = setting(LONG, "300000", "1..", MEDIUM, READ_ONLY,
        "The interval between checks whether segments can be deleted.")
    log_retention_hours = by_name(INT, "168", "", HIGH, READ_ONLY)
    log_retention_minutes = by_name(INT, None, "", HIGH, READ_ONLY)
    log_retention_ms = by_name(LONG, None, "", HIGH, CLUSTER_WIDE)
    log_roll_hours = by_name(INT, "168", "1..", HIGH, READ_ONLY)
    log_roll_jitter_hours = by_name(INT, "0", "0..", HIGH, READ_ONLY)
    log_roll_jitter_ms = by_name(LONG, None, "", HIGH, CLUSTER_WIDE)
    log_roll_ms = by_name(LONG, None, "", HIGH, CLUSTER_WIDE)
    log_segment_bytes = by_name(INT, "1073741824", "1048576..", HIGH, CLUSTER_WIDE)
    log_segment_delete_delay_ms = by_name(LONG, "60000", "0..", HIGH, CLUSTER_WIDE)
    max_request_partition_size_limit: int = setting(INT, "2000", "1..", MEDIUM, READ_ONLY,
        "How many partitions one answer to DescribeTopicPartitions may have.")
    message_max_bytes = by_name(INT, "1048588", "0..", HIGH, CLUSTER_WIDE)
    min_insync_replicas: int = setting(INT, "1", "1..", HIGH, CLUSTER_WIDE)
    num_partitions: int = setting(INT, "1", "1..", MEDIUM, READ_ONLY,
        "How many partitions a topic has that is created without a number.")
    num_recovery_threads_per_data_dir = no_effect(_ONE_EVENT_LOOP, INT, "2", "1..", HIGH, CLUSTER_WIDE,
        "How many threads recover logs at the start and flush them at the end, per log directory.")
    num_replica_alter_log_dirs_threads = no_effect(_ONE_EVENT_LOOP, INT, None, "", HIGH, READ_ONLY,
        "How many threads move replicas between log directories.")
    num_replica_fetchers: int = setting(INT, "1", "1..", HIGH, CLUSTER_WIDE,
        "How many threads copy from each other broker.")
    producer_id_expiration_check_interval_ms = no_effect("Checked together with retention, every log.retention.check.interval.ms.", INT, "600000", "1..", LOW, READ_ONLY,
        "The interval between checks for expired producers.",
        internal=True)
    producer_id_expiration_ms: int = setting(INT, "86400000", "1..", LOW, CLUSTER_WIDE,
        "How long a partition keeps the last sequence numbers of an inactive idempotent producer.")
    producer_purgatory_purge_interval_requests = no_effect(_NOTHING_TO_PURGE, INT, "1000", "", MEDIUM, READ_ONLY,
        "After how many finished requests the list of waiting produce requests is tidied up.")
    replica_fetch_backoff_ms: int = setting(INT, "1000", "0..", MEDIUM, READ_ONLY,
        "How long a follower pauses after an error.")
    replica_fetch_max_bytes: int = setting(INT, "1048576", "0..", MEDIUM, READ_ONLY,
        "How many bytes of one partition a follower fetches in one request.")
    replica_fetch_min_bytes: int = setting(INT, "1", "", HIGH, READ_ONLY,
        "How many bytes a follower waits for.")
    replica_fetch_response_max_bytes: int = setting(INT, "10485760", "0..", MEDIUM, READ_ONLY,
        "How many bytes a follower fetches in one request.")
    replica_fetch_wait_max_ms: int = setting(INT, "500", "", HIGH, READ_ONLY,
        "How long a follower waits for them.")
    replica_high_watermark_checkpoint_interval_ms: int = setting(LONG, "5000", "", HIGH, READ_ONLY,
        "How often the high watermarks are written to disk.")
    replica_lag_time_max_ms: int = setting(LONG, "30000", "", HIGH, READ_ONLY,
        "How long a follower may be behind before it leaves the in-sync replicas.")
    replica_selector_class: str | None = setting(STRING, None, "", MEDIUM, READ_ONLY,
        "A plug-in that selects the replica a consumer should read from.")
    replica_socket_receive_buffer_bytes = by_name(INT, "65536", "", HIGH, READ_ONLY,
        "The size of a follower's receive buffer.")
    replica_socket_timeout_ms: int = setting(INT, "30000", "", HIGH, READ_ONLY,
        "How long a follower's request may take.")
    replication_quota_window_num: int = setting(INT, "11", "1..", LOW, READ_ONLY,
        "How many windows the rate of throttled replication is measured over.")
    replication_quota_window_size_seconds: int = setting(INT, "1", "1..", LOW, READ_ONLY,
        "How long such a window is.")
    unclean_leader_election_enable = by_name(BOOLEAN, "false", "", HIGH, CLUSTER_WIDE)
    unclean_leader_election_interval_ms: int = setting(LONG, "300000", "1..", MEDIUM, READ_ONLY,
        "How often the controller looks for partitions that need an unclean election.",
        internal=True)
