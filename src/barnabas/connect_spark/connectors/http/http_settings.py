"""The settings of TopicToHttp, and the HTTP client that they describe."""

from __future__ import annotations

import base64
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from barnabas.connect.plugins.api import (
    REQUIRED,
    ConfigKey,
    ConfigType,
    Importance,
    NonEmptyString,
    Password,
    Range,
    TerminalError,
    ValidString,
)
from barnabas.connect_spark.connectors.http.answer_rules import Backoff, StatusCodes, StatusCodesValidator
from barnabas.connect_spark.connectors.http.request_batch import CONTENT_TYPES, BodyFormat

if TYPE_CHECKING:
    import httpx

__all__ = ["HTTP_KEYS", "SECRETS", "HttpSettings", "http_errors", "new_client", "origin_of"]

URL = "http.url"
FORMAT, CONTENT = "http.body.format", "http.record.content"
HEADERS, SECRET_HEADERS = "http.headers", "http.headers.secret"
AUTH, USER, PASSWORD, TOKEN = "http.auth.type", "http.auth.user", "http.auth.password", "http.auth.token"
TRUSTED, CERTIFICATE, KEY_FILE = "http.ssl.truststore.location", "http.ssl.keystore.location", "http.ssl.key.location"
KEY_PASSWORD = "http.ssl.key.password"
SECRETS = frozenset({SECRET_HEADERS, PASSWORD, TOKEN, KEY_PASSWORD})

_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_SECRET_NAMES = re.compile(r"authorization|cookie|token|secret|password|api-?key|signature", re.IGNORECASE)
_OURS = ("content-length", "transfer-encoding", "host", "connection")


def _text(name: str, doc: str, default: str = "") -> ConfigKey:
    return ConfigKey(name, ConfigType.STRING, default, doc, importance=Importance.LOW)


def _secret(name: str, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.PASSWORD, None, doc)


def _number(name: str, default: str, least: int, doc: str) -> ConfigKey:
    return ConfigKey(name, ConfigType.INT, default, doc, Range(least))


HTTP_KEYS = (
    ConfigKey(
        URL,
        ConfigType.STRING,
        REQUIRED,
        "The URL of requests: http: or https:, without credentials. ${topic} is the topic of the records.",
        NonEmptyString(),
        Importance.HIGH,
    ),
    ConfigKey(
        "http.method",
        ConfigType.STRING,
        "POST",
        "The method of requests.",
        ValidString(("POST", "PUT", "PATCH")),
    ),
    ConfigKey(
        FORMAT,
        ConfigType.STRING,
        BodyFormat.ARRAY,
        "json-array: a request has a JSON array of records. json-lines: a line for each record. record: each record is "
        "a request of its own.",
        ValidString((BodyFormat.ARRAY, BodyFormat.LINES, BodyFormat.RECORD)),
        Importance.HIGH,
    ),
    ConfigKey(
        CONTENT,
        ConfigType.STRING,
        "value",
        "value: the value as JSON. record: an object with topic, partition, offset, timestamp, key, headers and value. "
        "text: the value is text or bytes and is sent unchanged; except with http.body.format=record it must be JSON.",
        ValidString(("value", "record", "text")),
        Importance.HIGH,
    ),
    ConfigKey(
        "behavior.on.null.values",
        ConfigType.STRING,
        "send",
        "How to treat a record without a value. send: as null; ignore: not at all; fail: as a bad record.",
        ValidString(("send", "ignore", "fail")),
    ),
    _number("batch.max.records", "500", 1, "The maximum number of records in a request."),
    _number(
        "batch.max.bytes",
        "1000000",
        1,
        "The maximum size of a request's records. A larger record is sent in a request of its own.",
    ),
    _number(
        "max.in.flight.requests",
        "4",
        1,
        "How many requests of a task run at the same time. Those of one partition always run one after another.",
    ),
    _text(HEADERS, "Headers of all requests, as Name: value, separated by |. Secrets are not allowed here."),
    _secret(SECRET_HEADERS, "Headers with secrets, in the same form. A reference to a config provider."),
    _text("http.content.type", "The Content-Type; empty for the one of http.body.format."),
    _text(
        "http.idempotency.header",
        "The header for the idempotency key of a request; empty for none.",
        "Idempotency-Key",
    ),
    _text(
        "http.idempotency.prefix",
        "The beginning of all keys. ${connector} is the connector's name. Change it to send records again that the "
        "server has accepted, or if a topic was created again.",
        "${connector}",
    ),
    ConfigKey(
        AUTH,
        ConfigType.STRING,
        "none",
        "How requests are authenticated.",
        ValidString(("none", "basic", "bearer")),
        Importance.HIGH,
    ),
    ConfigKey(USER, ConfigType.STRING, "", "The user, for basic."),
    _secret(PASSWORD, "The password, for basic. A reference to a config provider."),
    _secret(TOKEN, "The token, for bearer. A reference to a config provider."),
    _text(TRUSTED, "A PEM file with the trusted authorities; empty for those of the system."),
    _text(CERTIFICATE, "A PEM file with the client's certificate, and its key unless another file has it."),
    _text(KEY_FILE, "A PEM file with the key of the client's certificate."),
    _secret(KEY_PASSWORD, "The password of the key. A reference to a config provider."),
    _text("http.proxy.url", "A proxy for all requests; variables such as HTTPS_PROXY are ignored."),
    _number("http.connect.timeout.ms", "10000", 1, "The limit for opening a connection."),
    _number("http.request.timeout.ms", "30000", 1, "The longest silence of the server while a request runs."),
    _number("max.retries", "10", 0, "How often a request is retried before the task fails."),
    _number("retry.backoff.ms", "1000", 0, "The pause before the first retry; it doubles each time."),
    _number("retry.backoff.max.ms", "60000", 0, "The longest pause, unless the server's Retry-After is longer."),
    ConfigKey(
        "retry.on.status.codes",
        ConfigType.LIST,
        "408,409,425,429,500-599",
        "The status codes after which a request is retried, as are connections that fail.",
        StatusCodesValidator(),
    ),
    ConfigKey(
        "refused.status.codes",
        ConfigType.LIST,
        "400,413,415,422",
        "The status codes that refuse the records of a request. Any other code fails the task.",
        StatusCodesValidator(),
    ),
)


