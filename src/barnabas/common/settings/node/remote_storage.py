"""Settings of tiered storage, which is not supported."""
# A row is two lines, however long they are: how the value is read, and what it means.
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from barnabas.common.settings.setting import (
    BOOLEAN,
    CLUSTER_WIDE,
    DOUBLE,
    INT,
    LONG,
    LOW,
    MEDIUM,
    READ_ONLY,
    STRING,
    SettingTable,
    no_effect,
    refused,
)

__all__ = ["RemoteStorageSettings"]

_NO_TIERED_STORAGE = "Tiered storage is not supported: remote.log.storage.system.enable and remote.storage.enable can't be true."


class RemoteStorageSettings(SettingTable):
    follower_fetch_last_tiered_offset_enable = no_effect(_NO_TIERED_STORAGE, BOOLEAN, "false", "", MEDIUM, CLUSTER_WIDE,
        "Whether a new follower of a tiered topic starts where remote storage ends.")
    remote_fetch_max_wait_ms = no_effect(_NO_TIERED_STORAGE, INT, "500", "1..", MEDIUM, CLUSTER_WIDE,
        "How long a fetch waits for remote storage.")
    remote_list_offsets_request_timeout_ms = no_effect(_NO_TIERED_STORAGE, LONG, "30000", "1..", MEDIUM, CLUSTER_WIDE,
        "How long looking up an offset in remote storage may take.")
    remote_log_index_file_cache_total_size_bytes = no_effect(_NO_TIERED_STORAGE, LONG, "1073741824", "1..", LOW, CLUSTER_WIDE,
        "How many bytes of remote indexes are kept on local disk.")
    remote_log_index_file_cache_ttl_ms = no_effect(_NO_TIERED_STORAGE, LONG, "900000", "-1..", LOW, READ_ONLY,
        "How long an unused remote index is kept on local disk.",
        internal=True)
    remote_log_manager_copier_thread_pool_size = no_effect(_NO_TIERED_STORAGE, INT, "10", "1..", MEDIUM, CLUSTER_WIDE,
        "How many threads copy segments to remote storage.")
    remote_log_manager_copy_max_bytes_per_second = no_effect(_NO_TIERED_STORAGE, LONG, "9223372036854775807", "1..", MEDIUM, CLUSTER_WIDE,
        "How many bytes a second are copied to remote storage.")
    remote_log_manager_copy_quota_window_num = no_effect(_NO_TIERED_STORAGE, INT, "11", "1..", MEDIUM, READ_ONLY,
        "How many windows that rate is measured over.")
    remote_log_manager_copy_quota_window_size_seconds = no_effect(_NO_TIERED_STORAGE, INT, "1", "1..", MEDIUM, READ_ONLY,
        "How long such a window is.")
    remote_log_manager_expiration_thread_pool_size = no_effect(_NO_TIERED_STORAGE, INT, "10", "1..", MEDIUM, CLUSTER_WIDE,
        "How many threads delete expired segments from remote storage.")
    remote_log_manager_fetch_max_bytes_per_second = no_effect(_NO_TIERED_STORAGE, LONG, "9223372036854775807", "1..", MEDIUM, CLUSTER_WIDE,
        "How many bytes a second are fetched from remote storage.")
    remote_log_manager_fetch_quota_window_num = no_effect(_NO_TIERED_STORAGE, INT, "11", "1..", MEDIUM, READ_ONLY,
        "How many windows that rate is measured over.")
    remote_log_manager_fetch_quota_window_size_seconds = no_effect(_NO_TIERED_STORAGE, INT, "1", "1..", MEDIUM, READ_ONLY,
        "How long such a window is.")
    remote_log_manager_follower_thread_pool_size = no_effect(_NO_TIERED_STORAGE, INT, "2", "1..", MEDIUM, CLUSTER_WIDE,
        "How many threads follow what leaders have copied.")
    remote_log_manager_task_interval_ms = no_effect(_NO_TIERED_STORAGE, LONG, "30000", "1..", LOW, READ_ONLY,
        "The interval between scans for segments to copy, expire or delete.")
    remote_log_manager_task_retry_backoff_max_ms = no_effect(_NO_TIERED_STORAGE, LONG, "30000", "1..", LOW, READ_ONLY,
        "The longest such pause.",
        internal=True)
    remote_log_manager_task_retry_backoff_ms = no_effect(_NO_TIERED_STORAGE, LONG, "500", "1..", LOW, READ_ONLY,
        "The first pause after an error of that work.",
        internal=True)
    remote_log_manager_task_retry_jitter = no_effect(_NO_TIERED_STORAGE, DOUBLE, "0.2", "0..0.5", LOW, READ_ONLY,
        "How much such a pause varies at random.",
        internal=True)
    remote_log_manager_thread_pool_size = no_effect(_NO_TIERED_STORAGE, INT, "2", "1..", MEDIUM, READ_ONLY,
        "How many threads do that work, when the others are not set.")
    remote_log_metadata_custom_metadata_max_bytes = no_effect(_NO_TIERED_STORAGE, INT, "128", "0..", LOW, READ_ONLY,
        "How much the storage plug-in may have remembered about a segment.")
    remote_log_metadata_manager_class_name = no_effect(_NO_TIERED_STORAGE, STRING, "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager", "nonempty", MEDIUM, READ_ONLY,
        "The plug-in that remembers what is in remote storage.")
    remote_log_metadata_manager_class_path = no_effect(_NO_TIERED_STORAGE, STRING, None, "", MEDIUM, READ_ONLY,
        "Where that plug-in's classes are.")
    remote_log_metadata_manager_impl_prefix = no_effect(_NO_TIERED_STORAGE, STRING, "rlmm.config.", "nonempty", MEDIUM, READ_ONLY,
        "The prefix of that plug-in's own settings.")
    remote_log_metadata_manager_listener_name = no_effect(_NO_TIERED_STORAGE, STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "The listener over which that plug-in reaches the brokers.")
    remote_log_reader_max_pending_tasks = no_effect(_NO_TIERED_STORAGE, INT, "100", "1..", MEDIUM, READ_ONLY,
        "How many reads from remote storage may wait.")
    remote_log_reader_threads = no_effect(_NO_TIERED_STORAGE, INT, "10", "1..", MEDIUM, CLUSTER_WIDE,
        "How many threads read from remote storage.")
    remote_log_storage_manager_class_name = no_effect(_NO_TIERED_STORAGE, STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "The plug-in that reads and writes remote storage.")
    remote_log_storage_manager_class_path = no_effect(_NO_TIERED_STORAGE, STRING, None, "", MEDIUM, READ_ONLY,
        "Where that plug-in's classes are.")
    remote_log_storage_manager_impl_prefix = no_effect(_NO_TIERED_STORAGE, STRING, "rsm.config.", "nonempty", MEDIUM, READ_ONLY,
        "The prefix of that plug-in's own settings.")
    remote_log_storage_system_enable = refused("Tiered storage is not supported yet.", BOOLEAN, "false", "", MEDIUM, READ_ONLY,
        "Whether the node can keep old segments in remote storage.")
