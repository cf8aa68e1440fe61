"""Settings of barnabas's own: Kafka has none of them."""
# A row is two lines, however long they are: how the value is read, and what it means.
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from barnabas.common.settings.setting import (
    BOOLEAN,
    INT,
    LONG,
    LOW,
    MEDIUM,
    PASSWORD,
    READ_ONLY,
    SHORT,
    STRING,
    SettingTable,
    by_name,
    setting,
)

__all__ = ["BarnabasSettings"]


class BarnabasSettings(SettingTable):
    barnabas_audit_denials_per_caller: int = setting(INT, "200", "1..", LOW, READ_ONLY,
        "How many denials of one principal and host become separate audit events in a window; further ones are counted together, under the name (others) if they concern other resources.")
    barnabas_audit_denials_per_window: int = setting(INT, "10", "1..", LOW, READ_ONLY,
        "How many equal denials become separate audit events in a window; further ones are counted together.")
    barnabas_audit_kinds_max: int = setting(INT, "10000", "100..", LOW, READ_ONLY,
        "How many kinds of decisions (principal, host, API, operation, resource) are counted separately in a window of the access audit.")
    barnabas_audit_log_level: str = setting(STRING, "INFO", "i:OFF|INFO|DEBUG", MEDIUM, READ_ONLY,
        "Which decisions the access audit logs, as logger kafka.authorizer.logger: INFO denials, DEBUG allowed decisions too, OFF nothing. Independent of barnabas.log.level.")
    barnabas_audit_queue_max: int = setting(INT, "10000", "100..", LOW, READ_ONLY,
        "How many events of the access audit may wait to be written; more are counted as dropped.")
    barnabas_audit_topic_enable: bool = setting(BOOLEAN, "false", "", MEDIUM, READ_ONLY,
        "Whether the access audit is also written to the internal topic __access_audit, which the node creates.")
    barnabas_audit_topic_partitions: int = setting(INT, "1", "1..", LOW, READ_ONLY,
        "With how many partitions the node creates __access_audit. Records are keyed by principal.")
    barnabas_audit_topic_replication_factor: int = setting(SHORT, "-1", "-1..", LOW, READ_ONLY,
        "With how many replicas the node creates __access_audit; -1 is default.replication.factor.")
    barnabas_audit_topic_retention_ms: int = setting(LONG, "604800000", "-1..", MEDIUM, READ_ONLY,
        "How long __access_audit keeps its records, set when the node creates it; -1 is forever.")
    barnabas_audit_window_ms: int = setting(LONG, "30000", "100..", MEDIUM, READ_ONLY,
        "How long equal allowed decisions are counted together before they become one event of the access audit.")
    barnabas_authentication_timeout_ms: int = setting(INT, "30000", "0..", MEDIUM, READ_ONLY,
        "Within which time a client must have ended its TLS handshake, and within which it must have logged in on a SASL listener, before its connection is closed; 0 for no limit.")
    barnabas_auto_format: bool = setting(BOOLEAN, "false", "", MEDIUM, READ_ONLY,
        "Whether unformatted log directories are formatted at the start, as a new cluster of only this node with a new cluster id.")
    barnabas_batch_max_decompressed_bytes: int = setting(INT, "67108864", "1024..", LOW, READ_ONLY,
        "How many bytes the records of one batch of a producer may have when they are decompressed. A larger batch is refused with MESSAGE_TOO_LARGE.")
    barnabas_batch_max_headers: int = setting(INT, "200000", "0..", LOW, READ_ONLY,
        "How many headers the records of one batch of a producer may have in total. A batch with more is refused with INVALID_RECORD.")
    barnabas_config_encryption_keys = by_name(PASSWORD, None, "", MEDIUM, READ_ONLY,
        "Keys that sensitive dynamic configs are encrypted with in the metadata log, newest first, separated by commas: 32 bytes each, as base64. The first encrypts, all of them decrypt. Without keys nothing is encrypted.")
    barnabas_config_encryption_keys_file = by_name(STRING, "", "", MEDIUM, READ_ONLY,
        "A file with these keys instead, one to a line, newest first.")
    barnabas_delegation_token_max_renewers: int = setting(INT, "100", "0..", LOW, READ_ONLY,
        "How many renewers a delegation token may have. A request for more is refused with POLICY_VIOLATION.")
    barnabas_delegation_tokens_max_per_owner: int = setting(INT, "500", "1..", LOW, READ_ONLY,
        "How many delegation tokens one principal may own or have requested. A request for one more is refused with POLICY_VIOLATION.")
    barnabas_describe_configs_of_others: bool = setting(BOOLEAN, "false", "", LOW, READ_ONLY,
        "Whether a broker forwards a request for another broker's settings to that broker, over the inter-broker listener. It needs DESCRIBE_CONFIGS on the cluster there. Otherwise it refuses the request, as Kafka does.")
    barnabas_fetch_sessions_max_partitions: int = setting(INT, "100000", "0..", LOW, READ_ONLY,
        "How many partitions the fetch sessions of all consumers may have in total. A consumer beyond this limit fetches without a session. Sessions of followers are not limited.")
    barnabas_group_max_pending_members: int = setting(INT, "2000", "1..", LOW, READ_ONLY,
        "How many clients of one group may have a member id with which they have not joined yet. Further ones are refused with GROUP_MAX_SIZE_REACHED.")
    barnabas_groups_max_pending_members: int = setting(INT, "20000", "1..", LOW, READ_ONLY,
        "The same limit for all groups of a partition of __consumer_offsets together. Further clients are refused with COORDINATOR_LOAD_IN_PROGRESS, and retry.")
    barnabas_legacy_alter_mode: str = setting(STRING, "replace", "replace|merge", LOW, READ_ONLY,
        "What the legacy AlterConfigs does with settings that it does not name: replace removes them, as Kafka does, merge keeps them.")
    barnabas_log_format: str = setting(STRING, "text", "text|json", LOW, READ_ONLY,
        "How log lines are written: as text, or as one JSON object each.")
    barnabas_log_level: str = setting(STRING, "INFO", "i:DEBUG|INFO|WARN|ERROR", LOW, READ_ONLY,
        "From which level on log lines are written.")
    barnabas_max_open_files: int = setting(INT, "-1", "-1..", MEDIUM, READ_ONLY,
        "How many segment and index files may be open at the same time; the least recently used are closed. -1 is half of what the system allows the process, at most 8192.")
    barnabas_metadata_autocreate_fail_fast: bool = setting(BOOLEAN, "false", "", LOW, READ_ONLY,
        "Whether Metadata reports for some seconds why a topic could not be created on demand (POLICY_VIOLATION, for instance; to old clients TOPIC_AUTHORIZATION_FAILED), in place of a retriable error.")
    barnabas_metrics_listener = by_name(STRING, "", "", MEDIUM, READ_ONLY,
        "Where the Prometheus endpoint with /metrics, /healthz and /readyz listens, as host:port; nothing for none.")
    barnabas_policy_timeout_ms: int = setting(LONG, "5000", "1..", LOW, READ_ONLY,
        "How long a policy may take for the topics or configs of one request; after that they are refused.")
    barnabas_record_max_headers: int = setting(INT, "10000", "0..", LOW, READ_ONLY,
        "How many headers one record of a producer may have. A batch with a record that has more is refused with INVALID_RECORD.")
    barnabas_registry_config_file: str | None = setting(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "The settings file of a schema registry that runs in the node's process (barnabas registry). Empty: none.")
    barnabas_request_max_bytes: int = setting(INT, "1048576", "4096..", LOW, READ_ONLY,
        "The largest request of an API whose requests do not grow with the cluster (ApiVersions, Heartbeat, CreateDelegationToken, Vote and others). The APIs that carry records or name partitions, topics, members or rules may have socket.request.max.bytes. A larger request is not received: the connection closes.")
    barnabas_request_max_bytes_before_login: int = setting(INT, "4096", "512..", LOW, READ_ONLY,
        "The largest request that a client may send on a SASL listener before it has logged in. SaslAuthenticate, which carries the token, may have sasl.server.max.receive.size instead.")
    barnabas_request_max_bytes_overrides: str = setting(STRING, "", "", LOW, READ_ONLY,
        "The largest request of single APIs, which overrides barnabas.request.max.bytes and socket.request.max.bytes: the name of the API, a colon and a number of bytes, separated by commas (Metadata:2097152,DescribeAcls:65536). It never exceeds socket.request.max.bytes.")
    barnabas_request_max_elements: int = setting(INT, "20000", "1000..", LOW, READ_ONLY,
        "How many array elements and tagged fields one request may have in total. A request with more is refused before they are decoded, and the connection closes. Requests that are answered in parts, and those of brokers, have their own limits; without an authorizer the limit for parts applies to all.")
    barnabas_request_max_elements_in_parts: int = setting(INT, "100000", "1000..", LOW, READ_ONLY,
        "The same for the APIs that are answered in parts, so that other clients are served in between: Metadata, Fetch, ListOffsets, OffsetForLeaderEpoch, OffsetCommit, OffsetFetch, SyncGroup, DescribeGroups, DeleteGroups, FindCoordinator and DescribeConfigs. The Fetch of a consumer may have at most 20000 of them.")
    barnabas_request_max_elements_of_brokers: int = setting(INT, "1000000", "1000..", LOW, READ_ONLY,
        "The same for principals that may do CLUSTER_ACTION: brokers and controllers name all partitions that they lead or follow in one request.")
    barnabas_request_max_tagged_fields: int = setting(INT, "64", "16..", LOW, READ_ONLY,
        "How many tagged fields one structure of a request may have. A request with more is refused before they are decoded, and the connection closes.")
