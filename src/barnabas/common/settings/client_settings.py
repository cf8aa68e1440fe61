"""The settings of Kafka's clients, with Kafka's names and defaults.

The clients of barnabas read the rows that work. The rows without effect belong to the Java clients inside Spark.
Connect validates them if a connector overrides the settings of its clients.
"""

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
    PASSWORD,
    READ_ONLY,
    STRING,
    Setting,
    SettingTable,
    SupportState,
    by_name,
    no_effect,
    rows_of,
)

__all__ = ["AdminSettings", "ClientSettings", "ConsumerSettings", "ProducerSettings", "working_rows"]

_JAVA = "Only the Java clients inside Spark have this setting."


class ClientSettings(SettingTable):
    """Settings that every client of barnabas reads."""

    bootstrap_servers = by_name(LIST, "", "", HIGH, READ_ONLY)
    bootstrap_controllers = by_name(LIST, "", "", HIGH, READ_ONLY)
    client_id = by_name(STRING, "", "", MEDIUM, READ_ONLY)
    security_protocol = by_name(STRING, "PLAINTEXT", "i:PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL", MEDIUM, READ_ONLY)
    request_timeout_ms = by_name(INT, "30000", "0..", MEDIUM, READ_ONLY)
    default_api_timeout_ms = by_name(INT, "60000", "0..", MEDIUM, READ_ONLY, "The time limit of a call.")
    socket_connection_setup_timeout_ms = by_name(LONG, "10000", "0..", MEDIUM, READ_ONLY)
    send_buffer_bytes = by_name(INT, "131072", "-1..", MEDIUM, READ_ONLY)
    receive_buffer_bytes = by_name(INT, "65536", "-1..", MEDIUM, READ_ONLY)
    retries = by_name(INT, "2147483647", "0..", LOW, READ_ONLY, "The maximum number of retries of a failed request.")
    retry_backoff_ms = by_name(LONG, "100", "0..", LOW, READ_ONLY)
    retry_backoff_max_ms = by_name(LONG, "1000", "0..", LOW, READ_ONLY)
    client_dns_lookup = by_name(STRING, "use_all_dns_ips", "use_all_dns_ips", MEDIUM, READ_ONLY)
    sasl_mechanism = by_name(STRING, "GSSAPI", "", MEDIUM, READ_ONLY)
    sasl_jaas_config = by_name(PASSWORD, None, "", MEDIUM, READ_ONLY)
    sasl_oauthbearer_token_endpoint_url = by_name(STRING, None, "", MEDIUM, READ_ONLY)
    ssl_cipher_suites = by_name(LIST, "", "", LOW, READ_ONLY)
    ssl_enabled_protocols = by_name(LIST, "TLSv1.2,TLSv1.3", "", MEDIUM, READ_ONLY)
    ssl_endpoint_identification_algorithm = by_name(STRING, "https", "", LOW, READ_ONLY)
    ssl_key_password = by_name(PASSWORD, None, "", HIGH, READ_ONLY)
    ssl_keystore_certificate_chain = by_name(PASSWORD, None, "", HIGH, READ_ONLY)
    ssl_keystore_key = by_name(PASSWORD, None, "", HIGH, READ_ONLY)
    ssl_keystore_location = by_name(STRING, None, "", HIGH, READ_ONLY)
    ssl_keystore_password = by_name(PASSWORD, None, "", HIGH, READ_ONLY)
    ssl_keystore_type = by_name(STRING, "JKS", "", MEDIUM, READ_ONLY)
    ssl_protocol = by_name(STRING, "TLSv1.3", "", MEDIUM, READ_ONLY)
    ssl_truststore_certificates = by_name(PASSWORD, None, "", HIGH, READ_ONLY)
    ssl_truststore_location = by_name(STRING, None, "", HIGH, READ_ONLY)
    ssl_truststore_password = by_name(PASSWORD, None, "", HIGH, READ_ONLY)
    ssl_truststore_type = by_name(STRING, "JKS", "", MEDIUM, READ_ONLY)


class ProducerSettings(SettingTable):
    """Settings of producers, and the settings of every client that a producer reads itself."""

    acks = by_name(
        STRING, "all", "all|-1|0|1", LOW, READ_ONLY, "Which replicas must have a record before it is acknowledged."
    )
    batch_size = by_name(INT, "16384", "0..", MEDIUM, READ_ONLY, "The maximum size of a batch, in bytes.")
    linger_ms = by_name(LONG, "5", "0..", MEDIUM, READ_ONLY, "How long a batch waits for more records.")
    compression_type = by_name(
        STRING, "none", "none|gzip|snappy|lz4|zstd", HIGH, READ_ONLY,
        "The compression of batches: none, gzip, snappy, lz4 or zstd.",
    )  # fmt: skip
    compression_gzip_level = by_name(INT, "-1", "gzip-level", MEDIUM, READ_ONLY, "The compression level of gzip.")
    compression_lz4_level = by_name(INT, "9", "1..17", MEDIUM, READ_ONLY, "The compression level of lz4.")
    compression_zstd_level = by_name(INT, "3", "-131072..22", MEDIUM, READ_ONLY, "The compression level of zstd.")
    buffer_memory = by_name(LONG, "33554432", "0..", HIGH, READ_ONLY, "The memory limit for unsent records, in bytes.")
    max_request_size = by_name(INT, "1048576", "0..", MEDIUM, READ_ONLY, "The maximum size of a request, in bytes.")
    max_in_flight_requests_per_connection = by_name(
        INT, "5", "1..", LOW, READ_ONLY, "The maximum number of requests in flight on a connection."
    )
    enable_idempotence = by_name(
        BOOLEAN, "true", "", LOW, READ_ONLY, "Whether brokers write a record only once if the producer retries it."
    )
    request_timeout_ms = ClientSettings.request_timeout_ms
    delivery_timeout_ms = by_name(
        INT, "120000", "0..", MEDIUM, READ_ONLY, "How long the producer tries to deliver a record."
    )
    retries = by_name(INT, "2147483647", "0..", HIGH, READ_ONLY, "The maximum number of retries for a record.")
    retry_backoff_ms = ClientSettings.retry_backoff_ms
    retry_backoff_max_ms = ClientSettings.retry_backoff_max_ms
    max_block_ms = no_effect(
        _JAVA, LONG, "60000", "0..", MEDIUM, READ_ONLY, "How long a send may wait for buffer memory or metadata."
    )
    partitioner_class = no_effect(_JAVA, CLASS, None, "", MEDIUM, READ_ONLY, "The Java class that chooses partitions.")
    transactional_id = by_name(STRING, None, "", LOW, READ_ONLY, "The ID of the producer's transactions.")
    transaction_timeout_ms = by_name(
        INT, "60000", "0..", LOW, READ_ONLY, "How long a transaction may take before its coordinator aborts it."
    )


