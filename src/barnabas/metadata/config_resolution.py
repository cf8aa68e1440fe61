"""Resolves which value of a setting is in force, and its sources for describe calls.

The levels, highest precedence first: the resource's own override, the broker's dynamic settings, the dynamic default of
all brokers, the node's file, the built-in default. A topic or group setting falls back to broker settings of other
names, and some settings have several names (``log.retention.ms``, ``.minutes``, ``.hours``): setting one of them
dynamically hides the others, whatever their unit.

Everything here is a pure function of ``BrokerLevels`` and the overrides, so that broker and controller, and a node in a
test, return equal descriptions. Values are returned as text; those of secrets and unknown settings are never returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

from barnabas.common.broker_config import BROKER_CONFIG_DEF, broker_config_key, broker_synonyms, topic_defaults
from barnabas.common.config_codes import ConfigSource
from barnabas.common.config_def import READ_ONLY, ConfigException, ConfigType, ConfigValue, Setting, value_to_string
from barnabas.common.group_config import CLIENT_METRICS_CONFIG_DEF, GROUP_CONFIG_DEF, group_synonym
from barnabas.common.topic_config import TOPIC_CONFIG_DEF, TOPIC_SYNONYMS

__all__ = [
    "BrokerLevels",
    "ConfigEntry",
    "ConfigSource",
    "ConfigSynonym",
    "TopicDescriber",
    "describe_broker_configs",
    "describe_client_metrics_configs",
    "describe_default_broker_configs",
    "describe_group_configs",
    "describe_topic_configs",
    "effective_broker_values",
]


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    source: ConfigSource


class ConfigEntry(NamedTuple):
    """One setting of a described resource. ``type`` is 0 for a setting of unknown meaning."""

    name: str
    value: str | None
    source: ConfigSource
    type: int
    sensitive: bool
    read_only: bool
    synonyms: list[ConfigSynonym]
    """Every level with a value, highest precedence first; drop them unless the caller requested them."""


class BrokerLevels(NamedTuple):
    """The texts of each level of a broker's configuration, by setting name."""

    static: Mapping[str, str]
    cluster: Mapping[str, str] = {}
    """Set for all brokers (config resource BROKER with an empty name)."""
    broker: Mapping[str, str] = {}
    """Set for this broker."""

    def __repr__(self) -> str:
        return f"BrokerLevels(static={list(self.static)}, cluster={list(self.cluster)}, broker={list(self.broker)})"


_PRECEDENCE = (
    ("broker", ConfigSource.DYNAMIC_BROKER_CONFIG),
    ("cluster", ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG),
    ("static", ConfigSource.STATIC_BROKER_CONFIG),
)
_NO_LEVELS = BrokerLevels({})


def effective_broker_values(levels: BrokerLevels) -> dict[str, ConfigValue]:
    """Return the typed value of every broker setting that is set at some level.

    Stored values that do not parse are omitted, as a node drops them with an error in its log: a bad record must not
    prevent the start of a broker.
    """
    values: dict[str, ConfigValue] = {}
    for level in (levels.static, levels.cluster, levels.broker):
        overlay: dict[str, ConfigValue] = {}
        for name, text in level.items():
            key = broker_config_key(name)
            try:
                overlay[name] = text if key is None else key.parse(text)
            except ConfigException:
                continue
        for name in overlay:
            for synonym in broker_synonyms(name, match_listener=False):
                values.pop(synonym, None)
        values.update(overlay)
    return values


class TopicDescriber:
    """Describes topics of one broker; their common part is computed once for all topics of a request."""

    def __init__(self, levels: BrokerLevels = _NO_LEVELS) -> None:
        defaults = topic_defaults(effective_broker_values(levels))
        self._inherited: dict[str, ConfigEntry] = {}
        self._overridden: dict[tuple[str, str], ConfigEntry] = {}
        for name in TOPIC_CONFIG_DEF.visible_names:
            key = TOPIC_CONFIG_DEF[name]
            group = tuple(broker_name for broker_name, _ in TOPIC_SYNONYMS.get(name, ()))
            value = key.text_of(getattr(defaults, name.replace(".", "_")))
            synonyms = _level_synonyms(group[0], group, levels, sensitive=False) if group else []
            self._inherited[name] = _entry(key, value, ConfigSource.TOPIC_CONFIG, {}, synonyms)

    def describe(self, overrides: Mapping[str, str], names: Iterable[str] | None = None) -> list[ConfigEntry]:
        """Return the settings of a topic, sorted by name. ``names`` None or empty means all; unknown names are omitted.

        A stored value that does not parse is not in force, so the inherited one is described.
        """
        entries = self._inherited.copy()
        for name, text in overrides.items():
            if name in entries:
                entries[name] = self._overridden.get((name, text)) or self._override(name, text)
        wanted = set(names or ())
        return [entries[name] for name in entries if name in wanted] if wanted else list(entries.values())

    def _override(self, name: str, text: str) -> ConfigEntry:
        entry = self._overridden[name, text] = _overridden(self._inherited[name], text)
        return entry


