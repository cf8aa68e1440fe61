"""Read the settings of a registry from ``schema-registry.properties`` and ``--override``, and check all of them.

``load_registry_config`` returns a RegistryConfig or raises InvalidRegistryConfig with *every* problem. Unknown names
are refused: a failed start costs less than a misspelled setting without effect. Settings of Confluent's registry that
have no meaning here cause a warning, because one file may serve both.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.clients.client_config import client_config, is_client_property
from barnabas.clients.errors import InvalidClientConfig
from barnabas.common.config_def import ConfigException, ConfigValue
from barnabas.common.config_providers import ConfigProviders, UnresolvedReference, has_reference, is_provider_setting
from barnabas.common.settings.given_settings import read_settings
from barnabas.common.settings.problem import InvalidSettings, SettingProblem
from barnabas.connect.rest.rest_settings import AuthenticationSettings
from barnabas.connect.settings.listener_urls import Listener, UnusableListener, parse_listeners
from barnabas.registry.settings.registry_settings import REGISTRY_CONFIG_DEF, RegistrySettings
from barnabas.security.authorizer.standard_authorizer import parse_super_users
from barnabas.security.tls_settings import TlsSettings

__all__ = ["InvalidRegistryConfig", "RegistryConfig", "load_registry_config", "registry_config_of"]

CLIENT_PREFIX = "kafkastore."
_AUTHENTICATION = "barnabas.registry.authentication"
_OWN = (
    "kafkastore.topic",
    "kafkastore.timeout.ms",
    "kafkastore.init.timeout.ms",
    "kafkastore.topic.replication.factor",
)
_ALIASES = {
    "avro.compatibility.level": "schema.compatibility.level",
    "master.eligibility": "leader.eligibility",
    "schema.registry.inter.instance.protocol": "inter.instance.protocol",
}
_LOCAL = "http://127.0.0.1:8081"
_WITHOUT_EFFECT = (
    *("debug", "kafkastore.group.id", "kafkastore.write.max.retries", "kafkastore.checkpoint", "kafkastore.connection"),
    *("kafkastore.ssl.trustmanager", "kafkastore.ssl.keymanager", "kafkastore.zk", "leader.election", "metrics."),
    *("request.logger", "resource.extension", "rest.servlet", "schema.providers", "schema.cache", "schema.search"),
    *("shutdown.graceful", "inter.instance.headers", "kafkastore.update.handlers", "kafkastore.topic.skip"),
    *("access.control.", "compression.enable", "thread.pool", "request.queue", "idle.timeout", "confluent."),
)
"""The beginnings of settings of Confluent's registry, or of its HTTP server, that a shared file may have."""


class InvalidRegistryConfig(InvalidSettings):
    """A registry can't start with these settings."""


class RegistryConfig(RegistrySettings):
    """A registry's typed settings. ``value`` returns any setting of the table; the other members combine several."""

    def __init__(self, values: Mapping[str, ConfigValue], texts: Mapping[str, str], warnings: Sequence[str]) -> None:
        self.values = values
        self.texts = texts
        """The texts of all configured settings, with references resolved. They may contain secrets: never show them."""
        self.warnings = list(warnings)
        given = values.get("listeners")
        is_open = not given and not self.ways and not self.barnabas_registry_insecure
        texts_of_listeners = [_LOCAL] if is_open else given or self.value("listeners")
        self.listeners_: tuple[Listener, ...] = parse_listeners("listeners", texts_of_listeners)  # type: ignore[arg-type]

    def value(self, name: str) -> ConfigValue:
        """Return the configured value, else the default."""
        return self.values[name] if name in self.values else REGISTRY_CONFIG_DEF[name].default

    def text(self, name: str) -> str | None:
        """Return the text of a setting, also of a hidden one; None if it is empty."""
        return self.texts.get(name) or REGISTRY_CONFIG_DEF[name].default_text or None

    def list_of(self, name: str) -> tuple[str, ...]:
        found = self.value(name)
        return tuple(map(str, found)) if isinstance(found, list) else ()

    @property
    def ways(self) -> frozenset[str]:
        """The ways to authenticate; empty if no client needs to."""
        return frozenset(self.list_of(_AUTHENTICATION)) - {"none"}

    @property
    def authentication(self) -> AuthenticationSettings:
        return AuthenticationSettings(
            ways=self.ways,
            users_file=self.text("barnabas.registry.users.file"),
            jwt_keys=self.text("barnabas.registry.jwt.keys.file"),
            jwt_issuer=self.text("barnabas.registry.jwt.issuer"),
            jwt_audiences=self.list_of("barnabas.registry.jwt.audience"),
            jwt_algorithms=frozenset(self.list_of("barnabas.registry.jwt.algorithms")),
            jwt_user_claim=self.text("barnabas.registry.jwt.user.claim") or "",
            mtls_rules=self.text("barnabas.registry.mtls.principal.mapping.rules") or "",
            prefix="barnabas.registry.",
        )

    @property
    def tls(self) -> TlsSettings:
        return TlsSettings.read(self.value)

    @property
    def forwarding_secret(self) -> bytes | None:
        text = self.text("barnabas.registry.forwarding.secret")
        return None if text is None else text.encode()

    @property
    def client_properties(self) -> dict[str, str]:
        """The properties of the registry's clients: those with ``kafkastore.``, without it."""
        found = {name.removeprefix(CLIENT_PREFIX): text for name, text in self.texts.items() if _is_of_client(name)}
        return {"client.id": "barnabas-registry", **found}

    @property
    def advertised(self) -> Listener:
        """The listener for the other registries."""
        fitting = (listener for listener in self.listeners_ if listener.scheme == self.inter_instance_protocol)
        return next(fitting, self.listeners_[0])


