"""Every setting of a worker: Kafka Connect's and barnabas's own.

Rules that no validator can express are in ``worker_config_rules``.
"""
# A row is two lines, however long they are: how the value is read, and what it means.
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
    from barnabas.connect.settings.listener_urls import Listener

__all__ = ["REMOVED_WORKER_SETTINGS", "WORKER_CONFIG_DEF", "WorkerSettings", "worker_config_doc"]

_BROKER_CHECKS = "Tokens are checked by brokers"
_IDENTITY_PROVIDER = "A token is read from a file, and never fetched from an identity provider"
_JAVA_CLASS = "Java classes can't be used"
_KERBEROS = "Kerberos (GSSAPI) is not supported"
_LOGIN = "A login is done with what sasl.jaas.config says, and has nothing to refresh or to fetch"
_PYTHON_TLS = "TLS is Python's own, which has no such choice"
_REBOOTSTRAP = "A client that reaches no broker begins with bootstrap.servers again"
_TOTALS = "Metrics are totals; rates are the reader's"


class KafkaWorkerSettings(SettingTable):
    """Every setting of a Kafka Connect 4.3.1 worker in distributed mode, in Kafka's order, and its policy's at the end."""

    bootstrap_servers = by_name(LIST, NO_DEFAULT, "list+", HIGH, READ_ONLY,
        "The first brokers to contact, as host:port. They return the others.")
    client_dns_lookup = refused("Names are looked up as with use_all_dns_ips", STRING, "use_all_dns_ips", "use_all_dns_ips|resolve_canonical_bootstrap_servers_only", MEDIUM, READ_ONLY,
        "How the addresses of a host are used.")
    key_converter: str = setting(CLASS, NO_DEFAULT, "", HIGH, READ_ONLY,
        "The converter of keys for connectors that don't name one. key.converter.<setting> is for the converter itself.")
    key_converter_plugin_version = by_name(STRING, None, "", LOW, READ_ONLY,
        "The version, or range of versions, of that converter.")
    value_converter: str = setting(CLASS, NO_DEFAULT, "", HIGH, READ_ONLY,
        "The converter of values for connectors that don't name one. value.converter.<setting> is for the converter itself.")
    value_converter_plugin_version = by_name(STRING, None, "", LOW, READ_ONLY,
        "The version, or range of versions, of that converter.")
    task_shutdown_graceful_timeout_ms: int = setting(LONG, "5000", "", LOW, READ_ONLY,
        "How long tasks may take to finish their batch when they are stopped, all of them together.")
    offset_flush_interval_ms = no_effect("Positions are written after each batch of records", LONG, "60000", "", LOW, READ_ONLY,
        "How often the positions of tasks are written.")
    offset_flush_timeout_ms = no_effect("Positions are written after each batch of records, as part of it", LONG, "5000", "", LOW, READ_ONLY,
        "How long writing them may take.")
    plugin_path = no_effect("Plugins for Java can't be used; those for barnabas are installed as Python packages", LIST, None, "list?", LOW, READ_ONLY,
        "Folders with plugins for Java.")
    plugin_discovery = no_effect("Plugins are found by the entry points of installed packages", STRING, "hybrid_warn", "i:ONLY_SCAN|SERVICE_LOAD|HYBRID_WARN|HYBRID_FAIL", LOW, READ_ONLY,
        "How plugins for Java are looked for.")
    metrics_sample_window_ms = no_effect(_TOTALS, LONG, "30000", "0..", LOW, READ_ONLY)
    metrics_num_samples = no_effect(_TOTALS, INT, "2", "1..", LOW, READ_ONLY)
    metrics_recording_level = no_effect("All metrics are recorded", STRING, "INFO", "INFO|DEBUG", LOW, READ_ONLY)
    metric_reporters = refused("Java classes can't be used; GET /metrics of the REST API serves metrics", LIST, "org.apache.kafka.common.metrics.JmxReporter", "list", LOW, READ_ONLY, also_allowed=("",))
    header_converter: str = setting(CLASS, "org.apache.kafka.connect.storage.SimpleHeaderConverter", "", LOW, READ_ONLY,
        "The converter of headers for connectors that don't name one.")
    header_converter_plugin_version = by_name(STRING, None, "", LOW, READ_ONLY,
        "The version, or range of versions, of that converter.")
    config_providers = by_name(LIST, "", "list", LOW, READ_ONLY,
        "Names of providers that fill ${provider:path:key} in settings of the worker and of connectors; config.providers.<name>.class says which each is.")
    # The attribute is All, None, Principal or Allowlist.
    connector_client_config_override_policy: str = setting(STRING, "All", "", MEDIUM, READ_ONLY,
        "Which client settings a connector may set as producer.override.*, consumer.override.* and admin.override.*: All, None, Principal (the login only) or Allowlist.")
    topic_creation_enable: bool = setting(BOOLEAN, "true", "", LOW, READ_ONLY,
        "Whether topics of source connectors may be created by their topic.creation.* settings.")
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
        "Whether the topics that each connector uses are kept track of.")
    topic_tracking_allow_reset = by_name(BOOLEAN, "true", "", LOW, READ_ONLY,
        "Whether this list of topics may be emptied by a request.")
    listeners: tuple[Listener, ...] = derived(LIST, "http://:8083", "", LOW, READ_ONLY,
        "Where the REST API listens, as http://host:port or https://host:port. Without it, and without authentication, a worker listens on this machine only: http://127.0.0.1:8083.")
    rest_advertised_host_name: str | None = setting(STRING, None, "", LOW, READ_ONLY,
        "The host by which other workers reach this one.")
    rest_advertised_port: int | None = setting(INT, None, "", LOW, READ_ONLY,
        "The port by which other workers reach this one.")
    rest_advertised_listener: str | None = setting(STRING, None, "", LOW, READ_ONLY,
        "Which listener other workers use: http or https.")
    access_control_allow_origin = by_name(STRING, "", "", LOW, READ_ONLY,
        "The origin that scripts in browsers may come from (CORS); nothing for none.")
    access_control_allow_methods = by_name(STRING, "", "", LOW, READ_ONLY,
        "The methods that such scripts may use.")
    response_http_headers_config = by_name(STRING, "", "", LOW, READ_ONLY,
        "Headers that are added to every answer, as [action] [name]: [value], with commas between; the actions are set, add, setDate and addDate.")
    ssl_client_auth = by_name(STRING, "none", "required|requested|none", LOW, READ_ONLY,
        "Whether users of https listeners must (required), may (requested) or need not (none) show a certificate.")
    rest_extension_classes = refused("Java classes can't be used; see barnabas.connect.authentication", LIST, "", "list", LOW, READ_ONLY,
        "Java classes that extend the REST API.")
    admin_listeners: tuple[Listener, ...] | None = derived(LIST, None, "list?", LOW, READ_ONLY,
        "Where /admin is served. By default with the rest; an empty list: nowhere.")
    group_id: str = setting(STRING, NO_DEFAULT, "", HIGH, READ_ONLY,
        "The name of the group of workers. Workers of one group share their three topics and their work.")
    session_timeout_ms: int = setting(INT, "10000", "", HIGH, READ_ONLY,
        "After how long without a heartbeat a worker is considered dead.")
    rebalance_timeout_ms: int = setting(INT, "60000", "", HIGH, READ_ONLY,
        "How long a rebalance waits for a worker to stop what it runs and to join again.")
    heartbeat_interval_ms: int = setting(INT, "3000", "", HIGH, READ_ONLY,
        "How often a worker sends a heartbeat. A third of the session timeout is usual.")
    exactly_once_source_support = refused("Records and offsets of sources can't be written in one transaction, because Spark's writer has none", STRING, "disabled", "i:DISABLED|ENABLED|PREPARING", HIGH, READ_ONLY,
        "Whether source connectors write records and offsets in one transaction. Only disabled is supported: Spark's writer has no transactions.")
    metadata_max_age_ms = no_effect("Metadata is requested when an answer says that it is outdated", LONG, "300000", "0..", LOW, READ_ONLY,
        "After how long metadata of brokers and topics is requested again.")
    client_id = by_name(STRING, "", "", LOW, READ_ONLY,
        "The client id of the worker for brokers; empty for one derived from its advertised address.")
    send_buffer_bytes = by_name(INT, "131072", "-1..", MEDIUM, READ_ONLY,
        "The size of a socket's send buffer; -1 for the system's.")
    receive_buffer_bytes = by_name(INT, "32768", "-1..", MEDIUM, READ_ONLY,
        "The size of a socket's receive buffer; -1 for the system's.")
    reconnect_backoff_ms = no_effect("Pauses follow retry.backoff.ms", LONG, "50", "0..", LOW, READ_ONLY,
        "The first pause before a lost connection is opened again.")
    reconnect_backoff_max_ms = no_effect("Pauses follow retry.backoff.max.ms", LONG, "1000", "0..", LOW, READ_ONLY,
        "The longest such pause.")
    socket_connection_setup_timeout_ms = by_name(LONG, "10000", "0..", LOW, READ_ONLY,
        "How long connecting to a broker may take.")
    socket_connection_setup_timeout_max_ms = no_effect("The time to connect is the same each time", LONG, "30000", "0..", LOW, READ_ONLY)
    retry_backoff_ms: int = setting(LONG, "100", "0..", LOW, READ_ONLY,
        "The first pause before a failed request is sent again.")
    retry_backoff_max_ms: int = setting(LONG, "1000", "0..", LOW, READ_ONLY,
        "The longest such pause.")
    request_timeout_ms = by_name(INT, "40000", "0..", MEDIUM, READ_ONLY,
        "How long a broker may take to answer.")
    connections_max_idle_ms = no_effect("The worker's few connections stay open", LONG, "540000", "", MEDIUM, READ_ONLY)
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
        "The SASL mechanism to log in to brokers with.")
    sasl_jaas_config = by_name(PASSWORD, None, "", MEDIUM, READ_ONLY,
        "The login to brokers, in JAAS form.")
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
        "Whether the id and secret for an identity provider are URL-encoded.")
    worker_sync_timeout_ms: int = setting(INT, "3000", "", MEDIUM, READ_ONLY,
        "How long a worker that is behind on the config topic tries to catch up before it joins again.")
    worker_unsync_backoff_ms: int = setting(INT, "300000", "", MEDIUM, READ_ONLY,
        "How long a worker that could not catch up stays out of the group.")
    offset_storage_topic = by_name(STRING, NO_DEFAULT, "", HIGH, READ_ONLY,
        "The topic of the positions of source connectors.")
    offset_storage_partitions = by_name(INT, "25", "", LOW, READ_ONLY,
        "Its partitions when this worker creates it; -1 for the brokers' default.")
    offset_storage_replication_factor = by_name(SHORT, "3", "", LOW, READ_ONLY,
        "Its replication factor when this worker creates it; -1 for the brokers' default.")
    config_storage_topic = by_name(STRING, NO_DEFAULT, "", HIGH, READ_ONLY,
        "The topic of connector and task configurations. It has one partition.")
    config_storage_replication_factor = by_name(SHORT, "3", "", LOW, READ_ONLY,
        "Its replication factor when this worker creates it; -1 for the brokers' default.")
    status_storage_topic = by_name(STRING, NO_DEFAULT, "", HIGH, READ_ONLY,
        "The topic for the states of connectors and tasks.")
    status_storage_partitions = by_name(INT, "5", "", LOW, READ_ONLY,
        "Its partitions when this worker creates it; -1 for the brokers' default.")
    status_storage_replication_factor = by_name(SHORT, "3", "", LOW, READ_ONLY,
        "Its replication factor when this worker creates it; -1 for the brokers' default.")
    # The attribute is in lower case.
    connect_protocol: str = setting(STRING, "sessioned", "", LOW, READ_ONLY,
        "How the group distributes work: eager stops everything first, compatible only work that moves, and sessioned also signs requests between workers.")
    scheduled_rebalance_max_delay_ms: int = setting(INT, "300000", "0..2147483647", LOW, READ_ONLY,
        "How long the work of a lost worker waits for its return.")
    inter_worker_key_ttl_ms: int = setting(INT, "3600000", "0..2147483647", LOW, READ_ONLY,
        "After how long the key that signs requests between workers is replaced; 0 for never.")
    inter_worker_key_generation_algorithm: str = setting(STRING, "HmacSHA256", "", LOW, READ_ONLY,
        "The algorithm that this key is generated for.")
    inter_worker_key_size: int | None = setting(INT, None, "", LOW, READ_ONLY,
        "The size of this key in bits; nothing for the algorithm's own.")
    inter_worker_signature_algorithm = by_name(STRING, "HmacSHA256", "", LOW, READ_ONLY,
        "The algorithm that signs requests to other workers.")
    inter_worker_verification_algorithms = by_name(LIST, "HmacSHA256", "", LOW, READ_ONLY,
        "The algorithms that a request of another worker may be signed with.")
    metadata_recovery_strategy = no_effect(_REBOOTSTRAP, STRING, "rebootstrap", "i:REBOOTSTRAP|NONE", LOW, READ_ONLY,
        "What a client does that reaches none of the brokers it knows: rebootstrap, or none.")
    metadata_recovery_rebootstrap_trigger_ms = no_effect(_REBOOTSTRAP, LONG, "300000", "0..", LOW, READ_ONLY,
        "After how long without metadata it does so.")
    connector_client_config_override_allowlist: list[str] = setting(LIST, "", "list", MEDIUM, READ_ONLY,
        "The client settings that the policy Allowlist allows.")


