"""All settings of a registry: those of Confluent's that it has, and those of barnabas.

Settings of its clients begin with ``kafkastore.``, as in Confluent's file.
"""
# A row is two lines of any length: how the value is read, and what it means.
# ruff: noqa: E501
# fmt: off

from __future__ import annotations

from barnabas.common.config_def import ConfigDef
from barnabas.common.settings.setting import (
    BOOLEAN,
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
    setting,
)

__all__ = ["REGISTRY_CONFIG_DEF", "RegistrySettings"]

_LEVELS = "i:NONE|BACKWARD|BACKWARD_TRANSITIVE|FORWARD|FORWARD_TRANSITIVE|FULL|FULL_TRANSITIVE"


class RegistrySettings(SettingTable):
    """Settings with Confluent's names first."""

    kafkastore_bootstrap_servers = by_name(LIST, NO_DEFAULT, "list+", HIGH, READ_ONLY,
        "The first brokers to contact, as host:port.")
    kafkastore_topic: str = setting(STRING, "_schemas", "nonempty", HIGH, READ_ONLY,
        "The compacted topic with the schemas. It has one partition. The registry creates it if it is missing.")
    kafkastore_topic_replication_factor: int = setting(SHORT, "3", "1..", HIGH, READ_ONLY,
        "The replication factor of a topic that the registry creates. A cluster with fewer brokers gets as many replicas as it has brokers.")
    kafkastore_timeout_ms: int = setting(INT, "30000", "1..", MEDIUM, READ_ONLY,
        "How long a write to the topic, and reading it back, may take.")
    kafkastore_init_timeout_ms: int = setting(INT, "60000", "1..", MEDIUM, READ_ONLY,
        "How long a starting registry waits for the cluster and for progress in reading the topic.")
    listeners = by_name(LIST, "http://:8081", "list+", HIGH, READ_ONLY,
        "The addresses where the registry listens, as http://host:port or https://host:port. Without listeners and authentication, it listens only on this machine, at http://127.0.0.1:8081.")
    host_name: str | None = setting(STRING, None, "nonempty", HIGH, READ_ONLY,
        "The host name or address at which the other registries of the group reach this one. Default: the name of this machine, or the host of the listener.")
    inter_instance_protocol: str = setting(STRING, "http", "http|https", LOW, READ_ONLY,
        "The scheme of the listener that the other registries use. Without a listener of this scheme, they use the first one.")
    schema_registry_group_id: str = setting(STRING, "schema-registry", "nonempty", MEDIUM, READ_ONLY,
        "The group in which registries with the same topic elect their leader.")
    leader_eligibility: bool = setting(BOOLEAN, "true", "", MEDIUM, READ_ONLY,
        "Whether this registry may become the leader, which writes for all.")
    schema_compatibility_level: str = setting(STRING, "BACKWARD", _LEVELS, HIGH, READ_ONLY,
        "The compatibility level where none is set for a subject, its context, or the registry.")
    mode_mutability: bool = setting(BOOLEAN, "true", "", LOW, READ_ONLY,
        "Whether requests may change modes.")
    ssl_keystore_location = by_name(STRING, None, "", HIGH, READ_ONLY,
        "The file with the private key and the certificate of https listeners.")
    ssl_keystore_password = by_name(PASSWORD, None, "", HIGH, READ_ONLY,
        "The password of the key store.")
    ssl_keystore_type = by_name(STRING, "JKS", "", MEDIUM, READ_ONLY,
        "The format of the key store: JKS, PKCS12 or PEM.")
    ssl_key_password = by_name(PASSWORD, None, "", HIGH, READ_ONLY,
        "The password of the private key.")
    ssl_keystore_key = by_name(PASSWORD, None, "", HIGH, READ_ONLY,
        "The private key itself, as PEM.")
    ssl_keystore_certificate_chain = by_name(PASSWORD, None, "", HIGH, READ_ONLY,
        "The certificate chain itself, as PEM.")
    ssl_truststore_location = by_name(STRING, None, "", HIGH, READ_ONLY,
        "The file with trusted certificates: of clients, and of the other registries.")
    ssl_truststore_password = by_name(PASSWORD, None, "", HIGH, READ_ONLY,
        "The password of the trust store.")
    ssl_truststore_type = by_name(STRING, "JKS", "", MEDIUM, READ_ONLY,
        "The format of the trust store: JKS, PKCS12 or PEM.")
    ssl_truststore_certificates = by_name(PASSWORD, None, "", HIGH, READ_ONLY,
        "The trusted certificates themselves, as PEM.")
    ssl_client_auth = by_name(STRING, "none", "required|requested|none", MEDIUM, READ_ONLY,
        "Whether https listeners require a client certificate (required), request one (requested), or request none (none).")
    ssl_enabled_protocols = by_name(LIST, "TLSv1.2,TLSv1.3", "list", MEDIUM, READ_ONLY,
        "The allowed versions of TLS.")
    ssl_cipher_suites = by_name(LIST, "", "list", LOW, READ_ONLY,
        "The allowed cipher suites. Empty: those of the TLS library.")
    ssl_endpoint_identification_algorithm = by_name(STRING, "https", "", LOW, READ_ONLY,
        "Whether the registry verifies the host names of other registries: https, or empty.")
    barnabas_registry_acls_max_age_ms: int = setting(LONG, "1000", "0..", MEDIUM, READ_ONLY,
        "How old the cluster's ACLs may be when a request is authorized. Older ones are read again first.")
    barnabas_registry_allow_everyone_if_no_acl_found: bool = setting(BOOLEAN, "false", "", MEDIUM, READ_ONLY,
        "Whether everything is allowed on topics without ACLs. Use the value of the brokers' allow.everyone.if.no.acl.found.")
    barnabas_registry_authentication = by_name(LIST, "none", "list+:none|basic|jwt|mtls", HIGH, READ_ONLY,
        "How clients authenticate: none, or one or more of basic, jwt and mtls.")
    barnabas_registry_authorization: str = setting(STRING, "acls", "acls|none", HIGH, READ_ONLY,
        "How requests are authorized: by the ACLs of the cluster (acls), or not at all (none). A cluster without an authorizer allows everything.")
    barnabas_registry_forwarding_secret = by_name(PASSWORD, None, "", MEDIUM, READ_ONLY,
        "A secret of all registries in the group. With it, a registry that is not the leader forwards writes with the principal and the address of the client. Without it, it forwards the Authorization header, and users with client certificates must contact the leader.")
    barnabas_registry_insecure: bool = setting(BOOLEAN, "false", "", HIGH, READ_ONLY,
        "Whether a listener that other machines can reach may lack authentication.")
    barnabas_registry_jwt_algorithms = by_name(LIST, "RS256,ES256", "list+", LOW, READ_ONLY,
        "The accepted signature algorithms of bearer tokens.")
    barnabas_registry_jwt_audience = by_name(LIST, "", "list", MEDIUM, READ_ONLY,
        "The audiences of which a bearer token must contain one. Empty: any audience.")
    barnabas_registry_jwt_issuer = by_name(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "The issuer that a bearer token must contain. Empty: any issuer.")
    barnabas_registry_jwt_keys_file = by_name(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "A file or URL with the public keys that verify bearer tokens, as PEM or as a JSON Web Key Set.")
    barnabas_registry_jwt_user_claim = by_name(STRING, "sub", "nonempty", LOW, READ_ONLY,
        "The claim of a bearer token that contains the user name.")
    barnabas_registry_mtls_principal_mapping_rules = by_name(STRING, "DEFAULT", "", LOW, READ_ONLY,
        "Rules that map the distinguished name in a client certificate to a user name, in the format of ssl.principal.mapping.rules.")
    barnabas_registry_request_max_bytes: int = setting(INT, "4194304", "1024..", LOW, READ_ONLY,
        "The largest request body.")
    barnabas_registry_super_users: str = setting(STRING, "", "", MEDIUM, READ_ONLY,
        "Principals that may do everything, separated by semicolons, as in the brokers' super.users.")
    barnabas_registry_users_file = by_name(STRING, None, "nonempty", MEDIUM, READ_ONLY,
        "A file with users and hashed passwords for basic authentication, one user per line. The roles in it have no meaning here.")
    barnabas_log_format: str = setting(STRING, "text", "text|json", LOW, READ_ONLY,
        "The format of log lines: text, or json.")
    barnabas_log_level: str = setting(STRING, "INFO", "i:DEBUG|INFO|WARN|ERROR", LOW, READ_ONLY,
        "The lowest severity of messages in the log.")


REGISTRY_CONFIG_DEF = ConfigDef(RegistrySettings)
