"""All settings of a worker: those of Kafka Connect and those of barnabas.

Rules that no validator can express are in ``worker_config_rules``.
"""
# A row is two lines of any length: how the value is read, and what it means.
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.broker_config import broker_config_doc
from barnabas.common.config_def import ConfigDef
from barnabas.common.settings.setting import (
    BOOLEAN,
    CLASS,
    DOUBLE,
    HIGH,
    INT,
    LIST,
    LONG,
    LOW,
    MEDIUM,
    NO_DEFAULT,
    PASSWORD,
    READ_ONLY,
    SHORT,
    STRING,
    SettingTable,
    by_name,
    derived,
    no_effect,
    refused,
    setting,
)

if TYPE_CHECKING:
    from barnabas.common.config_value import Password
    from barnabas.connect.settings.listener_urls import Listener

__all__ = ["REMOVED_WORKER_SETTINGS", "WORKER_CONFIG_DEF", "WorkerSettings", "worker_config_doc"]

_BROKER_CHECKS = "Brokers check tokens"
_IDENTITY_PROVIDER = "Tokens are read from a file, never fetched from an identity provider"
_JAVA_CLASS = "Java classes can't be used"
_KERBEROS = "Kerberos (GSSAPI) is not supported"
_LOGIN = "The worker logs in with the values of sasl.jaas.config; it neither refreshes nor fetches a login"
_PYTHON_TLS = "The worker uses Python's TLS, where this can't be chosen"
_REBOOTSTRAP = "A client that can't reach any broker connects to bootstrap.servers again"
_TOTALS = "Metrics are totals, from which their reader computes rates"