class BarnabasWorkerSettings(SettingTable):
    barnabas_batch_records_max = by_name(LONG, "500000", "1..", MEDIUM, READ_ONLY,
        "How many records a sink reads in one batch at most. A connector may set it for itself.")
    barnabas_connect_anonymous_request_max_bytes = by_name(INT, "1048576", "1024..", LOW, READ_ONLY,
        "The longest body of a request whose sender is not authenticated: neither signed by a worker nor from an authenticated user.")
    barnabas_connect_authentication = by_name(LIST, "none", "list+:none|basic|jwt|mtls", HIGH, READ_ONLY,
        "How users of the REST API authenticate: none, or any of basic, jwt and mtls. Requests between workers are signed instead.")
    barnabas_connect_console_enable: bool = setting(BOOLEAN, "true", "", LOW, READ_ONLY,
        "Whether the worker serves its web console.")
    barnabas_connect_fresh_signature_max_age_ms = by_name(LONG, "60000", "1..", LOW, READ_ONLY,
        "How old a signed request of another worker of ours may be: within this time each is let in once.")
    barnabas_connect_insecure = by_name(BOOLEAN, "false", "", HIGH, READ_ONLY,
        "Allows a listener for other machines without authentication.")
    barnabas_connect_jwt_algorithms = by_name(LIST, "RS256,ES256", "list+", LOW, READ_ONLY,
        "The signature algorithms that a bearer token may have.")
    barnabas_connect_jwt_audience = by_name(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "The audience that a bearer token must name; nothing for any.")
    barnabas_connect_jwt_issuer = by_name(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "The issuer that a bearer token must name; nothing for any.")
    barnabas_connect_jwt_keys_file = by_name(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "A file with the public keys that bearer tokens are checked with: PEM, or a JSON Web Key Set.")
    barnabas_connect_jwt_roles_claim = by_name(STRING, "roles", "nonempty", LOW, READ_ONLY,
        "The claim of a bearer token that lists the user's roles.")
    barnabas_connect_jwt_user_claim = by_name(STRING, "sub", "nonempty", LOW, READ_ONLY,
        "The claim of a bearer token that names the user.")
    barnabas_connect_mtls_principal_mapping_rules = by_name(STRING, "DEFAULT", "", LOW, READ_ONLY,
        "How the distinguished name of a client's certificate becomes the user's name, by the rules of ssl.principal.mapping.rules.")
    barnabas_connect_plugins: list[str] = setting(LIST, "", "list", MEDIUM, READ_ONLY,
        "Connectors without an entry point that this worker loads when it starts, as module:Class. Connectors that are neither listed here nor announced by an entry point of an installed package can't be used.")
    barnabas_connect_reassign_immediately: bool = setting(BOOLEAN, "true", "", MEDIUM, READ_ONLY,
        "Whether the work of a lost worker is assigned again immediately, if this worker leads the group. With false it waits for scheduled.rebalance.max.delay.ms, as in Kafka.")
    barnabas_connect_request_max_bytes = by_name(INT, "16777216", "1024..", LOW, READ_ONLY,
        "The longest body of a request of an authenticated user, or that another worker has signed.")
    barnabas_connect_request_memory_max_bytes = by_name(INT, "67108864", "1024..", LOW, READ_ONLY,
        "The maximum bytes of request bodies in memory at a time; a request beyond that is answered with 503. At least twice barnabas.connect.request.max.bytes. Unauthenticated senders may use half of it.")
    barnabas_connect_request_wait_ms = by_name(LONG, "10000", "0..", LOW, READ_ONLY,
        "How long a request waits for a rebalance to end before it is answered with 409.")
    barnabas_connect_require_fresh_signatures = by_name(STRING, "auto", "auto|true|false", MEDIUM, READ_ONLY,
        "Whether signed requests must carry the proof, unknown to Java workers, that they are sent for the first time: true, false, or auto, which means where all members of the group are known to send it, by their client.id (barnabas-connect-<host:port> where none is set).")
    barnabas_connect_roles_admin = by_name(LIST, "", "list", MEDIUM, READ_ONLY,
        "Users that may perform all operations: create, change and delete connectors, their offsets, and the levels of loggers. * is every authenticated user.")
    barnabas_connect_roles_operate = by_name(LIST, "", "list", MEDIUM, READ_ONLY,
        "Users that may read, and restart, pause, resume and stop existing connectors. * is every authenticated user.")
    barnabas_connect_roles_read = by_name(LIST, "", "list", MEDIUM, READ_ONLY,
        "Users that may only read. * is every authenticated user.")
    barnabas_connect_spark_avro = by_name(BOOLEAN, "false", "", LOW, READ_ONLY,
        "Whether the Spark session has the package for Avro (0.1 MB, fetched once), which connectors with AvroConverter need. A worker one of whose own converters it is has the package anyway.")
    barnabas_connect_spark_delta = by_name(BOOLEAN, "false", "", LOW, READ_ONLY,
        "Whether the Spark session has Delta Lake (7.8 MB, fetched once), which the connector TopicToDelta needs.")
    barnabas_connect_spark_directory = by_name(STRING, "", "", MEDIUM, READ_ONLY,
        "The folder of checkpoints, of Spark's log and of its scratch files; nothing for one below the system's temporary folder. Positions are in Kafka, so nothing in it has to outlive the worker. A session on other machines needs a folder that all of them see.")
    barnabas_connect_spark_master = by_name(STRING, "local[*]", "nonempty", HIGH, READ_ONLY,
        "Where Spark runs: local[*] or local[N] in this process, spark://host:port on a cluster, or sc://host:port on a Spark Connect server; a server's parameters follow, such as sc://host:port/;use_ssl=true. Settings of the session are barnabas.connect.spark.conf.<Spark's name>.")
    barnabas_connect_task_restart_backoff_max_ms: int = setting(LONG, "60000", "1..", LOW, READ_ONLY,
        "The longest pause before such a restart.")
    barnabas_connect_task_restart_backoff_ms: int = setting(LONG, "1000", "1..", LOW, READ_ONLY,
        "The first pause before a failed task is restarted; each further one is twice as long.")
    barnabas_connect_task_restart_max_attempts: int = setting(INT, "10", "0..", MEDIUM, READ_ONLY,
        "How often a failed task is restarted before it stays failed.")
    barnabas_connect_task_restart_reset_ms: int = setting(LONG, "600000", "1..", LOW, READ_ONLY,
        "After running for so long a task has all its restarts again.")
    barnabas_connect_users_file = by_name(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "A file with users and hashed passwords for basic authentication, a line each.")
    barnabas_log_format: str = setting(STRING, "text", "text|json", LOW, READ_ONLY,
        "The format of log lines: text, or json.")
    barnabas_log_level: str = setting(STRING, "INFO", "i:DEBUG|INFO|WARN|ERROR", LOW, READ_ONLY,
        "The least severe messages that are logged.")
    barnabas_trigger_interval_ms = by_name(LONG, "500", "0..", MEDIUM, READ_ONLY,
        "How often a task looks for new records. A batch that takes longer is followed by the next one immediately. A connector may set it for itself.")


class WorkerSettings(BarnabasWorkerSettings, KafkaWorkerSettings):
    """All settings of a worker: an attribute for each that is used as it is given."""


WORKER_CONFIG_DEF = ConfigDef(WorkerSettings)

# Names of older Kafkas, and what to write instead.
REMOVED_WORKER_SETTINGS: dict[str, str] = {
    "internal.key.converter": "remove it: the internal topics have one format",
    "internal.value.converter": "remove it: the internal topics have one format",
    "rest.host.name": "write listeners=http://host:port",
    "rest.port": "write listeners=http://host:port",
    "offset.storage.file.filename": "remove it: only Kafka's standalone mode keeps positions in a file",
    "config.storage.partitions": "remove it: the config topic always has one partition",
}


def worker_config_doc(name: str) -> str | None:
    """The description of a setting; None for an unknown one. Broker settings share their descriptions."""
    return WORKER_CONFIG_DEF.doc(name) or broker_config_doc(name)