class ConsumerSettings(SettingTable):
    """Settings of consumers, and the settings of every client that a consumer reads itself."""

    fetch_min_bytes = by_name(INT, "1", "0..", HIGH, READ_ONLY, "The number of bytes that a broker waits for.")
    fetch_max_bytes = by_name(INT, "52428800", "0..", MEDIUM, READ_ONLY, "The maximum number of bytes in a response.")
    fetch_max_wait_ms = by_name(INT, "500", "0..", LOW, READ_ONLY, "How long a broker may wait for more records.")
    max_partition_fetch_bytes = by_name(
        INT, "1048576", "0..", HIGH, READ_ONLY, "The maximum number of bytes of a partition in a response."
    )
    isolation_level = by_name(
        STRING, "read_uncommitted", "i:read_uncommitted|read_committed", MEDIUM, READ_ONLY,
        "Whether the consumer reads records of open transactions.",
    )  # fmt: skip
    check_crcs = by_name(BOOLEAN, "true", "", LOW, READ_ONLY, "Whether the consumer verifies the checksums of records.")
    retry_backoff_ms = ClientSettings.retry_backoff_ms
    retry_backoff_max_ms = ClientSettings.retry_backoff_max_ms
    allow_auto_create_topics = no_effect(
        _JAVA, BOOLEAN, "true", "", MEDIUM, READ_ONLY, "Whether a metadata request may create a missing topic."
    )
    auto_commit_interval_ms = no_effect(
        _JAVA, INT, "5000", "0..", LOW, READ_ONLY, "The interval at which the client automatically commits its offsets."
    )
    auto_offset_reset = no_effect(
        _JAVA, STRING, "latest", "", MEDIUM, READ_ONLY,
        "Where to start without a committed offset: earliest, latest or none.",
    )  # fmt: skip
    client_rack = no_effect(
        _JAVA, STRING, "", "", LOW, READ_ONLY, "The rack of the client, which can then read from a nearby replica."
    )
    default_api_timeout_ms = no_effect(_JAVA, INT, "60000", "0..", MEDIUM, READ_ONLY, "The time limit of a call.")
    enable_auto_commit = no_effect(
        _JAVA, BOOLEAN, "true", "", MEDIUM, READ_ONLY, "Whether the client automatically commits its offsets."
    )
    exclude_internal_topics = no_effect(
        _JAVA, BOOLEAN, "true", "", MEDIUM, READ_ONLY, "Whether a subscription by pattern excludes internal topics."
    )
    group_id = no_effect(
        _JAVA, STRING, None, "", HIGH, READ_ONLY, "The consumer group that stores the offsets of the connector."
    )
    group_instance_id = by_name(STRING, None, "nonempty", MEDIUM, READ_ONLY, "The ID of a static member.")
    group_protocol = by_name(
        STRING, "classic", "i:classic|consumer", HIGH, READ_ONLY,
        "The group protocol of the consumer: classic or consumer.",
    )  # fmt: skip
    group_remote_assignor = by_name(
        STRING, None, "", MEDIUM, READ_ONLY, "The assignor of the coordinator, with the consumer protocol."
    )
    heartbeat_interval_ms = by_name(INT, "3000", "1..", HIGH, READ_ONLY)
    max_poll_interval_ms = by_name(
        INT, "300000", "1..", MEDIUM, READ_ONLY,
        "The longest time between two polls, and the time in which a member gives up partitions.",
    )  # fmt: skip
    session_timeout_ms = by_name(INT, "45000", "1..", HIGH, READ_ONLY)
    share_acknowledgement_mode = by_name(
        STRING, "implicit", "i:implicit|explicit", MEDIUM, READ_ONLY,
        "Whether a share consumer accepts delivered records when it fetches again.",
    )  # fmt: skip
    share_acquire_mode = by_name(
        STRING, "batch_optimized", "i:batch_optimized|record_limit", MEDIUM, READ_ONLY,
        "Whether a share consumer may acquire more records than its limit, to have whole batches.",
    )  # fmt: skip
    max_poll_records = no_effect(
        _JAVA, INT, "500", "1..", MEDIUM, READ_ONLY, "The maximum number of records that one poll returns."
    )


class AdminSettings(SettingTable):
    """Settings of admin clients that Connect validates besides the shared settings."""

    default_api_timeout_ms = ClientSettings.default_api_timeout_ms
    retries = ClientSettings.retries


def working_rows(table: type[SettingTable]) -> list[Setting]:
    """Return the rows that the clients of barnabas read."""
    return [row for row in rows_of(table) if row.support.state is SupportState.WORKS]
