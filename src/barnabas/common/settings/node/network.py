"""Listeners, connections, requests, quotas and metrics."""
# A row is two lines, however long they are: how the value is read, and what it means.
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from barnabas.common.settings.setting import (
    CLASS,
    CLUSTER_WIDE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    NO_DEFAULT,
    PER_BROKER,
    READ_ONLY,
    STRING,
    SettingTable,
    by_name,
    derived,
    no_effect,
    refused,
    setting,
)

__all__ = ["NetworkSettings"]

_CONTROLLER_TIMEOUTS = "Connections to controllers use controller.socket.timeout.ms and controller.quorum.request.timeout.ms."
_METRICS_ARE_COUNTERS = "Metrics are read from the Prometheus endpoint, as counters without sampling windows."
_NO_REPORTERS = "Metrics are read from the Prometheus endpoint (barnabas.metrics.listener); reporter plug-ins are not supported."
_ONE_EVENT_LOOP = "One event loop does this work, without a pool or queue to size."
_SYSTEM_SIZES_BUFFERS = "The operating system sizes the buffers of each connection, which serves it better than one fixed size."


class NetworkSettings(SettingTable):
    advertised_listeners = by_name(LIST, None, "list+?", HIGH, READ_ONLY,
        "The addresses that clients and other nodes should connect to, if they differ from listeners.")
    background_threads = no_effect(_ONE_EVENT_LOOP, INT, "10", "1..", HIGH, CLUSTER_WIDE,
        "How many threads do work in the background.")
    client_quota_callback_class = refused("Quotas are computed as Kafka's own callback does; another one can't be loaded.", CLASS, None, "", LOW, READ_ONLY,
        "A plug-in that decides which quota a client has.")
    config_providers = by_name(LIST, "", "list", LOW, CLUSTER_WIDE,
        "Names of providers that resolve ${provider:path:key} in values; config.providers.<name>.class sets the class of each.",
        needs_restart=True)
    connection_failed_authentication_delay_ms = by_name(INT, "100", "0..", LOW, READ_ONLY,
        "The delay before a connection whose authentication failed is closed.")
    connections_max_idle_ms: int = setting(LONG, "600000", "", MEDIUM, READ_ONLY,
        "After how long without a request a connection is closed.")
    connections_max_reauth_ms = by_name(LONG, "0", "", MEDIUM, READ_ONLY,
        "After how long a client must authenticate again; 0 for never.")
    controller_listener_names = by_name(LIST, NO_DEFAULT, "list+", HIGH, READ_ONLY,
        "Which of the listeners are for controllers.")
    early_start_listeners: frozenset[str] = derived(LIST, None, "list?", HIGH, READ_ONLY,
        "Listeners that open before the authorizer has finished loading.")
    inter_broker_listener_name: str = derived(STRING, None, "", MEDIUM, READ_ONLY,
        "The listener that brokers use among themselves.")
    kafka_metrics_polling_interval_secs = no_effect(_METRICS_ARE_COUNTERS, INT, "10", "1..", LOW, READ_ONLY,
        "How often those plug-ins report.")
    kafka_metrics_reporters = refused(_NO_REPORTERS, LIST, "", "list", LOW, READ_ONLY,
        "Plug-ins that report the older family of metrics.",
        also_allowed=("",))
    listener_security_protocol_map = by_name(STRING, "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT", "", LOW, PER_BROKER,
        "The security protocol of each listener name. Controller listeners are PLAINTEXT if this is not set.",
        needs_restart=True)
    listeners = by_name(LIST, "PLAINTEXT://:9092", "list+", HIGH, PER_BROKER,
        "Where the node listens, as NAME://host:port. An empty host means every interface.",
        needs_restart=True)
    max_connection_creation_rate: int = setting(INT, "2147483647", "0..", MEDIUM, CLUSTER_WIDE,
        "How many connections a second the node accepts.")
    max_connections: int = setting(INT, "2147483647", "0..", MEDIUM, CLUSTER_WIDE,
        "How many connections the node may have at the same time.")
    max_connections_per_ip: int = setting(INT, "2147483647", "0..", MEDIUM, CLUSTER_WIDE,
        "How many connections one address may have at the same time.")
    max_connections_per_ip_overrides: str = setting(STRING, "", "", MEDIUM, CLUSTER_WIDE,
        "The same for single addresses or host names, as host:number.")
    max_incremental_fetch_session_cache_slots: int = setting(INT, "1000", "0..", MEDIUM, READ_ONLY,
        "How many fetch sessions are remembered.")
    metric_reporters = refused(_NO_REPORTERS, LIST, "org.apache.kafka.common.metrics.JmxReporter", "list", LOW, CLUSTER_WIDE,
        "Plug-ins that report metrics.",
        also_allowed=("",))
    metrics_num_samples = no_effect(_METRICS_ARE_COUNTERS, INT, "2", "1..", LOW, READ_ONLY,
        "How many windows a metric is measured over.")
    metrics_recording_level = no_effect(_METRICS_ARE_COUNTERS, STRING, "INFO", "", LOW, READ_ONLY,
        "How detailed metrics are.")
    metrics_sample_window_ms = no_effect(_METRICS_ARE_COUNTERS, LONG, "30000", "1..", LOW, READ_ONLY,
        "How long such a window is.")
    num_io_threads = no_effect(_ONE_EVENT_LOOP, INT, "8", "1..", HIGH, CLUSTER_WIDE,
        "How many threads handle requests.")
    num_network_threads = no_effect(_ONE_EVENT_LOOP, INT, "3", "1..", HIGH, CLUSTER_WIDE,
        "How many threads read requests and write answers, per listener.")
    queued_max_request_bytes = refused("Requests are not queued, so there is nothing to limit.", LONG, "-1", "", MEDIUM, READ_ONLY,
        "How many bytes of requests may wait to be handled; -1 is without limit.")
    queued_max_requests = no_effect(_ONE_EVENT_LOOP, INT, "500", "1..", HIGH, READ_ONLY,
        "How many requests may wait to be handled.")
    quota_window_num: int = setting(INT, "11", "1..", LOW, READ_ONLY,
        "How many windows a client's rate is measured over.")
    quota_window_size_seconds: int = setting(INT, "1", "1..", LOW, READ_ONLY,
        "How long such a window is.")
    request_timeout_ms = no_effect(_CONTROLLER_TIMEOUTS, INT, "30000", "", HIGH, READ_ONLY,
        "How long a request may take that the broker sends, or forwards to the controller.")
    socket_connection_setup_timeout_max_ms = no_effect(_CONTROLLER_TIMEOUTS, LONG, "30000", "", MEDIUM, READ_ONLY,
        "The longest such time after failures have lengthened it.")
    socket_connection_setup_timeout_ms: int = setting(LONG, "10000", "", MEDIUM, READ_ONLY,
        "How long a connection that the node opens may take.")
    socket_listen_backlog_size: int = setting(INT, "50", "1..", MEDIUM, READ_ONLY,
        "How many connections may wait to be accepted.")
    socket_receive_buffer_bytes = no_effect(_SYSTEM_SIZES_BUFFERS, INT, "102400", "", HIGH, READ_ONLY,
        "The size of a connection's receive buffer (SO_RCVBUF); -1 for the system's default.")
    socket_request_max_bytes: int = setting(INT, "104857600", "1..", HIGH, READ_ONLY,
        "The largest request that is read; a larger one closes its connection.")
    socket_send_buffer_bytes = no_effect(_SYSTEM_SIZES_BUFFERS, INT, "102400", "", HIGH, READ_ONLY,
        "The size of a connection's send buffer (SO_SNDBUF); -1 for the system's default.")
    telemetry_max_bytes = refused("Client telemetry is not collected.", INT, "1048576", "1..", LOW, READ_ONLY,
        "The largest push of metrics that is accepted from a client.")