class KafkaWorkerSettings(SettingTable):
    """All settings of a Kafka Connect 4.3.1 worker in distributed mode, in Kafka's order. Its policy's setting is last."""

    bootstrap_servers = by_name(LIST, NO_DEFAULT, "list+", HIGH, READ_ONLY,
        "The first brokers to contact, as host:port. They return the addresses of the other brokers.")
    client_dns_lookup = refused("Host names are resolved as use_all_dns_ips specifies", STRING, "use_all_dns_ips", "use_all_dns_ips|resolve_canonical_bootstrap_servers_only", MEDIUM, READ_ONLY,
        "How the client uses the IP addresses of a host name.")
    key_converter: str = setting(CLASS, NO_DEFAULT, "", HIGH, READ_ONLY,
        "The converter of keys for connectors that don't set one. key.converter.<setting> configures the converter itself.")
    key_converter_plugin_version = by_name(STRING, None, "", LOW, READ_ONLY,
        "The version, or a range of versions, of this converter.")
    value_converter: str = setting(CLASS, NO_DEFAULT, "", HIGH, READ_ONLY,
        "The converter of values for connectors that don't set one. value.converter.<setting> configures the converter itself.")
    value_converter_plugin_version = by_name(STRING, None, "", LOW, READ_ONLY,
        "The version, or a range of versions, of this converter.")
    task_shutdown_graceful_timeout_ms: int = setting(LONG, "5000", "", LOW, READ_ONLY,
        "How long all tasks together may take to finish their batches when they are stopped.")
    offset_flush_interval_ms = no_effect("Positions are written after each batch of records. It is only the default of transaction.boundary.interval.ms", LONG, "60000", "", LOW, READ_ONLY,
        "How often tasks write their positions.")
    offset_flush_timeout_ms = no_effect("Each batch of records writes its positions at its end", LONG, "5000", "", LOW, READ_ONLY,
        "How long a task may take to write its positions.")
    plugin_path = no_effect("Java plugins can't be used; plugins for barnabas are installed as Python packages", LIST, None, "list?", LOW, READ_ONLY,
        "Folders with Java plugins.")
    plugin_discovery = no_effect("Plugins are found by the entry points of installed packages", STRING, "hybrid_warn", "i:ONLY_SCAN|SERVICE_LOAD|HYBRID_WARN|HYBRID_FAIL", LOW, READ_ONLY,
        "How Kafka's worker discovers Java plugins.")
    metrics_sample_window_ms = no_effect(_TOTALS, LONG, "30000", "0..", LOW, READ_ONLY)
    metrics_num_samples = no_effect(_TOTALS, INT, "2", "1..", LOW, READ_ONLY)
    metrics_recording_level = no_effect("All metrics are recorded", STRING, "INFO", "INFO|DEBUG", LOW, READ_ONLY)
    metric_reporters = refused("Java classes can't be used; GET /metrics of the REST API serves metrics", LIST, "org.apache.kafka.common.metrics.JmxReporter", "list", LOW, READ_ONLY, also_allowed=("",))
    header_converter: str = setting(CLASS, "org.apache.kafka.connect.storage.SimpleHeaderConverter", "", LOW, READ_ONLY,
        "The converter of headers for connectors that don't set one.")
    header_converter_plugin_version = by_name(STRING, None, "", LOW, READ_ONLY,
        "The version, or a range of versions, of this converter.")
    config_providers = by_name(LIST, "", "list", LOW, READ_ONLY,
        "The names of config providers, which replace ${provider:path:key} in settings of the worker and of connectors. config.providers.<name>.class sets the class of each.")
    # The value of the attribute is All, None, Principal or Allowlist.
    connector_client_config_override_policy: str = setting(STRING, "All", "", MEDIUM, READ_ONLY,
        "Which client settings a connector may set as producer.override.*, consumer.override.* and admin.override.*: All, None, Principal (the login only) or Allowlist.")
    topic_creation_enable: bool = setting(BOOLEAN, "true", "", LOW, READ_ONLY,
        "Whether the worker may create topics of source connectors as their topic.creation.* settings specify.")
    ssl_protocol = by_name(STRING, "TLSv1.3", "", MEDIUM, READ_ONLY)
    ssl_provider = refused("Java security providers are not supported", STRING, None, "", MEDIUM, READ_ONLY)
    ssl_cipher_suites = by_name(LIST, "", "list", LOW, READ_ONLY)
    ssl_enabled_protocols = by_name(LIST, "TLSv1.2,TLSv1.3", "list", MEDIUM, READ_ONLY)
    ssl_keystore_type = by_name(STRING, "JKS", "", MEDIUM, READ_ONLY)
    ssl_keystore_location = by_name(STRING, None, "", HIGH, READ_ONLY)
    ssl_keystore_password = by_name(PASSWORD, None, "", HIGH, READ_ONLY)
    ssl_key_password = by_name(PASSWORD, None, "", HIGH, READ_ONLY)
    ssl_keystore_key = by_name(PASSWORD, None, "", HIGH, READ_ONLY)
    ssl_keystore_certificate_chain = by_name(PASSWORD, None, "", HIGH, READ_ONLY)
    ssl_truststore_certificates = by_name(PASSWORD, None, "", HIGH, READ_ONLY)
    ssl_truststore_type = by_name(STRING, "JKS", "", MEDIUM, READ_ONLY)
    ssl_truststore_location = by_name(STRING, None, "", HIGH, READ_ONLY)
    ssl_truststore_password = by_name(PASSWORD, None, "", HIGH, READ_ONLY)
    ssl_keymanager_algorithm = no_effect(_PYTHON_TLS, STRING, "SunX509", "", LOW, READ_ONLY)
    ssl_trustmanager_algorithm = no_effect(_PYTHON_TLS, STRING, "PKIX", "", LOW, READ_ONLY)
    ssl_endpoint_identification_algorithm = by_name(STRING, "https", "", LOW, READ_ONLY)
    ssl_secure_random_implementation = no_effect(_PYTHON_TLS, STRING, None, "", LOW, READ_ONLY)
    ssl_engine_factory_class = refused(_JAVA_CLASS, CLASS, None, "", LOW, READ_ONLY)
    topic_tracking_enable: bool = setting(BOOLEAN, "true", "", LOW, READ_ONLY,
        "Whether workers record which topics each connector uses.")
    topic_tracking_allow_reset = by_name(BOOLEAN, "true", "", LOW, READ_ONLY,
        "Whether a request may reset the recorded topics of a connector.")
    listeners: tuple[Listener, ...] = derived(LIST, "http://:8083", "", LOW, READ_ONLY,
        "The addresses where the REST API listens, as http://host:port or https://host:port. Without listeners and authentication, a worker listens only on this machine, at http://127.0.0.1:8083.")
    rest_advertised_host_name: str | None = setting(STRING, None, "", LOW, READ_ONLY,
        "The host name or address that other workers use to connect to this worker.")
    rest_advertised_port: int | None = setting(INT, None, "", LOW, READ_ONLY,
        "The port that other workers use to connect to this worker.")
    rest_advertised_listener: str | None = setting(STRING, None, "", LOW, READ_ONLY,
        "The listener that other workers use: http or https.")
    access_control_allow_origin = by_name(STRING, "", "", LOW, READ_ONLY,
        "The origin whose scripts browsers allow to use the REST API (CORS). Empty: no origin.")
    access_control_allow_methods = by_name(STRING, "", "", LOW, READ_ONLY,
        "The HTTP methods that these scripts may use.")
    response_http_headers_config = by_name(STRING, "", "", LOW, READ_ONLY,
        "Headers that the worker adds to every response, as [action] [name]:[value], separated by commas. The actions are set, add, setDate and addDate.")
    ssl_client_auth = by_name(STRING, "none", "required|requested|none", LOW, READ_ONLY,
        "Whether https listeners require a client certificate (required), request one (requested), or request none (none).")
    rest_extension_classes = refused("Java classes can't be used; see barnabas.connect.authentication", LIST, "", "list", LOW, READ_ONLY,
        "Java classes that extend the REST API.")
    admin_listeners: tuple[Listener, ...] | None = derived(LIST, None, "list?", LOW, READ_ONLY,
        "The addresses where the worker serves /admin. Default: those of listeners. An empty list disables /admin.")
    group_id: str = setting(STRING, NO_DEFAULT, "", HIGH, READ_ONLY,
        "The name of the worker group. The workers of a group share three topics, and distribute the work among them.")
    session_timeout_ms: int = setting(INT, "10000", "", HIGH, READ_ONLY,
        "The time without a heartbeat after which a worker is considered dead.")
    rebalance_timeout_ms: int = setting(INT, "60000", "", HIGH, READ_ONLY,
        "How long a rebalance waits for a worker to stop its connectors and tasks and to rejoin.")
    heartbeat_interval_ms: int = setting(INT, "3000", "", HIGH, READ_ONLY,
        "The interval between heartbeats of a worker. Usually a third of the session timeout.")
    exactly_once_source_support: str = setting(STRING, "disabled", "i:DISABLED|ENABLED|PREPARING", HIGH, READ_ONLY,
        "Whether source connectors write records and offsets in one transaction. To change a running group, first set preparing on every worker, then enabled (KIP-618).")
    metadata_max_age_ms = no_effect("The worker refreshes metadata when a response shows that it is outdated", LONG, "300000", "0..", LOW, READ_ONLY,
        "The age after which metadata of brokers and topics is refreshed.")
    client_id = by_name(STRING, "", "", LOW, READ_ONLY,
        "The client id that the worker sends to brokers. Empty: an id derived from its advertised address.")
    send_buffer_bytes = by_name(INT, "131072", "-1..", MEDIUM, READ_ONLY,
        "The size of a socket's send buffer. -1: the default of the operating system.")
    receive_buffer_bytes = by_name(INT, "32768", "-1..", MEDIUM, READ_ONLY,
        "The size of a socket's receive buffer. -1: the default of the operating system.")
    reconnect_backoff_ms = no_effect("retry.backoff.ms sets these pauses", LONG, "50", "0..", LOW, READ_ONLY,
        "The first pause before reconnecting to a broker.")
    reconnect_backoff_max_ms = no_effect("retry.backoff.max.ms sets these pauses", LONG, "1000", "0..", LOW, READ_ONLY,
        "The longest pause before reconnecting to a broker.")
    socket_connection_setup_timeout_ms = by_name(LONG, "10000", "0..", LOW, READ_ONLY,
        "How long opening a connection to a broker may take.")
    socket_connection_setup_timeout_max_ms = no_effect("The time to connect does not grow after failures", LONG, "30000", "0..", LOW, READ_ONLY)
    retry_backoff_ms: int = setting(LONG, "100", "0..", LOW, READ_ONLY,
        "The first pause before a failed request is retried.")
    retry_backoff_max_ms: int = setting(LONG, "1000", "0..", LOW, READ_ONLY,
        "The longest pause before a failed request is retried.")
    request_timeout_ms = by_name(INT, "40000", "0..", MEDIUM, READ_ONLY,
        "How long a broker may take to respond.")
    connections_max_idle_ms = no_effect("The worker keeps its few connections open", LONG, "540000", "", MEDIUM, READ_ONLY)
    security_protocol = by_name(STRING, "PLAINTEXT", "i:SASL_SSL|PLAINTEXT|SSL|SASL_PLAINTEXT", MEDIUM, READ_ONLY,
        "The security protocol for connections to brokers.")
    sasl_kerberos_service_name = refused(_KERBEROS, STRING, None, "", MEDIUM, READ_ONLY)
    sasl_kerberos_kinit_cmd = refused(_KERBEROS, STRING, "/usr/bin/kinit", "", LOW, READ_ONLY)
    sasl_kerberos_ticket_renew_window_factor = refused(_KERBEROS, DOUBLE, "0.8", "", LOW, READ_ONLY)
    sasl_kerberos_ticket_renew_jitter = refused(_KERBEROS, DOUBLE, "0.05", "", LOW, READ_ONLY)
    sasl_kerberos_min_time_before_relogin = refused(_KERBEROS, LONG, "60000", "", LOW, READ_ONLY)
    sasl_login_refresh_window_factor = no_effect(_LOGIN, DOUBLE, "0.8", "0.5..1.0", LOW, READ_ONLY)
    sasl_login_refresh_window_jitter = no_effect(_LOGIN, DOUBLE, "0.05", "0.0..0.25", LOW, READ_ONLY)
    sasl_login_refresh_min_period_seconds = no_effect(_LOGIN, SHORT, "60", "0..900", LOW, READ_ONLY)
    sasl_login_refresh_buffer_seconds = no_effect(_LOGIN, SHORT, "300", "0..3600", LOW, READ_ONLY)
    sasl_mechanism = by_name(STRING, "GSSAPI", "", MEDIUM, READ_ONLY,
        "The SASL mechanism for authentication to brokers.")
    sasl_jaas_config = by_name(PASSWORD, None, "", MEDIUM, READ_ONLY,
        "The login module and its options for authentication to brokers, in the JAAS format.")
    sasl_client_callback_handler_class = refused(_JAVA_CLASS, CLASS, None, "", MEDIUM, READ_ONLY)
    sasl_login_callback_handler_class = refused(_JAVA_CLASS, CLASS, None, "", MEDIUM, READ_ONLY, also_allowed=("org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",))
    sasl_login_class = refused(_JAVA_CLASS, CLASS, None, "", MEDIUM, READ_ONLY)
    sasl_login_connect_timeout_ms = no_effect(_LOGIN, INT, None, "", LOW, READ_ONLY)
    sasl_login_read_timeout_ms = no_effect(_LOGIN, INT, None, "", LOW, READ_ONLY)
    sasl_login_retry_backoff_max_ms = no_effect(_LOGIN, LONG, "10000", "", LOW, READ_ONLY)
    sasl_login_retry_backoff_ms = no_effect(_LOGIN, LONG, "100", "", LOW, READ_ONLY)
    sasl_oauthbearer_jwt_retriever_class = refused(_IDENTITY_PROVIDER, CLASS, "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", "", MEDIUM, READ_ONLY, also_allowed=("org.apache.kafka.common.security.oauthbearer.FileJwtRetriever",))
    sasl_oauthbearer_jwt_validator_class = no_effect(_BROKER_CHECKS, CLASS, "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator", "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_scope = refused(_IDENTITY_PROVIDER, STRING, None, "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_client_credentials_client_id = refused(_IDENTITY_PROVIDER, STRING, None, "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_client_credentials_client_secret = refused(_IDENTITY_PROVIDER, PASSWORD, None, "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_assertion_algorithm = refused(_IDENTITY_PROVIDER, STRING, "RS256", "i:ES256|RS256", MEDIUM, READ_ONLY)
    sasl_oauthbearer_assertion_claim_aud = refused(_IDENTITY_PROVIDER, STRING, None, "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_assertion_claim_exp_seconds = refused(_IDENTITY_PROVIDER, INT, "300", "0..86400", LOW, READ_ONLY)
    sasl_oauthbearer_assertion_claim_iss = refused(_IDENTITY_PROVIDER, STRING, None, "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_assertion_claim_jti_include = refused(_IDENTITY_PROVIDER, BOOLEAN, "false", "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_assertion_claim_nbf_seconds = refused(_IDENTITY_PROVIDER, INT, "60", "0..3600", LOW, READ_ONLY)
    sasl_oauthbearer_assertion_claim_sub = refused(_IDENTITY_PROVIDER, STRING, None, "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_assertion_file = refused(_IDENTITY_PROVIDER, STRING, None, "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_assertion_private_key_file = refused(_IDENTITY_PROVIDER, STRING, None, "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_assertion_private_key_passphrase = refused(_IDENTITY_PROVIDER, PASSWORD, None, "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_assertion_template_file = refused(_IDENTITY_PROVIDER, STRING, None, "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_scope_claim_name = no_effect(_BROKER_CHECKS, STRING, "scope", "", LOW, READ_ONLY)
    sasl_oauthbearer_sub_claim_name = no_effect(_BROKER_CHECKS, STRING, "sub", "", LOW, READ_ONLY)
    sasl_oauthbearer_token_endpoint_url = by_name(STRING, None, "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_jwks_endpoint_url = no_effect(_BROKER_CHECKS, STRING, None, "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_jwks_endpoint_refresh_ms = no_effect(_BROKER_CHECKS, LONG, "3600000", "", LOW, READ_ONLY)
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = no_effect(_BROKER_CHECKS, LONG, "10000", "", LOW, READ_ONLY)
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = no_effect(_BROKER_CHECKS, LONG, "100", "", LOW, READ_ONLY)
    sasl_oauthbearer_clock_skew_seconds = no_effect(_BROKER_CHECKS, INT, "30", "", LOW, READ_ONLY)
    sasl_oauthbearer_expected_audience = no_effect(_BROKER_CHECKS, LIST, "", "list", HIGH, READ_ONLY)
    sasl_oauthbearer_expected_issuer = no_effect(_BROKER_CHECKS, STRING, None, "", HIGH, READ_ONLY)
    sasl_oauthbearer_header_urlencode = refused(_IDENTITY_PROVIDER, BOOLEAN, "false", "", LOW, READ_ONLY,
        "Whether the client id and secret in a request to an identity provider are URL-encoded.")
    worker_sync_timeout_ms: int = setting(INT, "3000", "", MEDIUM, READ_ONLY,
        "How long a worker that lags behind the config topic tries to catch up before it rejoins the group.")
    worker_unsync_backoff_ms: int = setting(INT, "300000", "", MEDIUM, READ_ONLY,
        "How long a worker that could not catch up waits before it rejoins the group.")
    offset_storage_topic = by_name(STRING, NO_DEFAULT, "", HIGH, READ_ONLY,
        "The topic for the positions of source connectors.")
    offset_storage_partitions = by_name(INT, "25", "", LOW, READ_ONLY,
        "The number of partitions of the offset topic, if this worker creates it. -1: the brokers' default.")
    offset_storage_replication_factor = by_name(SHORT, "3", "", LOW, READ_ONLY,
        "The replication factor of the offset topic, if this worker creates it. -1: the brokers' default.")
    config_storage_topic = by_name(STRING, NO_DEFAULT, "", HIGH, READ_ONLY,
        "The topic for the configurations of connectors and tasks. It has one partition.")
    config_storage_replication_factor = by_name(SHORT, "3", "", LOW, READ_ONLY,
        "The replication factor of the config topic, if this worker creates it. -1: the brokers' default.")
    status_storage_topic = by_name(STRING, NO_DEFAULT, "", HIGH, READ_ONLY,
        "The topic for the states of connectors and tasks.")
    status_storage_partitions = by_name(INT, "5", "", LOW, READ_ONLY,
        "The number of partitions of the status topic, if this worker creates it. -1: the brokers' default.")
    status_storage_replication_factor = by_name(SHORT, "3", "", LOW, READ_ONLY,
        "The replication factor of the status topic, if this worker creates it. -1: the brokers' default.")
    # The value of the attribute is in lower case.
    connect_protocol: str = setting(STRING, "sessioned", "", LOW, READ_ONLY,
        "How the group distributes work. With eager, a rebalance first stops all work. With compatible and sessioned, it stops only work that moves. With sessioned, workers also sign requests to each other.")
    scheduled_rebalance_max_delay_ms: int = setting(INT, "300000", "0..2147483647", LOW, READ_ONLY,
        "How long the group waits for a lost worker before it reassigns the worker's connectors and tasks.")
    inter_worker_key_ttl_ms: int = setting(INT, "3600000", "0..2147483647", LOW, READ_ONLY,
        "The time after which the group replaces the key that signs requests between workers. 0: never.")
    inter_worker_key_generation_algorithm: str = setting(STRING, "HmacSHA256", "", LOW, READ_ONLY,
        "The algorithm for which the key between workers is generated.")
    inter_worker_key_size: int | None = setting(INT, None, "", LOW, READ_ONLY,
        "The size of the key between workers, in bits. Empty: the default of the algorithm.")
    inter_worker_signature_algorithm = by_name(STRING, "HmacSHA256", "", LOW, READ_ONLY,
        "The algorithm that signs requests to other workers.")
    inter_worker_verification_algorithms = by_name(LIST, "HmacSHA256", "", LOW, READ_ONLY,
        "The signature algorithms that this worker accepts in requests from other workers.")
    metadata_recovery_strategy = no_effect(_REBOOTSTRAP, STRING, "rebootstrap", "i:REBOOTSTRAP|NONE", LOW, READ_ONLY,
        "What a client does if it can't reach any known broker: rebootstrap, or none.")
    metadata_recovery_rebootstrap_trigger_ms = no_effect(_REBOOTSTRAP, LONG, "300000", "0..", LOW, READ_ONLY,
        "The time without metadata after which a client bootstraps again.")
    connector_client_config_override_allowlist: list[str] = setting(LIST, "", "list", MEDIUM, READ_ONLY,
        "The client settings that the policy Allowlist allows.")


class BarnabasWorkerSettings(SettingTable):
    barnabas_batch_records_max = by_name(LONG, "500000", "1..", MEDIUM, READ_ONLY,
        "The maximum number of records that a sink reads in one batch. A connector may override it.")
    barnabas_connect_anonymous_request_max_bytes = by_name(INT, "1048576", "1024..", LOW, READ_ONLY,
        "The largest request body from an unauthenticated sender: a request that no worker has signed and no authenticated user has sent.")
    barnabas_connect_authentication = by_name(LIST, "none", "list+:none|basic|jwt|mtls", HIGH, READ_ONLY,
        "How users of the REST API authenticate: none, or one or more of basic, jwt and mtls. Workers sign their requests to each other instead.")
    barnabas_connect_console_enable: bool = setting(BOOLEAN, "true", "", LOW, READ_ONLY,
        "Whether the worker serves its web console.")
    barnabas_connect_fresh_signature_max_age_ms = by_name(LONG, "60000", "1..", LOW, READ_ONLY,
        "The maximum age of a signed request from another barnabas worker. Within this time, the worker accepts each request only once.")
    barnabas_connect_history_enable: bool = setting(BOOLEAN, "true", "", LOW, READ_ONLY,
        "Whether the worker keeps a history of its connectors in memory: records, lag and errors. It then requests the lag of its sinks every ten seconds.")
    barnabas_connect_insecure = by_name(BOOLEAN, "false", "", HIGH, READ_ONLY,
        "Whether a listener that other machines can reach may lack authentication.")
    barnabas_connect_jwt_algorithms = by_name(LIST, "RS256,ES256", "list+", LOW, READ_ONLY,
        "The accepted signature algorithms of bearer tokens.")
    barnabas_connect_jwt_audience = by_name(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "The audience that a bearer token must contain. Empty: any audience.")
    barnabas_connect_jwt_issuer = by_name(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "The issuer that a bearer token must contain. Empty: any issuer.")
    barnabas_connect_jwt_keys_file = by_name(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "A file with the public keys that verify bearer tokens, as PEM or as a JSON Web Key Set.")
    barnabas_connect_jwt_roles_claim = by_name(STRING, "roles", "nonempty", LOW, READ_ONLY,
        "The claim of a bearer token that lists the user's roles.")
    barnabas_connect_jwt_user_claim = by_name(STRING, "sub", "nonempty", LOW, READ_ONLY,
        "The claim of a bearer token that contains the user name.")
    barnabas_connect_mtls_principal_mapping_rules = by_name(STRING, "DEFAULT", "", LOW, READ_ONLY,
        "Rules that map the distinguished name in a client certificate to a user name, in the format of ssl.principal.mapping.rules.")
    barnabas_connect_plugins: list[str] = setting(LIST, "", "list", MEDIUM, READ_ONLY,
        "Connectors, transforms, predicates and converters to load at start, as module:Class. A class of another package must be listed here, or that package must declare it as an entry point.")
    barnabas_connect_reassign_immediately: bool = setting(BOOLEAN, "true", "", MEDIUM, READ_ONLY,
        "Whether this worker, if it leads the group, immediately reassigns the work of a lost worker. With false, it first waits for scheduled.rebalance.max.delay.ms, as in Kafka.")
    barnabas_connect_request_max_bytes = by_name(INT, "16777216", "1024..", LOW, READ_ONLY,
        "The largest request body from an authenticated user, or from a worker that has signed the request.")
    barnabas_connect_request_memory_max_bytes = by_name(INT, "67108864", "1024..", LOW, READ_ONLY,
        "The memory limit for request bodies, in bytes. The worker responds with 503 to a request that exceeds it. At least twice barnabas.connect.request.max.bytes. Unauthenticated senders may use half of it.")
    barnabas_connect_request_wait_ms = by_name(LONG, "10000", "0..", LOW, READ_ONLY,
        "How long a request waits for a rebalance to end before the worker responds with 409.")
    barnabas_connect_require_fresh_signatures = by_name(STRING, "auto", "auto|true|false", MEDIUM, READ_ONLY,
        "Whether signed requests must contain a proof that they are not replayed: true, false or auto. Java workers don't send this proof. auto requires it if the client.id of every member shows that the group consists of barnabas workers. The default client.id, barnabas-connect-<host:port>, shows that.")
    barnabas_connect_roles_admin = by_name(LIST, "", "list", MEDIUM, READ_ONLY,
        "Users that may perform all operations: create, change and delete connectors, change their offsets, and set the levels of loggers. * means every authenticated user.")
    barnabas_connect_roles_operate = by_name(LIST, "", "list", MEDIUM, READ_ONLY,
        "Users that may read, and may restart, pause, resume and stop existing connectors. * means every authenticated user.")
    barnabas_connect_roles_read = by_name(LIST, "", "list", MEDIUM, READ_ONLY,
        "Users that may only read. * means every authenticated user.")
    barnabas_connect_spark_avro = by_name(BOOLEAN, "false", "", LOW, READ_ONLY,
        "Whether the Spark session loads the Avro package (0.1 MB, downloaded once), which connectors with AvroConverter need. If the worker's own key, value or header converter is AvroConverter, it always loads the package.")
    barnabas_connect_spark_delta = by_name(BOOLEAN, "false", "", LOW, READ_ONLY,
        "Whether the Spark session loads Delta Lake (7.8 MB, downloaded once), which the connector TopicToDelta needs.")
    barnabas_connect_spark_directory = by_name(STRING, "", "", MEDIUM, READ_ONLY,
        "The folder for checkpoints, Spark's log and Spark's scratch files. Empty: a folder inside the system's temporary folder. Kafka stores the positions, so this folder can be deleted when the worker has stopped. If the session runs on other machines, all of them must have access to the folder.")
    barnabas_connect_spark_iceberg = by_name(BOOLEAN, "false", "", LOW, READ_ONLY,
        "Whether the Spark session loads Iceberg (47 MB, downloaded once), which the connector TopicToIceberg needs.")
    barnabas_connect_spark_master = by_name(STRING, "local[*]", "nonempty", HIGH, READ_ONLY,
        "Where Spark runs: local[*] or local[N] in this process, spark://host:port on a cluster, or sc://host:port on a Spark Connect server. Parameters of the server follow its address: sc://host:port/;use_ssl=true. barnabas.connect.spark.conf.<Spark's name> configures the session.")
    barnabas_connect_spark_s3 = by_name(BOOLEAN, "false", "", LOW, READ_ONLY,
        "Whether the Spark session loads the client of object stores (9.6 MB, downloaded once), which connectors with s3a:// URLs need.")
    barnabas_connect_spark_s3_credentials = by_name(STRING, "default", "default|environment|profile|web-identity|instance|anonymous|settings", MEDIUM, READ_ONLY,
        "Where the credentials for s3a:// come from. default: the first of the others that has some. environment: AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. profile: the AWS profile file. web-identity: the token file of AWS_WEB_IDENTITY_TOKEN_FILE. instance: the machine or container. settings: barnabas.connect.spark.conf.spark.hadoop.fs.s3a.access.key and .secret.key, which must be references to config providers.")
    barnabas_connect_task_restart_backoff_max_ms: int = setting(LONG, "60000", "1..", LOW, READ_ONLY,
        "The longest pause before a failed task is restarted.")
    barnabas_connect_task_restart_backoff_ms: int = setting(LONG, "1000", "1..", LOW, READ_ONLY,
        "The first pause before a failed task is restarted. Each further pause is twice as long.")
    barnabas_connect_task_restart_max_attempts: int = setting(INT, "10", "0..", MEDIUM, READ_ONLY,
        "The number of restarts of a failed task, after which it stays failed.")
    barnabas_connect_task_restart_reset_ms: int = setting(LONG, "600000", "1..", LOW, READ_ONLY,
        "The running time after which a task regains all its restarts.")
    barnabas_connect_users_file = by_name(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "A file with users and hashed passwords for basic authentication, one user per line.")
    barnabas_connect_webhook_events: list[str] = setting(LIST, "failed,exhausted,recovered", "list+:failed|exhausted|recovered", LOW, READ_ONLY,
        "The events of connectors and tasks that the webhook receives. failed: a failure that an automatic restart follows. exhausted: a failure that none follows. recovered: the first batch that succeeds after a failure.")
    barnabas_connect_webhook_queue_max: int = setting(INT, "100", "1..10000", LOW, READ_ONLY,
        "The number of events that may wait for the webhook. If more happen, the oldest is dropped, counted and logged.")
    barnabas_connect_webhook_retry_backoff_max_ms: int = setting(LONG, "60000", "1..", LOW, READ_ONLY,
        "The longest pause before an event is sent to the webhook again.")
    barnabas_connect_webhook_retry_backoff_ms: int = setting(LONG, "1000", "1..", LOW, READ_ONLY,
        "The first pause before an event is sent to the webhook again. Each further pause is twice as long.")
    barnabas_connect_webhook_retry_max_attempts: int = setting(INT, "5", "0..", LOW, READ_ONLY,
        "How often an event is sent again if the webhook does not answer, or answers with 408, 425, 429 or 5xx.")
    barnabas_connect_webhook_secret: Password | None = setting(PASSWORD, None, "", MEDIUM, READ_ONLY,
        "The secret that signs the requests to the webhook: at least 16 bytes, or base64 after whsec_. It must be a reference to a config provider. Empty: requests are not signed.")
    barnabas_connect_webhook_timeout_ms: int = setting(LONG, "10000", "1..", LOW, READ_ONLY,
        "How long an attempt to send an event to the webhook may take.")
    barnabas_connect_webhook_url: str | None = setting(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "The http or https URL that receives failures and recoveries of connectors and tasks, as signed JSON. May be a reference to a config provider, because the URL of a webhook is often a secret. Empty: none.")
    barnabas_log_format: str = setting(STRING, "text", "text|json", LOW, READ_ONLY,
        "The format of log lines: text, or json.")
    barnabas_log_level: str = setting(STRING, "INFO", "i:DEBUG|INFO|WARN|ERROR", LOW, READ_ONLY,
        "The lowest severity of messages in the log.")
    barnabas_registry_config_file: str | None = setting(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "The settings file of a schema registry that runs in the worker's process (barnabas registry). Empty: none.")
    barnabas_trigger_interval_ms = by_name(LONG, "500", "0..", MEDIUM, READ_ONLY,
        "The interval at which a task reads new records. If a batch takes longer, the next one starts immediately. A connector may override it.")


class WorkerSettings(BarnabasWorkerSettings, KafkaWorkerSettings):
    """All settings of a worker. A setting whose value is used unchanged is an attribute."""


WORKER_CONFIG_DEF = ConfigDef(WorkerSettings)

# Settings of older Kafka releases, and what to write instead.
REMOVED_WORKER_SETTINGS: dict[str, str] = {
    "internal.key.converter": "remove it: the internal topics have one format",
    "internal.value.converter": "remove it: the internal topics have one format",
    "rest.host.name": "write listeners=http://host:port",
    "rest.port": "write listeners=http://host:port",
    "offset.storage.file.filename": "remove it: only Kafka's standalone mode keeps positions in a file",
    "config.storage.partitions": "remove it: the config topic always has one partition",
}


def worker_config_doc(name: str) -> str | None:
    """Return the description of a setting, or None if unknown. Settings that brokers also have share theirs."""
    return WORKER_CONFIG_DEF.doc(name) or broker_config_doc(name)