def describe_topic_configs(
    overrides: Mapping[str, str], levels: BrokerLevels = _NO_LEVELS, *, names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """Use ``TopicDescriber`` for a single topic."""
    return TopicDescriber(levels).describe(overrides, names)


def describe_group_configs(
    overrides: Mapping[str, str], levels: BrokerLevels = _NO_LEVELS, *, names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """Return the settings of a group, sorted by name; a group need not exist to be described."""
    values = effective_broker_values(levels)

    def fallback(key: Setting) -> tuple[ConfigValue, list[ConfigSynonym]]:
        synonym = group_synonym(key.name)
        if synonym is None:
            return key.default, [_default_synonym(key)]
        value = values[synonym] if synonym in values else BROKER_CONFIG_DEF[synonym].default
        return value, _level_synonyms(synonym, (synonym,), levels, sensitive=False)

    keys = [GROUP_CONFIG_DEF[name] for name in _selected(GROUP_CONFIG_DEF.visible_names, names)]
    return [_overridable(key, overrides, ConfigSource.GROUP_CONFIG, fallback) for key in keys]


def describe_client_metrics_configs(
    overrides: Mapping[str, str], *, names: Iterable[str] | None = None
) -> list[ConfigEntry]:
    """Return the settings of a client-metrics subscription, sorted by name."""
    keys = [CLIENT_METRICS_CONFIG_DEF[name] for name in _selected(CLIENT_METRICS_CONFIG_DEF.visible_names, names)]
    source = ConfigSource.CLIENT_METRICS_CONFIG
    return [_overridable(key, overrides, source, lambda key: (key.default, [])) for key in keys]


def describe_broker_configs(levels: BrokerLevels, *, names: Iterable[str] | None = None) -> list[ConfigEntry]:
    """Return all settings of the answering broker, sorted by name, those of unknown meaning included."""
    values = effective_broker_values(levels)
    given = set(levels.static) | set(levels.cluster) | set(levels.broker)
    entries = []
    for name in _selected(sorted(given.union(BROKER_CONFIG_DEF.visible_names)), names):
        key = broker_config_key(name)
        value = values.get(name, None if key is None or key.name != name else key.default)
        entries.append(_broker_entry(name, key, value, levels))
    return entries


def describe_default_broker_configs(levels: BrokerLevels, *, names: Iterable[str] | None = None) -> list[ConfigEntry]:
    """Return only the settings for all brokers (config resource BROKER with an empty name)."""
    only = BrokerLevels({}, levels.cluster)
    values = effective_broker_values(only)
    entries = []
    for name in _selected(sorted(levels.cluster), names):
        entry = _broker_entry(name, broker_config_key(name), values.get(name), only)
        source = ConfigSource.DYNAMIC_DEFAULT_BROKER_CONFIG
        entries.append(entry._replace(synonyms=[synonym for synonym in entry.synonyms if synonym.source is source]))
    return entries


def _broker_entry(name: str, key: Setting | None, value: ConfigValue, levels: BrokerLevels) -> ConfigEntry:
    sensitive = key is None or key.sensitive
    synonyms = _level_synonyms(name, broker_synonyms(name), levels, sensitive=sensitive)
    return ConfigEntry(
        name=name,
        value=None if key is None or sensitive else value_to_string(key.type, value),
        source=synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG,
        type=0 if key is None else int(key.type),
        sensitive=sensitive,
        read_only=key is None or key.update_mode == READ_ONLY,
        synonyms=synonyms,
    )


def _level_synonyms(
    primary: str, group: Sequence[str], levels: BrokerLevels, *, sensitive: bool
) -> list[ConfigSynonym]:
    """Return the values of each level under each name of the group.

    Values above the first one of ``primary`` itself are omitted, as in Kafka. This hides a listener's setting from
    the description of the base setting, and a retention that is set only in hours appears as the default.
    """
    found: list[ConfigSynonym] = []
    for level, source in _PRECEDENCE:
        texts: Mapping[str, str] = getattr(levels, level)
        given = (name for name in group if name in texts)
        found.extend(ConfigSynonym(name, None if sensitive else texts[name], source) for name in given)
    for name in group:
        key = BROKER_CONFIG_DEF.get(name)
        if key is not None and key.default is not None and not key.required:
            found.append(_default_synonym(key))
    first = next((at for at, synonym in enumerate(found) if synonym.name == primary), len(found))
    return found[first:]


def _overridable(
    key: Setting,
    overrides: Mapping[str, str],
    own: ConfigSource,
    fallback: Callable[[Setting], tuple[ConfigValue, list[ConfigSynonym]]],
) -> ConfigEntry:
    value, synonyms = fallback(key)
    if key.name in overrides:
        try:
            value = key.parse(overrides[key.name])
        except ConfigException:
            overrides = {}
    return _entry(key, key.text_of(value), own, overrides, synonyms)


def _entry(
    key: Setting, value: str | None, own: ConfigSource, overrides: Mapping[str, str], below: list[ConfigSynonym]
) -> ConfigEntry:
    synonyms = [ConfigSynonym(key.name, value, own), *below] if key.name in overrides else below
    source = synonyms[0].source if synonyms else ConfigSource.DEFAULT_CONFIG
    return ConfigEntry(key.name, value, source, int(key.type), False, False, synonyms)


def _overridden(inherited: ConfigEntry, text: str) -> ConfigEntry:
    key = TOPIC_CONFIG_DEF[inherited.name]
    try:
        value = key.text_of(key.parse(text))
    except ConfigException:
        return inherited
    own = ConfigSynonym(key.name, value, ConfigSource.TOPIC_CONFIG)
    return inherited._replace(value=value, source=own.source, synonyms=[own, *inherited.synonyms])


def _default_synonym(key: Setting) -> ConfigSynonym:
    value = None if key.type is ConfigType.PASSWORD else key.text_of(key.default)
    return ConfigSynonym(key.name, value, ConfigSource.DEFAULT_CONFIG)


def _selected(known: Sequence[str], names: Iterable[str] | None) -> Sequence[str]:
    wanted = set(names or ())
    return [name for name in known if name in wanted] if wanted else known
