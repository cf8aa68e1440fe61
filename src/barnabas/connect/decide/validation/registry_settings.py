"""The settings of converters with a schema registry, under Confluent's names."""
# ruff: noqa: E501

from __future__ import annotations

from barnabas.common.config_validators import CaseInsensitiveString, Range, Validator, ValidString
from barnabas.connect.settings.plugin_config_def import REQUIRED, ConfigKey, ConfigType, Importance, Width

__all__ = [
    "AUTO_REGISTER",
    "JSON_SCHEMA_KEYS",
    "LATEST_STRICT",
    "NORMALIZE",
    "REGISTRY_KEYS",
    "REGISTRY_TLS_PREFIX",
    "REGISTRY_URL",
    "USE_LATEST",
]

REGISTRY_URL = "schema.registry.url"
AUTO_REGISTER = "auto.register.schemas"
USE_LATEST = "use.latest.version"
LATEST_STRICT = "latest.compatibility.strict"
NORMALIZE = "normalize.schemas"
REGISTRY_TLS_PREFIX = "schema.registry."

_TOPIC_NAME = "io.confluent.kafka.serializers.subject.TopicNameStrategy"
_STRATEGIES = ("TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy")
_STRATEGY = ValidString([*(f"io.confluent.kafka.serializers.subject.{name}" for name in _STRATEGIES), *_STRATEGIES])
_INT_MAX = 2**31 - 1


def _key(
    name: str,
    type_: ConfigType,
    default: object,
    group: str,
    doc: str,
    *,
    validator: Validator | None = None,
    importance: Importance = Importance.LOW,
) -> ConfigKey:
    return ConfigKey(
        name,
        type_,
        default,
        doc,
        validator,
        importance,
        group=group,
        width=Width.MEDIUM,
    )


def _tls(name: str, type_: ConfigType, doc: str, default: str | None = None) -> ConfigKey:
    return _key(REGISTRY_TLS_PREFIX + name, type_, default, "TLS", doc)


# fmt: off
_ACCESS = (
    _key(REGISTRY_URL, ConfigType.LIST, REQUIRED, "Registry",
        "URLs of the registry's servers, separated by commas. If one does not answer, the next one is requested.",
        importance=Importance.HIGH),
    _key("basic.auth.credentials.source", ConfigType.STRING, "URL", "Registry",
        "Where user and password are: URL (http://user:password@host), or USER_INFO (basic.auth.user.info).",
        validator=CaseInsensitiveString(["URL", "USER_INFO"])),
    _key("basic.auth.user.info", ConfigType.PASSWORD, None, "Registry",
        "user:password, with basic.auth.credentials.source=USER_INFO.", importance=Importance.MEDIUM),
    _key("schema.registry.basic.auth.user.info", ConfigType.PASSWORD, None, "Registry",
        "An older name of basic.auth.user.info."),
    _key("bearer.auth.credentials.source", ConfigType.STRING, None, "Registry",
        "Where the bearer token comes from: STATIC_TOKEN (bearer.auth.token), or OAUTHBEARER (a token endpoint).",
        validator=CaseInsensitiveString(["STATIC_TOKEN", "OAUTHBEARER"])),
    _key("bearer.auth.token", ConfigType.PASSWORD, None, "Registry",
        "The token, with bearer.auth.credentials.source=STATIC_TOKEN."),
    _key("bearer.auth.issuer.endpoint.url", ConfigType.STRING, None, "Registry",
        "The token endpoint for OAUTHBEARER (the grant of client credentials)."),
    _key("bearer.auth.client.id", ConfigType.STRING, None, "Registry", "The client's id for OAUTHBEARER."),
    _key("bearer.auth.client.secret", ConfigType.PASSWORD, None, "Registry", "The client's secret for OAUTHBEARER."),
    _key("bearer.auth.scope", ConfigType.STRING, None, "Registry", "The scope to request for OAUTHBEARER."),
    _key("bearer.auth.logical.cluster", ConfigType.STRING, None, "Registry",
        "Sent with a token as the header target-sr-cluster."),
    _key("bearer.auth.identity.pool.id", ConfigType.STRING, None, "Registry",
        "Sent with a token as the header Confluent-Identity-Pool-Id."),
    _key("http.connect.timeout.ms", ConfigType.INT, "10000", "Registry",
        "How long to wait for a connection to a server of the registry.", validator=Range(1, _INT_MAX)),
    _key("http.read.timeout.ms", ConfigType.INT, "10000", "Registry",
        "How long to wait for the registry's answer.", validator=Range(1, _INT_MAX)),
    _key("max.retries", ConfigType.INT, "3", "Registry",
        "How often all servers are requested again after none of them answered. Then errors.retry.timeout decides.",
        validator=Range(0, _INT_MAX)),
    _key("retries.wait.ms", ConfigType.INT, "1000", "Registry",
        "The pause before the first retry. It doubles with each retry.", validator=Range(0, _INT_MAX)),
    _key("retries.max.wait.ms", ConfigType.INT, "20000", "Registry",
        "The longest pause between two retries.", validator=Range(0, _INT_MAX)),
    _key("schemas.cache.config", ConfigType.INT, "1000", "Registry",
        "How many schemas are kept.", validator=Range(1, _INT_MAX)),
    _key("latest.cache.ttl.sec", ConfigType.INT, "-1", "Registry",
        "For how long the latest version of a subject is kept. -1: until the task restarts.",
        validator=Range(-1, _INT_MAX)),
)

