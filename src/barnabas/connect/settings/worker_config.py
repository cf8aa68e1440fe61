"""The settings of a worker from ``connect-distributed.properties`` and ``--override``, checked as a whole.

``load_worker_config`` returns a WorkerConfig or raises InvalidWorkerConfig with *every* unusable setting. A setting
that only Kafka's worker supports is refused by its name. Unknown names are refused too: ignoring a misspelt name costs
more than a failed start. Settings for Java alone, in a file that both kinds of worker share (``plugin.path``), lead to
a warning.

Besides the settings of the table there are families: ``producer.``, ``consumer.`` and ``admin.`` for the clients of
connectors, ``config.storage.``, ``offset.storage.`` and ``status.storage.`` for the worker's topics, ``key.converter.``
and its like for converters, ``listeners.https.`` and ``admin.listeners.https.`` for TLS of the REST API,
``config.providers.``, ``metrics.context.`` and ``barnabas.connect.spark.conf.`` for the session.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from barnabas.clients.client_config import client_config, is_client_property
from barnabas.clients.errors import InvalidClientConfig
from barnabas.common.config_def import ConfigException, ConfigValue
from barnabas.common.config_providers import ConfigProviders, UnresolvedReference, has_reference
from barnabas.common.properties_file import MalformedProperties, read_properties_file
from barnabas.common.settings.problem import InvalidSettings, SettingProblem
from barnabas.common.settings.setting import SupportState
from barnabas.connect.settings.listener_urls import Listener, advertised_listener, parse_listeners, worker_url
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
# What a topic of the worker's can't be given: it follows from what the topic is for.
_FIXED_TOPIC_SETTINGS = ("topic", "partitions", "replication.factor", "cleanup.policy")
_PATIENCE_MS_MIN = 3_000
"""Three heartbeats: a single late one must not stop work."""
_CONVERTERS = ("key.converter", "value.converter", "header.converter")
_SECRET_WORDS = ("password", "secret", "jaas", "token", "credential", "key", "passphrase", "certificate")


class InvalidWorkerConfig(InvalidSettings):
    """A worker cannot start with these settings."""


class WorkerConfig(WorkerSettings):
    """A worker's settings, typed. ``value`` gives any setting of the table; the rest follows from several."""

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
        """The typed value of every setting of the table that was given."""
        self.texts = texts
        """The text of every setting that was given, with references resolved: not to be shown."""
        self.providers = providers
        """Those that ``config.providers`` names: they resolve what connectors refer to as well."""
        self.warnings = list(warnings)
        """Messages to the operator for the log, one a line."""
        self.source = source
        self.listeners = _listeners_of(values)
        self.admin_listeners = _admin_listeners_of(values)
        """None: /admin is served with the rest. Empty: nowhere."""

    def value(self, name: str) -> ConfigValue:
        """The typed value of any setting of the table: the one given, else its default."""
        return self.values[name] if name in self.values else WORKER_CONFIG_DEF[name].default

    def with_prefix(self, prefix: str) -> dict[str, str]:
        """The texts of a family, without the prefix."""
        return {name.removeprefix(prefix): text for name, text in self.texts.items() if name.startswith(prefix)}

    @property
    def client_properties(self) -> dict[str, str]:
        """For the worker's own clients: the group, the internal topics."""
        return {"request.timeout.ms": WORKER_CONFIG_DEF["request.timeout.ms"].default_text or ""} | {
            name: text
            for name, text in self.texts.items()
            if is_client_property(name)
            and not name.startswith(("config.providers", "group.", "session."))
            and (name not in WORKER_CONFIG_DEF or WORKER_CONFIG_DEF[name].support.state is SupportState.WORKS)
        }

    @property
    def admin_properties(self) -> dict[str, str]:
        """For admin clients of connectors: the worker's own properties, and ``admin.`` on top."""
        own = {name: text for name, text in self.with_prefix("admin.").items() if not name.startswith("listeners")}
        return self.client_properties | own

    def advertised_url(self, host_name: str, bound_ports: Mapping[Listener, int] | None = None) -> str:
        """The URL of this worker for other workers, with a slash at the end.

        ``host_name`` is this machine's, for listeners on every interface; ``bound_ports`` has the ports chosen for 0.
        """
        listener = advertised_listener(self.listeners, self.rest_advertised_listener)
        bound = (bound_ports or {}).get(listener, listener.port)
        every = listener.host in ("", "0.0.0.0", "::")
        host = self.rest_advertised_host_name or (host_name if every else listener.host)
        return worker_url(
            listener.scheme, host, bound if self.rest_advertised_port is None else self.rest_advertised_port
        )


