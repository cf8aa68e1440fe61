"""Read the settings of a worker from ``connect-distributed.properties`` and ``--override``, and check all of them.

``load_worker_config`` returns a WorkerConfig or raises InvalidWorkerConfig with *every* unusable setting. It refuses
settings that only Kafka's worker supports. It also refuses unknown names: a failed start costs less than a misspelled
setting without effect. Settings that only Java workers use (``plugin.path``) cause a warning, because both kinds of
worker may share a file.

Besides the settings of the table, a file may contain families of settings, each with a prefix:

- ``producer.``, ``consumer.`` and ``admin.`` for the clients of connectors;
- ``config.storage.``, ``offset.storage.`` and ``status.storage.`` for the worker's topics;
- ``key.converter.``, ``value.converter.`` and ``header.converter.`` for converters;
- ``listeners.https.`` and ``admin.listeners.https.`` for TLS of the REST API;
- ``config.providers.``, ``metrics.context.``, and ``barnabas.connect.spark.conf.`` for the Spark session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.clients.client_config import client_config, is_client_property
from barnabas.clients.errors import InvalidClientConfig
from barnabas.common.config_def import ConfigException, ConfigValue
from barnabas.common.config_providers import ConfigProviders, UnresolvedReference, has_reference
from barnabas.common.settings.given_settings import read_settings
from barnabas.common.settings.problem import InvalidSettings, SettingProblem
from barnabas.common.settings.setting import SupportState
from barnabas.connect.settings.listener_urls import Listener, advertised_listener, parse_listeners, worker_url
from barnabas.connect.settings.plain_secrets import HOW_TO_KEEP_SECRETS, HOW_TO_WRITE_REFERENCES, plain_secrets
from barnabas.connect.settings.webhook_rules import WEBHOOK_SECRET
from barnabas.connect.settings.worker_config_rules import WorkerRules
from barnabas.connect.settings.worker_settings import REMOVED_WORKER_SETTINGS, WORKER_CONFIG_DEF, WorkerSettings

__all__ = ["InvalidWorkerConfig", "WorkerConfig", "load_worker_config", "worker_config_of"]

_CLIENT_FAMILIES = ("producer.", "consumer.", "admin.")
_TOPIC_FAMILIES = ("config.storage.", "offset.storage.", "status.storage.")
_TLS_FAMILIES = ("listeners.https.", "admin.listeners.https.")
_FREE_FAMILIES = (
    *("key.converter.", "value.converter.", "header.converter."),
    *("config.providers.", "metrics.context.", "barnabas.connect.spark.conf."),
)
# Settings of the worker's topics that can't be configured, because the use of the topic determines them.
_FIXED_TOPIC_SETTINGS = ("topic", "partitions", "replication.factor", "cleanup.policy")
_PATIENCE_MS_MIN = 3_000
"""Three heartbeats: one late heartbeat must not stop the worker's tasks."""
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_SECRET_WORDS = ("password", "secret", "jaas", "token", "credential", "key", "passphrase", "certificate")


class InvalidWorkerConfig(InvalidSettings):
    """A worker cannot start with these settings."""


class WorkerConfig(WorkerSettings):
    """A worker's typed settings. ``value`` returns any setting of the table; the other members combine several."""

    def __init__(
        self,
        values: Mapping[str, ConfigValue],
        texts: Mapping[str, str],
        *,
        providers: ConfigProviders,
        warnings: Sequence[str],
        source: str | None,
    ) -> None:
        self.values = values
        """The typed values of the configured settings of the table."""
        self.texts = texts
        """The texts of all configured settings, with references resolved. They may contain secrets: never show them."""
        self.providers = providers
        """The providers that ``config.providers`` names. They also resolve the references of connectors."""
        self.warnings = list(warnings)
        """Messages to the operator, each for one log line."""
        self.source = source
        self.listeners = _listeners_of(values)
        self.admin_listeners = _admin_listeners_of(values)
        """None: ``listeners`` serve /admin. Empty: no listener serves it."""

    def value(self, name: str) -> ConfigValue:
        """Return the typed value of a setting of the table: the configured value, else the default."""
        return self.values[name] if name in self.values else WORKER_CONFIG_DEF[name].default

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """Return the texts of the settings with this prefix, by name without the prefix."""
        return {name.removeprefix(prefix): text for name, text in self.texts.items() if name.startswith(prefix)}

    @property
    def client_properties(self) -> dict[str, str]:
        """The properties of the worker's own clients, for the group and the internal topics."""
        return {"request.timeout.ms": WORKER_CONFIG_DEF["request.timeout.ms"].default_text or ""} | {
            name: text
            for name, text in self.texts.items()
            if is_client_property(name)
            and not name.startswith(("config.providers", "group.", "session."))
            and (name not in WORKER_CONFIG_DEF or WORKER_CONFIG_DEF[name].support.state is SupportState.WORKS)
        }

    @property
    def admin_properties(self) -> dict[str, str]:
        """The properties of connectors' admin clients: the worker's own, overridden by those with ``admin.``."""
        own = {name: text for name, text in self.with_prefix("admin.").items() if not name.startswith("listeners")}
        return self.client_properties | own

    def advertised_url(self, host_name: str, bound_ports: Mapping[Listener, int] | None = None) -> str:
        """Return the URL of this worker for other workers, with a slash at the end.

        ``host_name`` is the name of this machine, for listeners on all interfaces. ``bound_ports`` contains the ports
        that the system chose for port 0.
        """
        listener = advertised_listener(self.listeners, self.rest_advertised_listener)
        bound = (bound_ports or {}).get(listener, listener.port)
        every = listener.host in ("", "0.0.0.0", "::")
        host = self.rest_advertised_host_name or (host_name if every else listener.host)
        return worker_url(
            listener.scheme, host, bound if self.rest_advertised_port is None else self.rest_advertised_port
        )


