"""Read Kafka's client properties, as in a ``--command-config`` file.

Supported settings are checked by type and range. A known but unsupported setting is an error. Settings that only tune
missing parts (metrics, consumers, idle connections) are ignored without a warning, so that all tools can share a file.
Unknown settings cause warnings, as in Kafka's clients. Messages never contain secrets, which are only in ``values``.
``retries``, ``retry.backoff.*`` and ``default.api.timeout.ms`` are for callers, which know what can be retried.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple

from barnabas.clients.errors import InvalidClientConfig
from barnabas.common.config_def import ConfigDef, ConfigException
from barnabas.common.properties_file import MalformedProperties, read_properties_file
from barnabas.common.settings.client_settings import ClientSettings

__all__ = [
    "Address",
    "ClientConfig",
    "client_config",
    "is_client_property",
    "parse_addresses",
    "read_client_config",
]


class Address(NamedTuple):
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


_SASL_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")

CONFIG_PROVIDERS = "config.providers"

_NO_EFFECT = re.compile(
    r"auto\.include\.jmx\.reporter|connections\.max\.idle\.ms|enable\.metrics\.push|metadata\..*|metric\.reporters"
    r"|metrics\..*|reconnect\.backoff(\.max)?\.ms|socket\.connection\.setup\.timeout\.max\.ms"
    r"|ssl\.(keymanager|trustmanager)\.algorithm|ssl\.secure\.random\.implementation"
    r"|sasl\.login\..*|sasl\.oauthbearer\..*"
    # Settings of consumers and producers, in a file that all tools share.
    r"|acks|auto\.offset\.reset|batch\.size|buffer\.memory|check\.crcs|compression\..*|enable\.auto\.commit"
    r"|enable\.idempotence|fetch\..*|group\..*|heartbeat\.interval\.ms|interceptor\.classes|isolation\.level"
    r"|key\.(de)?serializer|linger\.ms|max\..*|partition\..*|partitioner\..*|session\.timeout\.ms"
    r"|transaction.*|value\.(de)?serializer|delivery\.timeout\.ms|client\.rack|exclude\.internal\.topics"
)

_UNSUPPORTED = (
    (r"sasl\.kerberos\..*", "Kerberos (GSSAPI) is not supported"),
    (r"ssl\.provider|security\.providers", "Java security providers are not supported"),
    (r"ssl\.engine\.factory\.class|sasl\.login\.class|sasl\..*callback\.handler\.class", "Java classes can't be used"),
    (r"sasl\.oauthbearer\.(assertion|client\.credentials|jwt)\..*", "tokens are read from a file, never fetched"),
)

_BUILT_IN_CLASSES = ("OAuthBearerLoginCallbackHandler", "FileJwtRetriever")
"""Java classes that read a token from a file, as this client always does."""


@cache
def _definition() -> ConfigDef:
    return ConfigDef(ClientSettings)


class ClientConfig:
    """Checked settings. ``warnings`` are about unknown settings."""

    __slots__ = ("bootstrap", "values", "warnings")

    def __init__(self, bootstrap: Sequence[Address], values: Mapping[str, Any], warnings: Sequence[str] = ()) -> None:
        self.bootstrap = tuple(bootstrap)
        self.values = values
        self.warnings = tuple(warnings)

    @property
    def security_protocol(self) -> str:
        return str(self.values["security.protocol"]).upper()

    @property
    def uses_tls(self) -> bool:
        return self.security_protocol in ("SSL", "SASL_SSL")

    @property
    def uses_sasl(self) -> bool:
        return self.security_protocol in ("SASL_PLAINTEXT", "SASL_SSL")

    @property
    def sasl_mechanism(self) -> str:
        return str(self.values["sasl.mechanism"])

    @property
    def client_id(self) -> str:
        return str(self.values["client.id"]) or "barnabas"

    @property
    def asks_controllers(self) -> bool:
        """Whether ``bootstrap`` names controllers: only if no brokers are configured, as in Kafka's admin client."""
        return not self.values["bootstrap.servers"] and bool(self.values["bootstrap.controllers"])

    @property
    def request_timeout_s(self) -> float:
        return float(self.values["request.timeout.ms"]) / 1000

    @property
    def connect_timeout_s(self) -> float:
        return float(self.values["socket.connection.setup.timeout.ms"]) / 1000

    def __repr__(self) -> str:
        return f"ClientConfig({', '.join(map(str, self.bootstrap))}, {self.security_protocol})"


def read_client_config(path: str, *, bootstrap: str | None = None) -> ClientConfig:
    """Read the settings of a file. Raise InvalidClientConfig for an unreadable file or invalid settings."""
    try:
        properties = read_properties_file(path)
    except OSError as error:
        raise InvalidClientConfig([f"can't read {path}: {error.strerror}"]) from error
    except MalformedProperties as error:
        raise InvalidClientConfig([f"{path}: {error}"]) from error
    found = client_config(properties.values, bootstrap=bootstrap, source=path)
    return ClientConfig(
        found.bootstrap, found.values, [*(f"{path}: {w}" for w in properties.warnings), *found.warnings]
    )