_WRITING = (
    _key(AUTO_REGISTER, ConfigType.BOOLEAN, "true", "Registration",
        "Whether a source registers the schemas of its records. Otherwise the subject must have them already.",
        importance=Importance.MEDIUM),
    _key(USE_LATEST, ConfigType.BOOLEAN, "false", "Registration",
        "With auto.register.schemas=false: whether records are written with the latest schema of the subject, whatever theirs is.",
        importance=Importance.MEDIUM),
    _key(LATEST_STRICT, ConfigType.BOOLEAN, "true", "Registration",
        "With use.latest.version: whether records whose fields that schema can't hold are refused. false: such fields are left out."),
    _key(NORMALIZE, ConfigType.BOOLEAN, "false", "Registration",
        "Whether the registry normalizes a schema before it looks for an equal one."),
    _key("key.subject.name.strategy", ConfigType.STRING, _TOPIC_NAME, "Registration",
        "How the subject of a key is named.", validator=_STRATEGY),
    _key("value.subject.name.strategy", ConfigType.STRING, _TOPIC_NAME, "Registration",
        "How the subject of a value is named.", validator=_STRATEGY),
)

_TLS = (
    _tls("ssl.truststore.location", ConfigType.STRING, "The file with the authorities that may sign the registry's certificate. Empty: the system's."),
    _tls("ssl.truststore.password", ConfigType.PASSWORD, "The password of that file."),
    _tls("ssl.truststore.type", ConfigType.STRING, "JKS, PKCS12 or PEM.", "JKS"),
    _tls("ssl.truststore.certificates", ConfigType.PASSWORD, "These authorities as PEM text, instead of a file."),
    _tls("ssl.keystore.location", ConfigType.STRING, "The file with the certificate and the key of this client."),
    _tls("ssl.keystore.password", ConfigType.PASSWORD, "The password of that file."),
    _tls("ssl.keystore.type", ConfigType.STRING, "JKS, PKCS12 or PEM.", "JKS"),
    _tls("ssl.keystore.key", ConfigType.PASSWORD, "The client's key as PEM text, instead of a file."),
    _tls("ssl.keystore.certificate.chain", ConfigType.PASSWORD, "The client's certificates as PEM text."),
    _tls("ssl.key.password", ConfigType.PASSWORD, "The password of the client's key."),
    _tls("ssl.enabled.protocols", ConfigType.LIST, "The versions of TLS.", "TLSv1.2,TLSv1.3"),
    _tls("ssl.cipher.suites", ConfigType.LIST, "The cipher suites. Empty: all good ones."),
    _tls("ssl.endpoint.identification.algorithm", ConfigType.STRING, "Whether the certificate must be for the host of the URL: https, or empty for no check.", "https"),
)

REGISTRY_KEYS = (*_ACCESS, *_WRITING, *_TLS)

JSON_SCHEMA_KEYS = (
    _key("decimal.format", ConfigType.STRING, "BASE64", "Serialization",
        "How decimals are written: BASE64 of their bytes, or NUMERIC.",
        validator=CaseInsensitiveString(["BASE64", "NUMERIC"])),
    _key("barnabas.schema.unknown.fields", ConfigType.STRING, "ignore", "Serialization",
        "How to treat a record with a field that its schema does not name. ignore: as a good one, without the field; error: as a bad record.",
        validator=ValidString(["error", "ignore"])),
)
# fmt: on