@dataclass(frozen=True, slots=True)
class HttpSettings:
    url: str
    method: str
    body_format: str
    content: str
    null_values: str
    records_max: int
    bytes_max: int
    in_flight_max: int
    headers: Mapping[str, str]
    key_header: str
    key_prefix: str
    max_retries: int
    backoff: Backoff
    retried: StatusCodes
    refused: StatusCodes
    secrets: tuple[str, ...]
    """What no message may show."""

    @property
    def server(self) -> str:
        """The URL for messages: without path and query, which are the secret of many webhooks."""
        return origin_of(self.url)

    @classmethod
    def of(cls, settings: Mapping[str, Any], connector: str) -> HttpSettings:
        """Take the settings, which ``http_errors`` has checked. Raise ValueError."""
        headers = {"Content-Type": str(settings["http.content.type"]) or CONTENT_TYPES[str(settings[FORMAT])]}
        secret = parse_headers(_revealed(settings[SECRET_HEADERS]))
        headers |= parse_headers(str(settings[HEADERS] or "")) | secret | authorization(settings)
        secrets = [*secret.values(), *authorization(settings).values()]
        secrets += [_revealed(settings[name]) for name in (PASSWORD, TOKEN, KEY_PASSWORD)]
        is_single = settings[FORMAT] == BodyFormat.RECORD
        return cls(
            str(settings[URL]),
            str(settings["http.method"]),
            str(settings[FORMAT]),
            str(settings[CONTENT]),
            str(settings["behavior.on.null.values"]),
            1 if is_single else int(settings["batch.max.records"]),
            int(settings["batch.max.bytes"]),
            int(settings["max.in.flight.requests"]),
            headers,
            str(settings["http.idempotency.header"] or ""),
            str(settings["http.idempotency.prefix"] or "").replace("${connector}", connector),
            int(settings["max.retries"]),
            Backoff(int(settings["retry.backoff.ms"]), int(settings["retry.backoff.max.ms"])),
            StatusCodes.of(settings["retry.on.status.codes"]),
            StatusCodes.of(settings["refused.status.codes"]),
            tuple(secret for secret in secrets if secret),
        )