def client_config(
    properties: Mapping[str, str], *, bootstrap: str | None = None, source: str = "client settings"
) -> ClientConfig:
    """Check settings. ``bootstrap`` overrides bootstrap.servers. Raise InvalidClientConfig with all problems."""
    definition = _definition()
    problems: list[str] = []
    warnings: list[str] = []
    values: dict[str, Any] = {name: definition[name].default for name in definition}
    if CONFIG_PROVIDERS in properties:
        properties = _without_references(properties, source, problems)
    for name, text in properties.items():
        if name in definition:
            try:
                values[name] = definition[name].parse(text)
            except ConfigException as error:
                problems.append(f"{source}: {error}")
        elif text.rpartition(".")[2] in _BUILT_IN_CLASSES:
            continue
        elif (reason := _unsupported(name)) is not None:
            problems.append(f"{source}: {name} can't be used: {reason}")
        elif not _NO_EFFECT.fullmatch(name):
            near = definition.nearest_name(name)
            warnings.append(f"{source}: {name} is not a client setting" + (f"; did you mean {near}?" if near else ""))
    if bootstrap:
        values["bootstrap.servers"] = [part.strip() for part in bootstrap.split(",")]
    servers = bootstrap or ",".join(values["bootstrap.servers"] or values["bootstrap.controllers"] or ())
    addresses: list[Address] = []
    try:
        addresses = parse_addresses(servers)
    except ValueError as error:
        problems.append(f"{'--bootstrap-server' if bootstrap else source + ': bootstrap.servers'}: {error}")
    if not problems:
        problems += [f"{source}: {problem}" for problem in _contradictions(values)]
    if problems:
        raise InvalidClientConfig(problems)
    return ClientConfig(addresses, values, warnings)


def _without_references(properties: Mapping[str, str], source: str, problems: list[str]) -> dict[str, str]:
    """Return the properties with references replaced by values of providers, and without settings of providers."""
    from barnabas.common.config_providers import ConfigProviders, UnresolvedReference, is_provider_setting

    providers = ConfigProviders(properties)
    problems += [f"{source}: {name}: {what}" for name, what in providers.problems.items()]
    found: dict[str, str] = {}
    for name, text in properties.items():
        if name == CONFIG_PROVIDERS or is_provider_setting(name):
            continue
        try:
            found[name] = providers.resolve(text)
        except UnresolvedReference as error:
            problems.append(f"{source}: {name}: {error}")
    return found


def is_client_property(name: str) -> bool:
    """Return whether Kafka's clients know the property, even if this client ignores or refuses it."""
    return (
        name.startswith(CONFIG_PROVIDERS)
        or name in _definition()
        or bool(_NO_EFFECT.fullmatch(name))
        or _unsupported(name) is not None
    )


def parse_addresses(text: str) -> list[Address]:
    """Parse ``host:port`` pairs separated by commas, with IPv6 addresses in brackets. Raise ValueError."""
    addresses: list[Address] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        match = re.fullmatch(r"(?:[A-Za-z_]+://)?(?:\[([0-9A-Fa-f:.%\w]+)\]|([^\s:\[\]/]+)):(\d{1,9})", part)
        if match is None:
            raise ValueError(f"{part!r} is not host:port; write it as localhost:9092, or [::1]:9092 with IPv6")
        if not 0 < int(match[3]) < 65536:
            raise ValueError(f"{part!r}: the port must be between 1 and 65535")
        addresses.append(Address(match[1] or match[2], int(match[3])))
    if not addresses:
        raise ValueError("no server is given; write host:port, or several separated by commas")
    return addresses


def _unsupported(name: str) -> str | None:
    return next((reason for pattern, reason in _UNSUPPORTED if re.fullmatch(pattern, name)), None)


def _contradictions(values: Mapping[str, Any]) -> list[str]:
    protocol = str(values["security.protocol"]).upper()
    problems: list[str] = []
    if protocol.startswith("SASL_"):
        mechanism = values["sasl.mechanism"]
        if mechanism not in _SASL_MECHANISMS:
            problems.append(
                f"sasl.mechanism={mechanism} can't be used with security.protocol={protocol}: "
                f"the supported mechanisms are {', '.join(_SASL_MECHANISMS)}"
            )
        if values["sasl.jaas.config"] is None:
            problems.append(f"security.protocol={protocol} needs sasl.jaas.config")
    if values["ssl.endpoint.identification.algorithm"] not in ("https", "HTTPS", "", None):
        problems.append("ssl.endpoint.identification.algorithm must be https, or empty to accept any host name")
    return problems
