"""Authentication and authorization: TLS, SASL, delegation tokens, the authorizer."""
# A row is two lines, however long they are: how the value is read, and what it means.
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from typing import TYPE_CHECKING

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
    PASSWORD,
    PER_BROKER,
    READ_ONLY,
    SHORT,
    STRING,
    SettingTable,
    by_name,
    no_effect,
    refused,
    setting,
)

if TYPE_CHECKING:
    from barnabas.common.config_value import Password

__all__ = ["SecuritySettings"]

_BROKER_LOGIN = "Brokers log in to each other and to controllers with PLAIN, SCRAM, or a token from a file."
_KERBEROS = "Kerberos (GSSAPI) is not supported: sasl.enabled.mechanisms refuses it."
_NO_JVM_TLS = "OpenSSL does TLS here, not a JVM: providers, engines and algorithms can't be chosen."


class SecuritySettings(SettingTable):
    allow_everyone_if_no_acl_found: bool = setting(BOOLEAN, "false", "", MEDIUM, READ_ONLY,
        "Whether every principal may access a resource that no ACL covers.",
        internal=True)
    authorizer_class_name: str = setting(STRING, "", "nonnull", LOW, READ_ONLY,
        "The class that decides which principal may perform which operation; if empty, every principal may do everything.")
    delegation_token_expiry_check_interval_ms: int = setting(LONG, "3600000", "1..", LOW, READ_ONLY,
        "How often expired delegation tokens are removed.")
    delegation_token_expiry_time_ms: int = setting(LONG, "86400000", "1..", MEDIUM, READ_ONLY,
        "How long a delegation token is valid without being renewed.")
    delegation_token_max_lifetime_ms: int = setting(LONG, "604800000", "1..", MEDIUM, READ_ONLY,
        "The longest lifetime of a delegation token, renewals included.")
    delegation_token_secret_key: Password | None = setting(PASSWORD, None, "", MEDIUM, READ_ONLY,
        "The secret from which delegation tokens are computed; the same on every node.")
    principal_builder_class = by_name(CLASS, "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder", "", MEDIUM, PER_BROKER,
        "The class that builds the principal of a connection: Kafka's default name for the built-in one, or module:Class for your own.",
        needs_restart=True)
    sasl_client_callback_handler_class = no_effect(_BROKER_LOGIN, CLASS, None, "", MEDIUM, READ_ONLY,
        "A plug-in that answers a mechanism's questions on the client's side.")
    sasl_enabled_mechanisms = by_name(LIST, "GSSAPI", "list", MEDIUM, PER_BROKER,
        "The SASL mechanisms that clients may use.",
        needs_restart=True)
    sasl_jaas_config = no_effect("It belongs to a listener and a mechanism: listener.name.<listener>.<mechanism>.sasl.jaas.config works.", PASSWORD, None, "", MEDIUM, PER_BROKER,
        "The login of one SASL mechanism, in JAAS form. It is set for a listener and a mechanism: listener.name.<listener>.<mechanism>.sasl.jaas.config.")
    sasl_kerberos_kinit_cmd = no_effect(_KERBEROS, STRING, "/usr/bin/kinit", "", MEDIUM, PER_BROKER,
        "The path of kinit.")
    sasl_kerberos_min_time_before_relogin = no_effect(_KERBEROS, LONG, "60000", "", MEDIUM, PER_BROKER,
        "The shortest time between two Kerberos logins, in milliseconds.")
    sasl_kerberos_principal_to_local_rules = no_effect(_KERBEROS, LIST, "DEFAULT", "list", MEDIUM, PER_BROKER,
        "How a Kerberos principal becomes a short name.")
    sasl_kerberos_service_name = no_effect(_KERBEROS, STRING, None, "", MEDIUM, PER_BROKER,
        "The Kerberos service name of the brokers.")
    sasl_kerberos_ticket_renew_jitter = no_effect(_KERBEROS, DOUBLE, "0.05", "", MEDIUM, PER_BROKER,
        "How much the renewal of a ticket varies at random.")
    sasl_kerberos_ticket_renew_window_factor = no_effect(_KERBEROS, DOUBLE, "0.8", "", MEDIUM, PER_BROKER,
        "After which fraction of its life a ticket is renewed.")
    sasl_login_callback_handler_class = no_effect(_BROKER_LOGIN, CLASS, None, "", MEDIUM, READ_ONLY,
        "A plug-in that answers the login's questions.")
    sasl_login_class = no_effect(_BROKER_LOGIN, CLASS, None, "", MEDIUM, READ_ONLY,
        "A plug-in that logs the node itself in.")
    sasl_login_connect_timeout_ms = no_effect(_BROKER_LOGIN, INT, None, "", LOW, READ_ONLY,
        "How long connecting to an identity provider may take.")
    sasl_login_read_timeout_ms = no_effect(_BROKER_LOGIN, INT, None, "", LOW, READ_ONLY,
        "How long reading from an identity provider may take.")
    sasl_login_refresh_buffer_seconds = no_effect(_BROKER_LOGIN, SHORT, "300", "", MEDIUM, PER_BROKER,
        "How long before its end a login is refreshed at the latest.")
    sasl_login_refresh_min_period_seconds = no_effect(_BROKER_LOGIN, SHORT, "60", "", MEDIUM, PER_BROKER,
        "The shortest time between two refreshes of a login.")
    sasl_login_refresh_window_factor = no_effect(_BROKER_LOGIN, DOUBLE, "0.8", "", MEDIUM, PER_BROKER,
        "After which fraction of its life a login is refreshed.")
    sasl_login_refresh_window_jitter = no_effect(_BROKER_LOGIN, DOUBLE, "0.05", "", MEDIUM, PER_BROKER,
        "How much that fraction varies at random.")
    sasl_login_retry_backoff_max_ms = no_effect(_BROKER_LOGIN, LONG, "10000", "", LOW, READ_ONLY,
        "The longest pause before a request to an identity provider is retried.")
    sasl_login_retry_backoff_ms = no_effect(_BROKER_LOGIN, LONG, "100", "", LOW, READ_ONLY,
        "The first pause before a request to an identity provider is retried.")
    sasl_mechanism_controller_protocol = by_name(STRING, "GSSAPI", "", HIGH, READ_ONLY,
        "The SASL mechanism towards controllers.")
    sasl_mechanism_inter_broker_protocol: str = setting(STRING, "GSSAPI", "", MEDIUM, PER_BROKER,
        "The SASL mechanism among brokers.",
        needs_restart=True)
    sasl_oauthbearer_assertion_algorithm = no_effect(_BROKER_LOGIN, STRING, "RS256", "i:ES256|RS256", MEDIUM, READ_ONLY,
        "How an assertion is signed.")
    sasl_oauthbearer_assertion_claim_aud = no_effect(_BROKER_LOGIN, STRING, None, "", MEDIUM, READ_ONLY,
        "The audience of an assertion.")
    sasl_oauthbearer_assertion_claim_exp_seconds = no_effect(_BROKER_LOGIN, INT, "300", "0..86400", LOW, READ_ONLY,
        "How long an assertion is valid.")
    sasl_oauthbearer_assertion_claim_iss = no_effect(_BROKER_LOGIN, STRING, None, "", MEDIUM, READ_ONLY,
        "The issuer of an assertion.")
    sasl_oauthbearer_assertion_claim_jti_include = no_effect(_BROKER_LOGIN, BOOLEAN, "false", "", MEDIUM, READ_ONLY,
        "Whether an assertion has its own id.")
    sasl_oauthbearer_assertion_claim_nbf_seconds = no_effect(_BROKER_LOGIN, INT, "60", "0..3600", LOW, READ_ONLY,
        "How long before now an assertion begins to be valid.")
    sasl_oauthbearer_assertion_claim_sub = no_effect(_BROKER_LOGIN, STRING, None, "", MEDIUM, READ_ONLY,
        "The subject of an assertion.")
    sasl_oauthbearer_assertion_file = no_effect(_BROKER_LOGIN, STRING, None, "", MEDIUM, READ_ONLY,
        "A file with a finished assertion.")
    sasl_oauthbearer_assertion_private_key_file = no_effect(_BROKER_LOGIN, STRING, None, "", MEDIUM, READ_ONLY,
        "The key that signs assertions.")
    sasl_oauthbearer_assertion_private_key_passphrase = no_effect(_BROKER_LOGIN, PASSWORD, None, "", MEDIUM, READ_ONLY,
        "The password of that key.")
    sasl_oauthbearer_assertion_template_file = no_effect(_BROKER_LOGIN, STRING, None, "", MEDIUM, READ_ONLY,
        "A file with claims and headers that assertions start from.")
    sasl_oauthbearer_client_credentials_client_id = no_effect(_BROKER_LOGIN, STRING, None, "", MEDIUM, READ_ONLY,
        "The id with which the node itself requests a token.")
    sasl_oauthbearer_client_credentials_client_secret = no_effect(_BROKER_LOGIN, PASSWORD, None, "", MEDIUM, READ_ONLY,
        "The secret of that id.")
    sasl_oauthbearer_clock_skew_seconds = by_name(INT, "30", "", LOW, READ_ONLY,
        "How far the clocks of node and identity provider may differ.")
    sasl_oauthbearer_expected_audience = by_name(LIST, "", "list", HIGH, READ_ONLY,
        "Audiences of which a token must name one.")
    sasl_oauthbearer_expected_issuer = by_name(STRING, None, "", HIGH, READ_ONLY,
        "The issuer that a token must name.")
    sasl_oauthbearer_jwks_endpoint_refresh_ms = by_name(LONG, "3600000", "", LOW, READ_ONLY,
        "How often these keys are fetched again.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms = by_name(LONG, "10000", "", LOW, READ_ONLY,
        "The longest such pause.")
    sasl_oauthbearer_jwks_endpoint_retry_backoff_ms = by_name(LONG, "100", "", LOW, READ_ONLY,
        "The first pause before they are fetched again after an error.")
    sasl_oauthbearer_jwks_endpoint_url = by_name(STRING, None, "", MEDIUM, READ_ONLY,
        "The URL of the keys that tokens are checked with.")
    sasl_oauthbearer_jwt_retriever_class = no_effect(_BROKER_LOGIN, CLASS, "org.apache.kafka.common.security.oauthbearer.DefaultJwtRetriever", "", MEDIUM, READ_ONLY,
        "A plug-in that fetches tokens.")
    sasl_oauthbearer_jwt_validator_class = refused("It names Java code. Signed tokens are checked with sasl.oauthbearer.jwks.endpoint.url.", CLASS, "org.apache.kafka.common.security.oauthbearer.DefaultJwtValidator", "", MEDIUM, READ_ONLY,
        "A plug-in that checks tokens.",
        also_allowed=("org.apache.kafka.common.security.oauthbearer.BrokerJwtValidator",))
    sasl_oauthbearer_scope = no_effect(_BROKER_LOGIN, STRING, None, "", MEDIUM, READ_ONLY,
        "The scope that a login requests.")
    sasl_oauthbearer_scope_claim_name = by_name(STRING, "scope", "", LOW, READ_ONLY,
        "The claim of a token that holds its scope.")
    sasl_oauthbearer_sub_claim_name = by_name(STRING, "sub", "", LOW, READ_ONLY,
        "The claim of a token that holds the principal's name.")
    sasl_oauthbearer_token_endpoint_url = no_effect(_BROKER_LOGIN, STRING, None, "", MEDIUM, READ_ONLY,
        "The URL that tokens are fetched from.")
    sasl_server_callback_handler_class = by_name(CLASS, None, "", MEDIUM, READ_ONLY,
        "A plug-in that answers a mechanism's questions on the server's side.")
    sasl_server_max_receive_size = by_name(INT, "524288", "", MEDIUM, READ_ONLY,
        "The largest SASL message that is accepted.")
    security_inter_broker_protocol = by_name(STRING, "PLAINTEXT", "PLAINTEXT|SSL|SASL_PLAINTEXT|SASL_SSL", MEDIUM, READ_ONLY,
        "The security protocol among brokers, if inter.broker.listener.name is not set.")
    security_providers = refused(_NO_JVM_TLS, STRING, None, "", LOW, READ_ONLY,
        "Java security providers to install.")
    ssl_allow_dn_changes = by_name(BOOLEAN, "false", "", LOW, READ_ONLY,
        "Whether a new certificate may have another distinguished name than the one it replaces.")
    ssl_allow_san_changes = by_name(BOOLEAN, "false", "", LOW, READ_ONLY,
        "Whether a new certificate may lack alternative names of the one it replaces.")
    ssl_cipher_suites = by_name(LIST, "", "list", MEDIUM, PER_BROKER,
        "The allowed cipher suites, by Java's names; empty for the library's choice. Those of TLS 1.3 can only be enabled together.")
    ssl_client_auth = by_name(STRING, "none", "required|requested|none", MEDIUM, PER_BROKER,
        "Whether clients must (required), may (requested) or need not (none) show a certificate.")
    ssl_enabled_protocols = by_name(LIST, "TLSv1.2,TLSv1.3", "list", MEDIUM, PER_BROKER,
        "The TLS versions that are allowed.")
    ssl_endpoint_identification_algorithm = by_name(STRING, "https", "", LOW, PER_BROKER,
        "How a server's name is checked against its certificate; empty for no check.")
    ssl_engine_factory_class = refused(_NO_JVM_TLS, CLASS, None, "", LOW, PER_BROKER,
        "A plug-in that creates TLS engines.")
    ssl_key_password = by_name(PASSWORD, None, "", MEDIUM, PER_BROKER,
        "The password of the node's own key.",
        for_listeners_only=True)
    ssl_keymanager_algorithm = refused(_NO_JVM_TLS, STRING, "SunX509", "", MEDIUM, PER_BROKER,
        "Java's algorithm for picking a key.",
        also_allowed=("NewSunX509", "PKIX"))
    ssl_keystore_certificate_chain = by_name(PASSWORD, None, "", MEDIUM, PER_BROKER,
        "The node's own certificates themselves, as PEM.",
        for_listeners_only=True)
    ssl_keystore_key = by_name(PASSWORD, None, "", MEDIUM, PER_BROKER,
        "The node's own key itself, as PEM.",
        for_listeners_only=True)
    ssl_keystore_location = by_name(STRING, None, "", MEDIUM, PER_BROKER,
        "The file with the node's own key and certificate.",
        for_listeners_only=True)
    ssl_keystore_password = by_name(PASSWORD, None, "", MEDIUM, PER_BROKER,
        "The password of that file.",
        for_listeners_only=True)
    ssl_keystore_type = by_name(STRING, "JKS", "", MEDIUM, PER_BROKER,
        "The format of that file: PEM or PKCS12; JKS is read as PKCS12.",
        for_listeners_only=True)
    ssl_principal_mapping_rules = by_name(STRING, "DEFAULT", "", LOW, READ_ONLY,
        "How a certificate's name becomes a principal's name: DEFAULT, or RULE:expression/replacement/ with an L or U behind it, the first that matches.")
    ssl_protocol = refused("It may be TLSv1.3, TLSv1.2 or TLS and has no effect: ssl.enabled.protocols sets the versions that are served.", STRING, "TLSv1.3", "", MEDIUM, PER_BROKER,
        "The TLS version to begin with.",
        also_allowed=("TLSv1.2", "TLS"))
    ssl_provider = refused(_NO_JVM_TLS, STRING, None, "", MEDIUM, PER_BROKER,
        "The Java provider of TLS.")
    ssl_secure_random_implementation = no_effect("OpenSSL's generator of random numbers is used.", STRING, None, "", LOW, PER_BROKER,
        "The Java source of randomness for TLS.")
    ssl_trustmanager_algorithm = refused(_NO_JVM_TLS, STRING, "PKIX", "", MEDIUM, PER_BROKER,
        "Java's algorithm for checking certificates.",
        also_allowed=("NewSunX509", "PKIX"))
    ssl_truststore_certificates = by_name(PASSWORD, None, "", MEDIUM, PER_BROKER,
        "The certificates that are trusted themselves, as PEM.",
        for_listeners_only=True)
    ssl_truststore_location = by_name(STRING, None, "", MEDIUM, PER_BROKER,
        "The file with the certificates that are trusted.",
        for_listeners_only=True)
    ssl_truststore_password = by_name(PASSWORD, None, "", MEDIUM, PER_BROKER,
        "The password of that file.",
        for_listeners_only=True)
    ssl_truststore_type = by_name(STRING, "JKS", "", MEDIUM, PER_BROKER,
        "The format of that file: PEM or PKCS12; JKS is read as PKCS12.",
        for_listeners_only=True)
    super_users: str = setting(STRING, "", "", MEDIUM, READ_ONLY,
        "Principals that may do everything, separated by semicolons.",
        internal=True)
