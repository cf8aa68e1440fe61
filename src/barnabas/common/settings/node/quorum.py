"""What a node is, the quorum of controllers, and the metadata log."""
# A row is two lines, however long they are: how the value is read, and what it means.
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from barnabas.common.settings.setting import (
    BOOLEAN,
    CLASS,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    NO_DEFAULT,
    READ_ONLY,
    STRING,
    SettingTable,
    by_name,
    derived,
    no_effect,
    refused,
    setting,
)

__all__ = ["QuorumSettings"]

_DEVELOPMENT = "It is for the development of Kafka itself."
_METRICS_ARE_COUNTERS = "Metrics are read from the Prometheus endpoint, as counters without sampling windows."


class QuorumSettings(SettingTable):
    alter_config_policy_class_name: str | None = setting(CLASS, None, "", LOW, READ_ONLY,
        "A class that may veto a change of configs, as module:Class.")
    broker_heartbeat_interval_ms: int = setting(INT, "2000", "", MEDIUM, READ_ONLY,
        "How often a broker sends a heartbeat to the controller.")
    broker_id = by_name(INT, "-1", "", HIGH, READ_ONLY,
        "The older name of node.id.")
    broker_rack: str | None = setting(STRING, None, "", MEDIUM, READ_ONLY,
        "The rack or zone of this broker, for placing replicas and for reading from the nearest one.")
    broker_session_timeout_ms: int = setting(INT, "9000", "", MEDIUM, READ_ONLY,
        "After how long without heartbeats the controller fences a broker. A broker relies on it too: set the same value on all nodes.")
    controlled_shutdown_enable: bool = setting(BOOLEAN, "true", "", MEDIUM, READ_ONLY,
        "Whether a broker that stops first moves its leaderships to others.")
    controller_performance_always_log_threshold_ms = no_effect(_METRICS_ARE_COUNTERS, LONG, "2000", "0..", MEDIUM, READ_ONLY,
        "From how long on a controller's slow event is always logged.",
        internal=True)
    controller_performance_sample_period_ms = no_effect(_METRICS_ARE_COUNTERS, LONG, "60000", "100..", MEDIUM, READ_ONLY,
        "How often the controller logs how long its events took.",
        internal=True)
    controller_quorum_append_linger_ms: int = setting(INT, "25", "0..", MEDIUM, READ_ONLY,
        "How long the leader collects records before it writes them.")
    controller_quorum_auto_join_enable: bool = setting(BOOLEAN, "false", "", LOW, READ_ONLY,
        "Whether a controller that is not a voter of the quorum requests to join it.")
    controller_quorum_bootstrap_servers = by_name(LIST, "", "bootstrap-servers", HIGH, READ_ONLY,
        "Controllers to contact for the quorum's leader, as host:port, when the voters are stored in the metadata log itself.")
    controller_quorum_election_backoff_max_ms: int = setting(INT, "1000", "0..", HIGH, READ_ONLY,
        "The longest pause between two elections, grown at random from try to try.")
    controller_quorum_election_timeout_ms: int = setting(INT, "1000", "0..", HIGH, READ_ONLY,
        "How long a candidate waits for votes before it tries again.")
    controller_quorum_fetch_max_bytes: int = setting(INT, "1048576", "1..", LOW, READ_ONLY,
        "How many bytes of the metadata log one fetch may return.")
    controller_quorum_fetch_snapshot_max_bytes: int = setting(INT, "1048576", "1..", LOW, READ_ONLY,
        "How many bytes of a snapshot one fetch may return.")
    controller_quorum_fetch_timeout_ms: int = setting(INT, "2000", "0..", HIGH, READ_ONLY,
        "How long a follower waits for an answer from the leader before it starts an election.")
    controller_quorum_request_timeout_ms: int = setting(INT, "2000", "0..", MEDIUM, READ_ONLY,
        "How long a request within the quorum may take.")
    controller_quorum_retry_backoff_ms: int = setting(INT, "20", "0..", LOW, READ_ONLY,
        "The pause before a request within the quorum is repeated.")
    controller_quorum_voters = by_name(LIST, "", "voters", HIGH, READ_ONLY,
        "The controllers of a quorum that is fixed by the configuration, as id@host:port.")
    controller_quota_window_num: int = setting(INT, "11", "1..", LOW, READ_ONLY,
        "How many windows the rate of a client's admin operations is measured over.")
    controller_quota_window_size_seconds: int = setting(INT, "1", "1..", LOW, READ_ONLY,
        "How long such a window is.")
    controller_socket_timeout_ms: int = setting(INT, "30000", "", MEDIUM, READ_ONLY,
        "How long a request from controller to broker may take.")
    create_topic_policy_class_name: str | None = setting(CLASS, None, "", LOW, READ_ONLY,
        "A class that may veto the creation of a topic, as module:Class.")
    initial_broker_registration_timeout_ms: int = setting(INT, "60000", "", MEDIUM, READ_ONLY,
        "How long a broker tries to register before it gives up.")
    internal_metadata_delete_delay_millis = refused(_DEVELOPMENT, LONG, "60000", "", LOW, READ_ONLY,
        "How long deleted metadata files stay on disk, for tests.",
        internal=True)
    internal_metadata_log_segment_bytes = refused(_DEVELOPMENT, INT, None, "", LOW, READ_ONLY,
        "The size of a metadata segment for tests, free of the lower limit of metadata.log.segment.bytes.",
        internal=True)
    internal_metadata_max_batch_size_in_bytes = refused(_DEVELOPMENT, INT, "8388608", "", LOW, READ_ONLY,
        "The largest batch of metadata records, for tests.",
        internal=True)
    metadata_log_dir: str = derived(STRING, None, "", HIGH, READ_ONLY,
        "Where the metadata log is kept; by default in the first of log.dirs.")
    metadata_log_max_record_bytes_between_snapshots: int = setting(LONG, "20971520", "1..", HIGH, READ_ONLY,
        "After how many bytes of new records a snapshot of the metadata is created.")
    metadata_log_max_snapshot_interval_ms: int = setting(LONG, "3600000", "0..", HIGH, READ_ONLY,
        "The longest time between snapshots of the metadata while new records are written; 0 for no limit.")
    metadata_log_segment_bytes: int = setting(INT, "1073741824", "8388608..", HIGH, READ_ONLY,
        "The size at which a segment of the metadata log is closed.")
    metadata_log_segment_ms: int = setting(LONG, "604800000", "", HIGH, READ_ONLY,
        "The age at which a segment of the metadata log is closed.")
    metadata_max_idle_interval_ms: int = setting(INT, "500", "0..", LOW, READ_ONLY,
        "How long the active controller may be idle before it writes a NoOp record, so that other nodes see that it is alive; 0 for never.")
    metadata_max_retention_bytes: int = setting(LONG, "104857600", "", HIGH, READ_ONLY,
        "How large metadata log and snapshots may grow before the oldest are deleted.")
    metadata_max_retention_ms: int = setting(LONG, "604800000", "", HIGH, READ_ONLY,
        "How long metadata log and snapshots are kept when newer snapshots exist.")
    node_id: int = derived(INT, NO_DEFAULT, "0..", HIGH, READ_ONLY,
        "The number of this node, different from that of any other node of the cluster.")
    process_roles: tuple[str, ...] = derived(LIST, NO_DEFAULT, "list+:broker|controller", HIGH, READ_ONLY,
        "What this process is: broker, controller or both.")
    server_max_startup_time_ms = no_effect("A node starts in well under a second.", LONG, "9223372036854775807", "0..", MEDIUM, READ_ONLY,
        "How long a node may take to start before it gives up.",
        internal=True)
    unstable_api_versions_enable = refused(_DEVELOPMENT, BOOLEAN, "false", "", HIGH, READ_ONLY,
        "Whether versions of APIs that are still being developed are offered.",
        internal=True)
    unstable_feature_versions_enable = refused(_DEVELOPMENT, BOOLEAN, "false", "", HIGH, READ_ONLY,
        "Whether feature levels that are still being developed may be used.",
        internal=True)
