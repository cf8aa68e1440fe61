"""Settings of the coordinators: groups of all kinds, their offsets, transactions, share state."""
# A row is two lines, however long they are: how the value is read, and what it means.
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from barnabas.common.settings.setting import (
    BOOLEAN,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    READ_ONLY,
    SHORT,
    STRING,
    SettingTable,
    no_effect,
    refused,
    setting,
)

__all__ = ["CoordinatorSettings"]

_BUFFERS_GROW = "Buffers grow with what they hold, up to the limits of other settings."
_LOADED_IN_STEPS = "State is loaded in steps of 256 KB, so that other requests are answered in between."
_NEVER_LINGERS = "Offsets that are committed at the same time are written together; nothing waits for more."
_NOTHING_LINGERS = "Records are appended when they are decided: nothing lingers."
_ONE_EVENT_LOOP = "One event loop does this work, without a pool or queue to size."


class CoordinatorSettings(SettingTable):
    add_partitions_to_txn_retry_backoff_max_ms: int = setting(INT, "100", "0..", HIGH, READ_ONLY,
        "How long the broker itself retries to add a partition to a transaction while the previous one is being ended.")
    add_partitions_to_txn_retry_backoff_ms: int = setting(INT, "20", "1..", HIGH, READ_ONLY,
        "How long a request for a transaction waits for the end of the producer's previous one, and the broker before it asks a coordinator again.")
    group_consumer_assignment_interval_ms: int = setting(INT, "1000", "0..", MEDIUM, CLUSTER_WIDE)
    group_consumer_assignors: list[str] = setting(LIST, "uniform,range", "list+", MEDIUM, READ_ONLY,
        "The assignors that consumer groups can use, the default one first.")
    group_consumer_heartbeat_interval_ms: int = setting(INT, "5000", "1..", MEDIUM, READ_ONLY)
    group_consumer_max_assignment_interval_ms: int = setting(INT, "15000", "0..", MEDIUM, READ_ONLY)
    group_consumer_max_heartbeat_interval_ms: int = setting(INT, "15000", "1..", MEDIUM, READ_ONLY)
    group_consumer_max_session_timeout_ms: int = setting(INT, "60000", "1..", MEDIUM, READ_ONLY)
    group_consumer_max_size: int = setting(INT, "2147483647", "1..", MEDIUM, READ_ONLY,
        "How many members a consumer group may have.")
    group_consumer_migration_policy: str = setting(STRING, "bidirectional", "i:DISABLED|DOWNGRADE|UPGRADE|BIDIRECTIONAL", MEDIUM, READ_ONLY,
        "In which directions groups may change between the classic and the consumer protocol.")
    group_consumer_min_assignment_interval_ms: int = setting(INT, "0", "0..", MEDIUM, READ_ONLY)
    group_consumer_min_heartbeat_interval_ms: int = setting(INT, "5000", "1..", MEDIUM, READ_ONLY)
    group_consumer_min_session_timeout_ms: int = setting(INT, "45000", "1..", MEDIUM, READ_ONLY)
    group_consumer_regex_refresh_interval_ms: int = setting(INT, "600000", "10000..", MEDIUM, READ_ONLY,
        "How often regular expressions in subscriptions are matched with the topics again.",
        internal=True)
    group_consumer_session_timeout_ms: int = setting(INT, "45000", "1..", MEDIUM, READ_ONLY)
    group_coordinator_append_linger_ms = no_effect(_NEVER_LINGERS, INT, "-1", "-1..", MEDIUM, READ_ONLY,
        "How long group records are collected before they are written; -1 adapts to the load.")
    group_coordinator_background_threads = no_effect(_ONE_EVENT_LOOP, INT, "2", "1..", HIGH, READ_ONLY,
        "How many threads do a group coordinator's slow work.")
    group_coordinator_cached_buffer_max_bytes = no_effect(_BUFFERS_GROW, INT, "1048588", "524288..", MEDIUM, CLUSTER_WIDE,
        "The largest buffer that is kept for writing group records.")
    group_coordinator_rebalance_protocols: list[str] = setting(LIST, "classic,consumer,streams", "list+:consumer|classic|share|streams", MEDIUM, READ_ONLY,
        "Which group protocols are served.")
    group_coordinator_threads = no_effect(_ONE_EVENT_LOOP, INT, "4", "1..", HIGH, READ_ONLY,
        "How many threads coordinate groups.")
    group_initial_rebalance_delay_ms: int = setting(INT, "3000", "", MEDIUM, READ_ONLY,
        "How long an empty classic group waits for more members before its first rebalance.")
    group_max_session_timeout_ms: int = setting(INT, "1800000", "", MEDIUM, READ_ONLY,
        "The longest session timeout that a member of a classic group may request.")
    group_max_size: int = setting(INT, "2147483647", "1..", MEDIUM, READ_ONLY,
        "How many members a classic group may have.")
    group_min_session_timeout_ms: int = setting(INT, "6000", "", MEDIUM, READ_ONLY,
        "The shortest session timeout that a member of a classic group may request.")
    group_share_assignment_interval_ms: int = setting(INT, "1000", "0..", MEDIUM, CLUSTER_WIDE,
        "The shortest time between two computations of a share group's assignment.")
    group_share_assignors = refused("Share groups have one assignor, which is simple.", LIST, "simple", "list+", MEDIUM, READ_ONLY,
        "The assignor of share groups.")
    group_share_delivery_count_limit: int = setting(INT, "5", "2..10", MEDIUM, READ_ONLY)
    group_share_heartbeat_interval_ms: int = setting(INT, "5000", "1..", MEDIUM, READ_ONLY,
        "The interval between heartbeats that the coordinator requests from members of share groups.")
    group_share_initialize_retry_interval_ms: int = setting(INT, "30000", "1..", LOW, READ_ONLY,
        "How long the coordinator waits for the state of a share group's partition to be initialized before it tries again.",
        internal=True)
    group_share_max_assignment_interval_ms: int = setting(INT, "15000", "0..", MEDIUM, READ_ONLY,
        "The longest time between two computations that a share group may have set.")
    group_share_max_delivery_count_limit: int = setting(INT, "10", "5..25", MEDIUM, READ_ONLY)
    group_share_max_heartbeat_interval_ms: int = setting(INT, "15000", "1..", MEDIUM, READ_ONLY,
        "The longest interval between heartbeats that a share group may have set.")
    group_share_max_partition_max_record_locks: int = setting(INT, "4000", "2000..10000", MEDIUM, READ_ONLY)
    group_share_max_record_lock_duration_ms: int = setting(INT, "60000", "30000..3600000", MEDIUM, READ_ONLY)
    group_share_max_session_timeout_ms: int = setting(INT, "60000", "1..", MEDIUM, READ_ONLY,
        "The longest session timeout that a share group may have set.")
    group_share_max_share_sessions: int = setting(INT, "2000", "1..", MEDIUM, READ_ONLY,
        "How many share sessions a broker keeps. Other members of share groups wait until one ends.")
    group_share_max_size: int = setting(INT, "200", "1..1000", MEDIUM, READ_ONLY,
        "How many members a share group may have.")
    group_share_min_assignment_interval_ms: int = setting(INT, "0", "0..", MEDIUM, READ_ONLY,
        "The shortest time between two computations that a share group may have set.")
    group_share_min_delivery_count_limit: int = setting(INT, "2", "2..5", MEDIUM, READ_ONLY)
    group_share_min_heartbeat_interval_ms: int = setting(INT, "5000", "1..", MEDIUM, READ_ONLY,
        "The shortest interval between heartbeats that a share group may have set.")
    group_share_min_partition_max_record_locks: int = setting(INT, "100", "100..2000", MEDIUM, READ_ONLY)
    group_share_min_record_lock_duration_ms: int = setting(INT, "15000", "1000..30000", MEDIUM, READ_ONLY)
    group_share_min_session_timeout_ms: int = setting(INT, "45000", "1..", MEDIUM, READ_ONLY,
        "The shortest session timeout that a share group may have set.")
    group_share_partition_max_record_locks: int = setting(INT, "2000", "100..10000", MEDIUM, READ_ONLY)
    group_share_persister_class_name = refused("The state of share groups is kept in __share_group_state.", STRING, "org.apache.kafka.server.share.persister.DefaultStatePersister", "", MEDIUM, READ_ONLY,
        "What keeps the state of share groups.",
        internal=True)
    group_share_record_lock_duration_ms: int = setting(INT, "30000", "1000..3600000", MEDIUM, READ_ONLY)
    group_share_session_timeout_ms: int = setting(INT, "45000", "1..", MEDIUM, READ_ONLY,
        "After how long without heartbeats a member leaves its share group.")
    group_streams_assignment_interval_ms: int = setting(INT, "1000", "0..", MEDIUM, CLUSTER_WIDE)
    group_streams_heartbeat_interval_ms: int = setting(INT, "5000", "1..", MEDIUM, READ_ONLY)
    group_streams_initial_rebalance_delay_ms: int = setting(INT, "3000", "0..", MEDIUM, READ_ONLY)
    group_streams_max_assignment_interval_ms: int = setting(INT, "15000", "0..", MEDIUM, READ_ONLY)
    group_streams_max_heartbeat_interval_ms: int = setting(INT, "15000", "1..", MEDIUM, READ_ONLY)
    group_streams_max_session_timeout_ms: int = setting(INT, "60000", "1..", MEDIUM, READ_ONLY)
    group_streams_max_size: int = setting(INT, "2147483647", "1..", MEDIUM, READ_ONLY,
        "How many members a streams group may have.")
    group_streams_max_standby_replicas: int = setting(INT, "2", "0..", MEDIUM, READ_ONLY,
        "How many standby copies a streams group may have set.")
    group_streams_min_assignment_interval_ms: int = setting(INT, "0", "0..", MEDIUM, READ_ONLY)
    group_streams_min_heartbeat_interval_ms: int = setting(INT, "5000", "1..", MEDIUM, READ_ONLY)
    group_streams_min_session_timeout_ms: int = setting(INT, "45000", "1..", MEDIUM, READ_ONLY)
    group_streams_num_standby_replicas: int = setting(INT, "0", "0..", MEDIUM, READ_ONLY)
    group_streams_session_timeout_ms: int = setting(INT, "45000", "1..", MEDIUM, READ_ONLY)
    offset_metadata_max_bytes: int = setting(INT, "4096", "", HIGH, READ_ONLY,
        "How much text a client may store with a committed offset.")
    offsets_commit_timeout_ms: int = setting(INT, "5000", "1..", HIGH, READ_ONLY,
        "How long committing an offset may take.")
    offsets_load_buffer_size = no_effect(_BUFFERS_GROW, INT, "5242880", "1..", HIGH, READ_ONLY,
        "How many bytes one read may return when committed offsets are loaded.")
    offsets_retention_check_interval_ms: int = setting(LONG, "600000", "1..", HIGH, READ_ONLY,
        "The interval between checks for expired committed offsets.")
    offsets_retention_minutes: int = setting(INT, "10080", "1..", HIGH, READ_ONLY,
        "How long the committed offsets of an empty group, or of a topic it no longer reads, are kept.")
    offsets_topic_compression_codec = refused("Offsets are written uncompressed.", INT, "0", "", HIGH, READ_ONLY,
        "The codec of committed offsets: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.")
    offsets_topic_num_partitions: int = setting(INT, "50", "1..", HIGH, READ_ONLY,
        "How many partitions the topic of committed offsets has. Must not change afterwards.")
    offsets_topic_replication_factor: int = setting(SHORT, "3", "1..", HIGH, READ_ONLY,
        "How many replicas the topic of committed offsets has. It is created when that many brokers are registered.")
    offsets_topic_segment_bytes: int = setting(INT, "104857600", "1..", HIGH, READ_ONLY,
        "The segment size of the topic of committed offsets: small ones are compacted and loaded faster.")
    share_coordinator_append_linger_ms = no_effect(_NOTHING_LINGERS, INT, "-1", "-1..", MEDIUM, READ_ONLY,
        "How long records of share state are collected before they are written; -1 adapts to the load.")
    share_coordinator_cached_buffer_max_bytes = no_effect(_BUFFERS_GROW, INT, "1048588", "524288..", MEDIUM, CLUSTER_WIDE,
        "The largest buffer that is kept for writing share state.")
    share_coordinator_cold_partition_snapshot_interval_ms: int = setting(INT, "300000", "1..", LOW, READ_ONLY,
        "How often the share state of an inactive partition is written again.",
        internal=True)
    share_coordinator_load_buffer_size = no_effect(_LOADED_IN_STEPS, INT, "5242880", "1..", HIGH, READ_ONLY,
        "How many bytes one read may return when share state is loaded.")
    share_coordinator_snapshot_update_records_per_snapshot: int = setting(INT, "500", "0..500", MEDIUM, READ_ONLY,
        "How many updates of share state are written between two snapshots of it.")
    share_coordinator_state_topic_compression_codec: int = setting(INT, "0", "", HIGH, READ_ONLY,
        "The codec of share state: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.")
    share_coordinator_state_topic_min_isr: int = setting(SHORT, "2", "1..", HIGH, READ_ONLY,
        "min.insync.replicas of the topic of share state.")
    share_coordinator_state_topic_num_partitions: int = setting(INT, "50", "1..", HIGH, READ_ONLY,
        "How many partitions the topic of share state has. Must not change afterwards.")
    share_coordinator_state_topic_prune_interval_ms: int = setting(INT, "300000", "1..", LOW, READ_ONLY,
        "How often obsolete records of share state are deleted.",
        internal=True)
    share_coordinator_state_topic_replication_factor: int = setting(SHORT, "3", "1..", HIGH, READ_ONLY,
        "How many replicas the topic of share state has.")
    share_coordinator_state_topic_segment_bytes: int = setting(INT, "104857600", "1..", HIGH, READ_ONLY,
        "The segment size of the topic of share state.")
    share_coordinator_threads = no_effect(_ONE_EVENT_LOOP, INT, "1", "1..", MEDIUM, READ_ONLY,
        "How many threads coordinate share state.")
    share_coordinator_write_timeout_ms: int = setting(INT, "5000", "1..", HIGH, READ_ONLY,
        "How long writing share state may take.")
    share_fetch_purgatory_purge_interval_requests = no_effect("Waiting requests are removed as soon as they complete, so a purge is not needed.", INT, "1000", "", MEDIUM, READ_ONLY,
        "After how many finished requests the list of waiting share fetches is tidied up.")
    transaction_abort_timed_out_transaction_cleanup_interval_ms: int = setting(INT, "10000", "1..", LOW, READ_ONLY,
        "How soon the end of a transaction that exceeded its timeout is tried again. The timeout itself is exact.")
    transaction_max_timeout_ms: int = setting(INT, "900000", "1..", HIGH, READ_ONLY,
        "The longest timeout that a transaction may request.")
    transaction_partition_verification_enable: bool = setting(BOOLEAN, "true", "", LOW, CLUSTER_WIDE,
        "Whether a broker verifies with the coordinator that a partition belongs to the transaction it is written in.")
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(INT, "3600000", "1..", LOW, READ_ONLY,
        "The interval between checks for unused transactional ids.")
    transaction_state_log_load_buffer_size = no_effect(_LOADED_IN_STEPS, INT, "5242880", "1..", HIGH, READ_ONLY,
        "How many bytes one read may return when transaction state is loaded.")
    transaction_state_log_min_isr: int = setting(INT, "2", "1..", HIGH, READ_ONLY,
        "min.insync.replicas of the topic of transaction state.")
    transaction_state_log_num_partitions: int = setting(INT, "50", "1..", HIGH, READ_ONLY,
        "How many partitions the topic of transaction state has. Must not change afterwards.")
    transaction_state_log_replication_factor: int = setting(SHORT, "3", "1..", HIGH, READ_ONLY,
        "How many replicas the topic of transaction state has.")
    transaction_state_log_segment_bytes: int = setting(INT, "104857600", "1..", HIGH, READ_ONLY,
        "The segment size of the topic of transaction state.")
    transaction_two_phase_commit_enable = refused("Two-phase commit (KIP-939) is not supported.", BOOLEAN, "false", "", LOW, READ_ONLY,
        "Whether producers may take part in transactions that an external coordinator decides (two-phase commit).")
    transactional_id_expiration_ms: int = setting(INT, "604800000", "1..", HIGH, READ_ONLY,
        "How long an unused transactional id is kept.")
