"""Validate the settings of a connector, for ``/connector-plugins/{class}/config/validate``.

The order of checks, the errors and their count are Kafka's. An unparsable setting is then validated as null, so it may
have two errors; errors of client overrides and of converters' own settings count once for a setting. Beyond Kafka,
these are errors here instead of in the task: a reference without a value at its provider, an undefined predicate, topic
creation that would fail, and a misspelt setting of barnabas's own.

A reference to a config provider is checked with its value and shown as it was written, so that no secret is exposed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import msgspec

from barnabas.common.config_def import missing
from barnabas.common.config_providers import ConfigProviders, UnresolvedReference, has_reference
from barnabas.common.config_validators import ValidString
from barnabas.connect.decide.autoscaling.autoscale_settings import autoscale_problems
from barnabas.connect.decide.registry.plugin import Plugin, PluginType
from barnabas.connect.decide.registry.plugin_registry import PluginRegistry, VersionNotFound
from barnabas.connect.decide.tasks.task_runtime import StartChecks
from barnabas.connect.decide.validation.client_overrides import PREFIXES, ClientOverrides
from barnabas.connect.decide.validation.connector_config import (
    COMMON_CONFIG,
    OWN_CONFIG,
    SINK_CONFIG,
    SOURCE_CONFIG,
    key_info,
)
from barnabas.connect.decide.validation.connector_rules import check_aliases, check_sink, check_source
from barnabas.connect.decide.validation.converters_config import CONVERTER_TYPE
from barnabas.connect.decide.validation.plugin_keys import PluginKey, Versions, alias_keys, plugin_keys
from barnabas.connect.decide.validation.topic_creation_keys import topic_creation_keys
from barnabas.connect.entities import ConfigInfo, ConfigInfos, ConfigValueInfo
from barnabas.connect.errors import BadRequest, ConnectError
from barnabas.connect.settings.plain_secrets import HOW_TO_KEEP_SECRETS, plain_secrets
from barnabas.connect.settings.plugin_config_def import ConfigDef, ConfigException, ConfigKey, ConfigValue

__all__ = ["ConnectorValidation", "SettingState", "ValidationDefaults", "validate_all"]

log = logging.getLogger(__name__)

_MUST_BE_REFERENCE = (
    "is a secret, and settings are stored in a topic: write a reference such as ${file:/etc/secrets.properties:token}, "
    "with config.providers in the worker's settings"
)

_CONVERTER_TYPES = {
    "key": (PluginType.CONVERTER,),
    "value": (PluginType.CONVERTER,),
    "header": (PluginType.HEADER_CONVERTER,),
}


@dataclass(slots=True)
class SettingState:
    """The state of one setting during validation."""

    name: str
    value: ConfigValue = None
    errors: list[str] = field(default_factory=list)
    recommended: list[ConfigValue] = field(default_factory=list)
    is_visible: bool = True


@dataclass(frozen=True, slots=True)
class ValidationDefaults:
    """What a connector gets from its worker. Converters by any of their names."""

    group_id: str
    converters: Mapping[str, str]
    """The converters of ``key``, ``value`` and ``header``."""
    overrides: ClientOverrides = field(default_factory=lambda: ClientOverrides("All"))
    is_topic_creation_enabled: bool = True
    is_exactly_once_enabled: bool = False


def validate_all(
    config_def: ConfigDef, config: Mapping[str, str | None], unresolved: Mapping[str, str] | None = None
) -> dict[str, SettingState]:
    """Every setting of the definition. ``unresolved`` has the error of those whose reference has no value."""
    states: dict[str, SettingState] = {}
    for key in config_def:
        state = states[key.name] = SettingState(key.name)
        if unresolved is not None and key.name in unresolved:
            state.errors.append(unresolved[key.name])
            continue
        try:
            if key.name in config:
                state.value = key.parse_type(config[key.name])
            elif key.required:
                raise missing(key.name)
            else:
                state.value = key.default
        except ConfigException as error:
            state.errors.append(str(error))
        if key.name not in config and not key.required:
            continue
        try:
            key.check(state.value)
        except ConfigException as error:
            state.errors.append(str(error))
    values = {name: state.value for name, state in states.items()}
    for key in config_def:
        if key.recommender is not None:
            state = states[key.name]
            try:
                state.recommended = list(key.recommender.valid_values(key.name, values))
                state.is_visible = key.recommender.visible(key.name, values)
            except ConfigException as error:
                state.errors.append(str(error))
    return states


def _offer_choices(config_def: ConfigDef, states: Mapping[str, SettingState]) -> None:
    """Recommend the allowed strings of settings that have no recommender. Kafka recommends none for its own settings,
    so this is for those of connectors."""
    for key in config_def:
        if key.recommender is None and isinstance(key.validator, ValidString):
            states[key.name].recommended = list(key.validator.allowed)


class ConnectorValidation:
    """Validates connectors for one worker."""

    def __init__(
        self,
        registry: PluginRegistry,
        defaults: ValidationDefaults,
        providers: ConfigProviders | None = None,
        start_checks: StartChecks | None = None,
    ) -> None:
        """``start_checks`` are those of the task runtime, for what would fail when a task starts."""
        self._start_checks = start_checks
        self._registry = registry
        self._defaults = defaults
        self._providers = providers or ConfigProviders({})
        self._converters = {
            kind: self._registry.find(name, *_CONVERTER_TYPES[kind]).name for kind, name in defaults.converters.items()
        }

    def validate(self, config: Mapping[str, str | None]) -> ConfigInfos:
        """Raises BadRequest for an unknown or ambiguous connector, and ConnectError for a plugin that fails. May take
        as long as the plugin takes."""
        name = config.get("connector.class")
        if not name or not name.strip():
            raise BadRequest(f"Connector config with {', '.join(config) or 'nothing'} contains no connector type")
        resolved, unresolved = self._resolved(config)
        run = _Run(self._registry, self._defaults, self._converters, resolved, unresolved, config, self._start_checks)
        return run.infos(name)

    def _resolved(self, config: Mapping[str, str | None]) -> tuple[dict[str, str | None], dict[str, str]]:
        values: dict[str, str | None] = dict(config)
        unresolved: dict[str, str] = {}
        for name, text in config.items():
            if text is None or not has_reference(text):
                continue
            try:
                values[name] = self._providers.resolve(text)
            except UnresolvedReference as error:
                unresolved[name] = f"Invalid value {text} for configuration {name}: {error}"
        return values, unresolved


class _Run:
    """One validation. ``config`` has references resolved, ``given`` is as it was written."""

    def __init__(
        self,
        registry: PluginRegistry,
        defaults: ValidationDefaults,
        converters: Mapping[str, str],
        config: Mapping[str, str | None],
        unresolved: Mapping[str, str],
        given: Mapping[str, str | None],
        start_checks: StartChecks | None = None,
    ) -> None:
        self._start_checks = start_checks
        self._registry = registry
        self._defaults = defaults
        self._converters = converters
        self._config = config
        self._unresolved = unresolved
        self._given = given

    def infos(self, shown_class: str) -> ConfigInfos:
        class_name, version = shown_class.strip(), self._config.get("connector.plugin.version")
        plugin = self._registry.connector(class_name)  # Any version, for its definition and for errors.
        keys = self._common_keys(plugin)
        states = validate_all(keys, self._config, self._unresolved)
        wrong_version = self._version_problem(class_name, version, states)
        extra: dict[str, SettingState] = {}
        if wrong_version is None:
            self._check_rules(plugin, states, extra)
            self._check_versions(keys, states)
        self._check_nulls_and_names(keys + plugin.config_def, states, extra)
        if wrong_version is None:
            own = validate_all(plugin.config_def, self._config, self._unresolved)
            _offer_choices(plugin.config_def, own)
            self._merge_nulls(own, extra)
            states = {**states, **own}
            keys = keys + plugin.config_def
            self._ask_connector(plugin, states, extra)
        infos = [ConfigInfo(None, self._value_info(None, state)) for state in extra.values()]
        infos += [
            ConfigInfo(key_info(key), self._value_info(key, states[key.name])) for key in keys if not key.internal
        ]
        count = sum(len(info.value.errors) for info in infos)
        beside = list(self._client_infos(plugin)) + list(self._converter_infos(states))
        count += sum(bool(info.value.errors) for info in beside)
        own_groups = [info.definition.group for info in beside if info.definition is not None and info.definition.group]
        everything, more = self._with_start_problems(infos + beside, is_usable=wrong_version is None)
        return ConfigInfos(shown_class, count + more, list(dict.fromkeys(keys.groups + own_groups)), everything)

    def _with_start_problems(self, infos: list[ConfigInfo], *, is_usable: bool) -> tuple[list[ConfigInfo], int]:
        """Add what would fail when a task starts, where no error is known yet. Return how many errors these are."""
        problems = dict(self._start_problems()) if is_usable else {}
        refused = {info.value.name for info in infos if info.value.errors}
        problems = {name: errors for name, errors in problems.items() if name not in refused}
        found = []
        for info in infos:
            errors = problems.pop(info.value.name, None)
            found.append(info if errors is None else self._with_errors(info, errors))
        for name, errors in problems.items():
            found.append(
                ConfigInfo(None, self._value_info(None, SettingState(name, self._config.get(name), list(errors))))
            )
        return found, sum(len(info.value.errors) for info in found) - sum(len(info.value.errors) for info in infos)

    def _start_problems(self) -> Mapping[str, Sequence[str]]:
        if self._start_checks is None:
            return {}
        config = {name: text for name, text in self._config.items() if text is not None}
        try:
            return self._start_checks.setting_problems(self._registry.with_full_names(config))
        except Exception:  # A plugin may raise anything, and Spark may be missing: its tasks report that.
            log.debug("the settings could not be checked as at the start of a task", exc_info=True)
            return {}

    def _with_errors(self, info: ConfigInfo, errors: Sequence[str]) -> ConfigInfo:
        shown = [self._without_secret(info.value.name, error) for error in errors]
        return msgspec.structs.replace(info, value=msgspec.structs.replace(info.value, errors=shown))

    # --- the definition ---

    def _common_keys(self, plugin: Plugin) -> ConfigDef:
        versions = self._registry.versions(plugin.name, plugin.type)
        version_key = replace(
            COMMON_CONFIG["connector.plugin.version"],
            default=versions[-1] if versions else None,
            recommender=Versions("connector.class", lambda _: versions),
        )
        keys = COMMON_CONFIG + ConfigDef([version_key])
        for kind, default in self._converters.items():
            name = f"{kind}.converter"
            pair = (replace(COMMON_CONFIG[name], default=default), COMMON_CONFIG[f"{name}.plugin.version"])
            keys += ConfigDef(
                plugin_keys(
                    self._registry,
                    _CONVERTER_TYPES[kind],
                    pair,
                    self._config.get(name),
                    is_version_always_visible=False,
                )
            )
        keys += SINK_CONFIG if plugin.type is PluginType.SINK else SOURCE_CONFIG
        if plugin.type is PluginType.SOURCE and self._defaults.is_topic_creation_enabled:
            keys += ConfigDef(topic_creation_keys(self._config))
        keys += ConfigDef(alias_keys(self._registry, self._config))
        return keys + ConfigDef([key for key in OWN_CONFIG if key.name in self._config])

    def _version_problem(
        self, class_name: str, version: str | None, states: Mapping[str, SettingState]
    ) -> VersionNotFound | None:
        try:
            self._registry.connector(class_name, version)
        except VersionNotFound as error:
            states["connector.class"].errors.append(str(error))
            states["connector.plugin.version"].errors.append(str(error))
            states["connector.plugin.version"].recommended = list(error.versions)
            return error
        except BadRequest:
            pass  # It is not a range, which its validator has reported.
        return None

    # --- rules between settings ---

    def _check_rules(self, plugin: Plugin, states: dict[str, SettingState], extra: dict[str, SettingState]) -> None:
        def add(name: str, error: str, value: ConfigValue = None) -> None:
            state = states.get(name)
            if state is None:
                state = extra.setdefault(name, SettingState(name, value))
            state.errors.append(error)

        values = {name: state.value for name, state in states.items() if not state.errors}
        if plugin.type is PluginType.SINK:
            check_sink(self._config, values, self._defaults.group_id, add)
        else:
            is_enabled = self._defaults.is_exactly_once_enabled
            check_source(self._config, values, plugin.target, add, is_exactly_once_enabled=is_enabled)
        for name, error in autoscale_problems(plugin.target, self._config):
            add(name, error, self._config.get(name))
        check_aliases(self._config, values, add)
        for name in plain_secrets(self._given):
            add(name, f"{name} is a secret in plain text: {HOW_TO_KEEP_SECRETS}.")

    def _check_versions(self, keys: ConfigDef, states: Mapping[str, SettingState]) -> None:
        """A version that the named plugin does not have."""
        for key in keys:
            if not isinstance(key.recommender, Versions) or key.name == "connector.plugin.version":
                continue
            named, state = states[key.recommender.of], states[key.name]
            if named.errors or state.errors or named.value is None or key.name not in self._config:
                continue
            of = keys[named.name]
            types = of.plugin_types if isinstance(of, PluginKey) else ()
            try:
                self._registry.find(str(named.value), *types, version=self._config[key.name])
            except BadRequest as error:
                state.errors.append(str(error))

    def _check_nulls_and_names(
        self, keys: ConfigDef, states: Mapping[str, SettingState], extra: dict[str, SettingState]
    ) -> None:
        for name, text in self._config.items():
            if text is None:
                state = states.get(name) or extra.setdefault(name, SettingState(name))
                state.errors.append("Null value can not be supplied as the configuration value.")
            elif name.startswith("barnabas.") and name not in keys:
                known = ", ".join(key.name for key in OWN_CONFIG)
                extra.setdefault(name, SettingState(name, text)).errors.append(
                    f"Invalid value {text} for configuration {name}: no such setting exists; known: {known}"
                )
            elif name in self._unresolved and name not in keys and not name.startswith(tuple(PREFIXES.values())):
                extra.setdefault(name, SettingState(name, text)).errors.append(self._unresolved[name])

    @staticmethod
    def _merge_nulls(own: dict[str, SettingState], extra: dict[str, SettingState]) -> None:
        """A null found before the connector's own settings were checked is an error of theirs."""
        for name in [name for name in extra if name in own]:
            own[name].errors += extra.pop(name).errors

    def _ask_connector(self, plugin: Plugin, states: dict[str, SettingState], extra: dict[str, SettingState]) -> None:
        config = {name: text for name, text in self._config.items() if text is not None}
        settings = {key.name: states[key.name].value for key in plugin.config_def if not states[key.name].errors}
        try:
            found = plugin.target.validate(config, settings)
        except Exception as error:  # A plugin may raise anything.
            raise ConnectError(f"{plugin.name} failed to validate: {type(error).__name__}: {error}") from error
        for name in sorted(plugin.target.reference_settings):
            given = self._given.get(name)
            if given and not has_reference(given) and name in states:
                states[name].errors.append(f"{name} {_MUST_BE_REFERENCE}")
        for name, errors in found.items():
            state = states.get(name) or extra.setdefault(name, SettingState(name, config.get(name)))
            state.errors += [str(error) for error in errors]

    # --- settings besides the connector's own ---

    def _client_infos(self, plugin: Plugin) -> Iterable[ConfigInfo]:
        is_source = plugin.type is PluginType.SOURCE
        has_dead_letters = bool(self._config.get("errors.deadletterqueue.topic.name"))
        used = {
            "producer": is_source or has_dead_letters,
            "consumer": not is_source or bool(self._config.get("offsets.storage.topic")),
            "admin": is_source or has_dead_letters,
        }
        for kind, is_used in used.items():
            if is_used:
                yield from map(self._without_secrets, self._defaults.overrides.infos(kind, self._config))

    def _converter_infos(self, states: Mapping[str, SettingState]) -> Iterable[ConfigInfo]:
        """The settings of converters that the connector itself names."""
        for kind, types in _CONVERTER_TYPES.items():
            name = f"{kind}.converter"
            if name not in self._config or states[name].errors or states[f"{name}.plugin.version"].errors:
                continue
            config_def = self._registry.find(str(states[name].value), *types).config_def
            prefix = f"{name}."
            own = {
                setting.removeprefix(prefix): text
                for setting, text in self._config.items()
                if setting.startswith(prefix)
            }
            checked = validate_all(config_def, {CONVERTER_TYPE: kind, **own})
            for key in config_def:
                state = checked[key.name]
                state.name = prefix + key.name
                if state.name in self._unresolved:
                    state.errors = [self._unresolved[state.name]]
                yield ConfigInfo(key_info(replace(key, name=state.name)), self._value_info(key, state))

    # --- what is shown ---

    def _value_info(self, key: ConfigKey | None, state: SettingState) -> ConfigValueInfo:
        text_of: Callable[[object], str | None] = key.text_of if key is not None else _text
        given = self._given.get(state.name)
        shown = given if given is not None and has_reference(given) else text_of(state.value)
        errors = [self._without_secret(state.name, text) for text in state.errors]
        recommended: Sequence[ConfigValue] = state.recommended
        return ConfigValueInfo(state.name, shown, [text_of(value) for value in recommended], errors, state.is_visible)

    def _without_secrets(self, info: ConfigInfo) -> ConfigInfo:
        name = info.value.name
        given = self._given.get(name)
        if given is None or not has_reference(given):
            return info
        errors = [self._without_secret(name, text) for text in info.value.errors]
        if name in self._unresolved:
            errors = [*errors, self._unresolved[name]]
        return ConfigInfo(info.definition, ConfigValueInfo(name, given, [], errors, info.value.visible))

    def _without_secret(self, name: str, error: str) -> str:
        """An error that quotes a value quotes the reference instead."""
        given, value = self._given.get(name), self._config.get(name)
        if given is None or value is None or given == value or not value:
            return error
        return error.replace(value, given)


def _text(value: ConfigValue) -> str | None:
    return None if value is None else str(value)