def load_registry_config(path: str, overrides: Sequence[str] = ()) -> RegistryConfig:
    """Read the file, apply the ``key=value`` overrides, and check all settings.

    Raise InvalidRegistryConfig, or OSError if the file can't be read.
    """
    given = read_settings(path, overrides, InvalidRegistryConfig)
    return registry_config_of(given.texts, where=given.where, warnings=given.warnings, problems=given.problems)


def registry_config_of(
    given: Mapping[str, str],
    *,
    where: Mapping[str, str] | None = None,
    warnings: Sequence[str] = (),
    problems: Sequence[SettingProblem] = (),
) -> RegistryConfig:
    """Check the given settings. Raise InvalidRegistryConfig with all problems."""
    reading = _Reading(given, where or {}, list(warnings), list(problems))
    reading.read()
    if reading.problems:
        raise InvalidRegistryConfig(reading.problems)
    return RegistryConfig(reading.values, reading.texts, reading.warnings)


class _Reading:
    """Parses and checks settings, and collects problems and warnings."""

    def __init__(
        self, given: Mapping[str, str], where: Mapping[str, str], warnings: list[str], problems: list[SettingProblem]
    ) -> None:
        self.texts = {_ALIASES.get(name, name): text for name, text in given.items()}
        self.where = where
        self.warnings = warnings
        self.problems = problems
        self.values: dict[str, ConfigValue] = {}

    def add(self, name: str, what: str, advice: str = "") -> None:
        self.problems.append(SettingProblem(name, what, self.where.get(name, ""), advice))

    def read(self) -> None:
        self._resolve_references()
        for name in self.texts:
            if name in REGISTRY_CONFIG_DEF:
                self._parse(name)
            elif not _is_of_client(name) and not is_provider_setting(name) and name != "config.providers":
                self._unknown(name)
        for name in REGISTRY_CONFIG_DEF:
            if REGISTRY_CONFIG_DEF[name].required and name not in self.texts:
                self.add(name, f'Missing required configuration "{name}" which has no default value.')
        if not self.problems:
            self._check_together()

    def _resolve_references(self) -> None:
        providers = ConfigProviders(self.texts if "config.providers" in self.texts else {})
        for name, what in providers.problems.items():
            self.add(name, f"{name}: {what}")
        for name, text in self.texts.items():
            if not name.startswith("config.providers") and has_reference(text):
                try:
                    self.texts[name] = providers.resolve(text)
                except UnresolvedReference as error:
                    self.add(name, f"{name}: {error}", "add it there, or write the value itself")

    def _parse(self, name: str) -> None:
        key = REGISTRY_CONFIG_DEF[name]
        try:
            self.values[name] = key.parse(self.texts[name])
        except ConfigException as error:
            allowed = f"allowed: {key.validator}" if key.validator is not None and str(key.validator) else ""
            self.add(name, str(error), allowed)

    def _unknown(self, name: str) -> None:
        if name.startswith(_WITHOUT_EFFECT):
            self.warnings.append(f"{name} has no effect here")
            return
        near = REGISTRY_CONFIG_DEF.nearest_name(name)
        advice = f"did you mean {near}?" if near else "remove it; settings of the registry's clients have kafkastore."
        self.add(name, f"{name}: no such setting exists", advice)

    def _check_together(self) -> None:
        try:
            config = RegistryConfig(self.values, self.texts, ())
        except UnusableListener as error:
            self.add("listeners", str(error))
            return
        try:
            parse_super_users(config.barnabas_registry_super_users)
        except ConfigException as error:
            self.add("barnabas.registry.super.users", str(error))
        try:
            client_config(config.client_properties, source="the settings with kafkastore.")
        except InvalidClientConfig as error:
            self.problems += [SettingProblem("kafkastore.", problem) for problem in error.problems]
        self._check_authentication(config)

    def _check_authentication(self, config: RegistryConfig) -> None:
        ways, given = config.ways, config.list_of(_AUTHENTICATION)
        if "none" in given and ways:
            self.add(_AUTHENTICATION, f"{_AUTHENTICATION} has none and others", "write none alone, or remove it")
        for way, name in (("basic", "users.file"), ("jwt", "jwt.keys.file")):
            if way in ways and config.text(f"barnabas.registry.{name}") is None:
                self.add(_AUTHENTICATION, f"{_AUTHENTICATION} has {way}, which needs barnabas.registry.{name}")
        if "mtls" in ways and config.tls.client_auth == "none":
            self.add(
                _AUTHENTICATION,
                f"{_AUTHENTICATION} has mtls, but ssl.client.auth is none, so no certificate is requested",
                "set ssl.client.auth to requested or required",
            )
        if ways == {"mtls"} and not all(listener.is_https for listener in config.listeners_):
            self.add(_AUTHENTICATION, f"{_AUTHENTICATION} is mtls, but a listener has no TLS", "use https listeners")
        open_to_all = [str(listener) for listener in config.listeners_ if not listener.is_loopback]
        if open_to_all and not ways and not config.barnabas_registry_insecure:
            self.add(
                "listeners",
                f"{', '.join(open_to_all)} can be reached from other machines without authentication",
                f"set {_AUTHENTICATION} to basic, jwt or mtls; or listen on {_LOCAL} only; or set "
                "barnabas.registry.insecure=true to let every client act as User:ANONYMOUS",
            )


def _is_of_client(name: str) -> bool:
    if not name.startswith(CLIENT_PREFIX) or name in _OWN or name.startswith(_WITHOUT_EFFECT):
        return False
    return is_client_property(name.removeprefix(CLIENT_PREFIX))