def origin_of(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _revealed(value: object) -> str:
    return value.value if isinstance(value, Password) else str(value or "")


def parse_headers(text: str) -> dict[str, str]:
    """Parse ``Name: value | Name: value``. Raise ValueError, which shows no value."""
    headers: dict[str, str] = {}
    for part in (part.strip() for part in text.split("|")):
        if not part:
            continue
        name, colon, value = part.partition(":")
        if not colon or not _HEADER_NAME.fullmatch(name.strip()):
            raise ValueError("write headers as Name: value, separated by |")
        if name.strip().lower() in _OURS:
            raise ValueError(f"the header {name.strip()} is set by the connector")
        if not value.strip().isprintable() or not value.isascii():
            raise ValueError(f"the header {name.strip()} has characters other than printable ASCII")
        headers[name.strip()] = value.strip()
    return headers


def authorization(settings: Mapping[str, Any]) -> dict[str, str]:
    """Return the header that authenticates requests, if any."""
    kind = settings[AUTH]
    if kind == "basic":
        login = f"{settings[USER]}:{_revealed(settings[PASSWORD])}"
        return {"Authorization": f"Basic {base64.b64encode(login.encode()).decode()}"}
    return {"Authorization": f"Bearer {_revealed(settings[TOKEN])}"} if kind == "bearer" else {}


def http_errors(settings: Mapping[str, Any]) -> dict[str, Sequence[str]]:
    """Return the errors of rules between settings, for ``Connector.validate``."""
    errors: dict[str, Sequence[str]] = {}
    if URL in settings and (problem := _url_problem(str(settings[URL] or ""))):
        errors[URL] = [problem]
    for name in (HEADERS, SECRET_HEADERS):
        try:
            found = parse_headers(_revealed(settings.get(name)))
        except ValueError as error:
            errors[name] = [f"{error}."]
            continue
        secrets = [header for header in found if _SECRET_NAMES.search(header)]
        if name == HEADERS and secrets:
            errors[name] = [f"{', '.join(secrets)} may hold a secret: move it to {SECRET_HEADERS}, or set {AUTH}."]
    for name, needed in ((USER, "basic"), (PASSWORD, "basic"), (TOKEN, "bearer")):
        if settings.get(AUTH) == needed and not settings.get(name):
            errors[name] = [f"{AUTH}={needed} needs it."]
        elif settings.get(name) and settings.get(AUTH) != needed:
            errors[name] = [f"it is used only with {AUTH}={needed}."]
    if (settings.get(KEY_FILE) or settings.get(KEY_PASSWORD)) and not settings.get(CERTIFICATE):
        errors[CERTIFICATE] = ["a client's key needs its certificate."]
    return errors


def _url_problem(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        return f"it is not a URL: {error}."
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        return "write http://host:port/path, or https:."
    if parts.username is not None or parts.password is not None:
        return f"it has credentials in it, and listings show URLs: set {AUTH}."
    if parts.fragment:
        return "a fragment (#) is not sent to a server: remove it."
    return "${topic} may be in its path or query only." if "${" in parts.netloc else None


def new_client(settings: Mapping[str, Any], connections: int) -> httpx.Client:
    """Create the client. Raise TerminalError for files that can't be used."""
    import httpx

    timeout = httpx.Timeout(
        int(settings["http.request.timeout.ms"]) / 1000, connect=int(settings["http.connect.timeout.ms"]) / 1000
    )
    return httpx.Client(
        verify=_tls(settings),
        timeout=timeout,
        limits=httpx.Limits(max_connections=connections, max_keepalive_connections=connections),
        follow_redirects=False,
        trust_env=False,
        proxy=str(settings["http.proxy.url"] or "") or None,
    )


def _tls(settings: Mapping[str, Any]) -> ssl.SSLContext | bool:
    if not str(settings[URL]).startswith("https:"):
        return False
    name = TRUSTED
    try:
        context = ssl.create_default_context(cafile=_file(settings, TRUSTED))
        name = CERTIFICATE
        certificate = _file(settings, CERTIFICATE)
        if certificate is not None:
            context.load_cert_chain(certificate, _file(settings, KEY_FILE), _revealed(settings[KEY_PASSWORD]))
    except (OSError, ssl.SSLError) as error:  # Also for a missing file.
        reason = "it has no usable PEM, or another password" if isinstance(error, ssl.SSLError) else error.strerror
        raise TerminalError(f"{name}: {settings[name]}: {reason}.") from error
    return context


def _file(settings: Mapping[str, Any], name: str) -> str | None:
    text = str(settings[name] or "")
    if text and not Path(text).is_file():
        raise TerminalError(f"{name}: {text} does not exist on this worker.")
    return text or None