def load_worker_config(path: str, overrides: Sequence[str] = ()) -> WorkerConfig:
    """Read the file, apply the ``key=value`` overrides, and check all settings.

    Raise InvalidWorkerConfig, or OSError if the file can't be read.
    """
    given = read_settings(path, overrides, InvalidWorkerConfig)
    return worker_config_of(
        given.texts, where=given.where, source=path, warnings=given.warnings, problems=given.problems
    )


def worker_config_of(
    given: Mapping[str, str],
    *,
    where: Mapping[str, str] | None = None,
    source: str | None = None,
    warnings: Sequence[str] = (),
    problems: Sequence[SettingProblem] = (),
) -> WorkerConfig:
    """Check the given settings. Raise InvalidWorkerConfig with all problems."""
    reading = _Reading(given, where or {}, list(warnings), list(problems))
    reading.resolve_references()
    reading.parse_each()
    if not reading.problems:
        reading.check_rules()
    if reading.problems:
        raise InvalidWorkerConfig(reading.problems)
    return WorkerConfig(
        reading.values, reading.texts, providers=reading.providers, warnings=reading.warnings, source=source
    )


class _Reading:
    """Parses and checks settings for a WorkerConfig, and collects problems and warnings."""

    def __init__(
        self, given: Mapping[str, str], where: Mapping[str, str], warnings: list[str], problems: list[SettingProblem]
    ) -> None:
        self.texts = dict(given)
        self.where = where
        self.warnings = warnings
        self.problems = problems
        self.values: dict[str, ConfigValue] = {}
        self.providers = ConfigProviders(self.texts if "config.providers" in self.texts else {})

    def add(self, name: str, what: str, advice: str = "") -> None:
        self.problems.append(SettingProblem(name, what, self.where.get(name, ""), advice))

    def resolve_references(self) -> None:
        """Replace references to config providers by their values."""
        for name, what in self.providers.problems.items():
            self.add(name, f"{name}: {what}")
        for name in plain_secrets(self.texts):
            self.add(name, f"{name} is a secret in plain text", HOW_TO_KEEP_SECRETS)
        if WEBHOOK_SECRET in self.texts and not has_reference(self.texts[WEBHOOK_SECRET]):
            self.add(WEBHOOK_SECRET, f"{WEBHOOK_SECRET} is a secret in plain text", HOW_TO_WRITE_REFERENCES)
        for name, text in self.texts.items():
            if name.startswith("config.providers") or not has_reference(text):
                continue
            self.warnings += [
                f"{name} refers to provider {provider!r}, which config.providers does not name; its text is unchanged"
                for provider in self.providers.unnamed(text)
            ]
            try:
                self.texts[name] = self.providers.resolve(text)
            except UnresolvedReference as error:
                self.add(name, f"{name}: {error}", "add it there, or write the value itself")

    def parse_each(self) -> None:
        for name in list(self.texts):
            if name in WORKER_CONFIG_DEF:
                self._parse(name)
            elif self._family_of(name) is None:
                self._unknown(name)
        for name in WORKER_CONFIG_DEF:
            if WORKER_CONFIG_DEF[name].required and name not in self.texts:
                self.add(name, f'Missing required configuration "{name}" which has no default value.')

    def _parse(self, name: str) -> None:
        """Store the setting's value in ``values``, or report why it is invalid."""
        key = WORKER_CONFIG_DEF[name]
        text = self.texts[name]
        try:
            # The plugin registry checks whether the converter exists, because it also knows short names.
            value = text.strip() if name in _CONVERTERS else key.parse(text)
        except ConfigException as error:
            allowed = f"allowed: {key.validator}" if key.validator is not None and str(key.validator) else ""
            self.add(name, str(error), allowed)
            return
        support = WORKER_CONFIG_DEF[name].support
        if support.state is SupportState.REFUSED and value != key.default:
            if not any(value == key.parse(allowed_text) for allowed_text in support.also_allowed):
                default = f"its default ({key.default_text})" if key.default_text else "no value"
                shown = "[hidden]" if key.sensitive else text
                self.add(
                    name,
                    f"Invalid value {shown} for configuration {name}: {support.reason}",
                    f"remove it; the allowed values are {' and '.join([default, *filter(None, support.also_allowed)])}",
                )
                return
        if support.state is SupportState.NO_EFFECT and value != key.default:
            self.warnings.append(f"{name} has no effect here. {support.reason}")
        self.values[name] = value

    def _family_of(self, name: str) -> str | None:
        """Return the family of a setting that the table lacks, or None if unknown. Warn of settings without effect."""
        for family in _TLS_FAMILIES:
            if name.startswith(family):
                self._tls_setting(name, name.removeprefix(family))
                return family
        for family in _TOPIC_FAMILIES:
            if name.startswith(family) and name not in REMOVED_WORKER_SETTINGS:
                if name.removeprefix(family) in _FIXED_TOPIC_SETTINGS:
                    self.warnings.append(f"{name} is ignored: this topic is always compacted")
                return family
        for family in _CLIENT_FAMILIES:
            if name.startswith(family):
                if not is_client_property(name.removeprefix(family)):
                    self.warnings.append(f"{name.removeprefix(family)}, in {name}, is not a known client setting")
                return family
        if is_client_property(name):
            if not name.startswith("config.providers"):
                self.warnings.append(f"{name} has no effect here; for clients of connectors write producer.{name}, ...")
            return name
        return next((family for family in _FREE_FAMILIES if name.startswith(family)), None)

    def _tls_setting(self, name: str, base: str) -> None:
        if base not in WORKER_CONFIG_DEF or not base.startswith("ssl."):
            self.add(
                name, f"{name}: no such setting exists for https", "the name after https. must be an ssl.* setting"
            )
            return
        try:
            value = WORKER_CONFIG_DEF[base].parse(self.texts[name])
        except ConfigException as error:
            self.add(name, f"{name}: {error}")
            return
        support = WORKER_CONFIG_DEF[base].support
        if support.state is SupportState.REFUSED and value != WORKER_CONFIG_DEF[base].default:
            self.add(name, f"{name}: {support.reason}", "remove it")

    def _unknown(self, name: str) -> None:
        if name in REMOVED_WORKER_SETTINGS:
            self.add(name, f"{name}: Kafka's workers no longer have this setting", REMOVED_WORKER_SETTINGS[name])
            return
        near = WORKER_CONFIG_DEF.nearest_name(name)
        self.add(
            name,
            f"{name}: no such setting exists",
            f"did you mean {near}?"
            if near
            else "remove it; settings for clients of connectors begin with producer., consumer. or admin.",
        )

    def check_rules(self) -> None:
        rules = WorkerRules(self.values, self.texts)
        rules.check()
        for name, what, advice in rules.problems:
            self.add(name, what, advice)
        self.values.update(rules.derived)
        if self.problems:
            return
        config = WorkerConfig(self.values, self.texts, providers=self.providers, warnings=(), source=None)
        self._warn_of_little_patience(config.session_timeout_ms, config.task_shutdown_graceful_timeout_ms)
        for properties in (config.client_properties, config.admin_properties):
            try:
                client_config(properties, source="the settings of the worker's clients")
            except InvalidClientConfig as error:
                self.problems += [SettingProblem("security.protocol", problem) for problem in error.problems]
                return

    def _warn_of_little_patience(self, session_ms: int, graceful_ms: int) -> None:
        left_ms = max(0, session_ms - graceful_ms)
        if left_ms < _PATIENCE_MS_MIN:
            self.warnings.append(
                f"session.timeout.ms ({session_ms}) less task.shutdown.graceful.timeout.ms ({graceful_ms}) leaves "
                f"{left_ms} ms: a worker without contact to the coordinator for this long stops its tasks, so that "
                f"no task runs twice. Let the settings differ by at least {_PATIENCE_MS_MIN} ms"
            )


def _listeners_of(values: Mapping[str, ConfigValue]) -> tuple[Listener, ...]:
    given = values.get("listeners")
    return parse_listeners("listeners", given if isinstance(given, list) else [])


def _admin_listeners_of(values: Mapping[str, ConfigValue]) -> tuple[Listener, ...] | None:
    given = values.get("admin.listeners")
    return parse_listeners("admin.listeners", given) if isinstance(given, list) else None