def load_worker_config(path: str, overrides: Sequence[str] = ()) -> WorkerConfig:
    """Read the file, put ``key=value`` overrides on top, and check everything.

    Raises InvalidWorkerConfig, or OSError when the file can't be read.
    """
    try:
        properties = read_properties_file(path)
    except MalformedProperties as error:
        raise InvalidWorkerConfig([SettingProblem(path, f"{path}: {error}")]) from None
    texts = dict(properties.values)
    where = {name: f"{path} line {properties.lines[name]}" for name in texts}
    problems: list[SettingProblem] = []
    for override in overrides:
        name, equals, text = override.partition("=")
        if not equals or not name.strip():
            shown = name if equals else "--override"  # A text without a name may be a secret.
            problems.append(SettingProblem(shown, f"{shown}: is not of the form key=value", "--override"))
            continue
        texts[name.strip()] = text.strip()
        where[name.strip()] = "--override"
    warnings = [f"{path}: {warning}" for warning in properties.warnings]
    return worker_config_of(texts, where=where, source=path, warnings=warnings, problems=problems)


def worker_config_of(
    given: Mapping[str, str],
    *,
    where: Mapping[str, str] | None = None,
    source: str | None = None,
    warnings: Sequence[str] = (),
    problems: Sequence[SettingProblem] = (),
) -> WorkerConfig:
    """Check settings that were read already. Raises InvalidWorkerConfig with all that is wrong."""
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
    """The settings on their way to a WorkerConfig."""

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
        """Put what config providers give in the place of references to them."""
        for name, what in self.providers.problems.items():
            self.add(name, f"{name}: {what}")
        for name, text in self.texts.items():
            if name.startswith("config.providers") or not has_reference(text):
                continue
            self.warnings += [
                f"{name} refers to a provider {provider!r} that config.providers does not name, and is taken as it is"
                for provider in self.providers.unnamed(text)
            ]
            try:
                self.texts[name] = self.providers.resolve(text)
            except UnresolvedReference as error:
                self.add(name, f"{name}: {error}", "put it there, or write the value itself")

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
        """Put the setting's value into ``values``, or say what is wrong with it."""
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
                    f"remove it; allowed is {' or '.join([default, *filter(None, support.also_allowed)])}",
                )
                return
        if support.state is SupportState.NO_EFFECT and value != key.default:
            self.warnings.append(f"{name} has no effect here. {support.reason}")
        self.values[name] = value

    def _family_of(self, name: str) -> str | None:
        """The family that a setting beside the table is of; what is odd about it becomes a warning."""
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
                name, f"{name}: no such setting exists for https", "the rest after https. must be a setting of ssl.*"
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
                f"{left_ms} ms: a worker that has not heard of the coordinator for so long stops its tasks, so that "
                f"nothing has two owners. Let them differ by {_PATIENCE_MS_MIN} ms or more"
            )


def _listeners_of(values: Mapping[str, ConfigValue]) -> tuple[Listener, ...]:
    given = values.get("listeners")
    return parse_listeners("listeners", given if isinstance(given, list) else [])


def _admin_listeners_of(values: Mapping[str, ConfigValue]) -> tuple[Listener, ...] | None:
    given = values.get("admin.listeners")
    return parse_listeners("admin.listeners", given) if isinstance(given, list) else None
