"""The resolved values of a topic's settings, and the rules between them.

A topic setting without an override takes its broker's value, whose name often differs and sometimes exists in several
units (``retention.ms`` from ``log.retention.ms``, ``.minutes`` or ``.hours``): see ``TOPIC_SYNONYMS``.
The log layer works with ``TopicConfig``: every value is typed and present.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from barnabas.common.config_def import ConfigDef, ConfigException, ConfigStateException, ConfigValue, raise_together
from barnabas.common.settings.topic_settings import TOPIC_SYNONYMS, TopicSettings

__all__ = ["TOPIC_CONFIG_DEF", "TOPIC_SYNONYMS", "TopicConfig", "UnknownTopicConfig", "validate_topic_config"]

_AS_TOTAL: Final = -2  # A local retention that is the same as the whole one.

TOPIC_CONFIG_DEF = ConfigDef(TopicSettings)

# The settings that some rule combines with others; overrides without any of them can't conflict.
_COMBINED = frozenset(
    {
        "cleanup.policy",
        "local.retention.bytes",
        "local.retention.ms",
        "max.compaction.lag.ms",
        "min.compaction.lag.ms",
        "remote.log.copy.disable",
        "remote.log.delete.on.disable",
        "remote.storage.enable",
        "retention.bytes",
        "retention.ms",
    }
)


class UnknownTopicConfig(ConfigStateException):
    """A name that no topic setting has."""

    def __init__(self, name: str) -> None:
        super().__init__(name, None, f"Unknown topic config name: {name}{TOPIC_CONFIG_DEF.hint(name)}")


class TopicConfig(TopicSettings):
    """Every setting of one topic, typed, with broker defaults where the topic has no override of its own.

    All topics without overrides share it, so it never changes after its creation.
    """

    __slots__ = tuple(name.replace(".", "_") for name in TOPIC_CONFIG_DEF)

    def __init__(self, values: Mapping[str, ConfigValue] | None = None) -> None:
        """``values`` has typed values by setting name; missing ones take the built-in default."""
        values = values or {}
        for name in TOPIC_CONFIG_DEF:
            value = values[name] if name in values else TOPIC_CONFIG_DEF[name].default
            object.__setattr__(self, name.replace(".", "_"), value)

    def with_overrides(self, overrides: Mapping[str, str]) -> TopicConfig:
        """Return this config with a topic's own settings applied.

        Unknown names (a foreign controller may know more) and values that do not parse are omitted: committed configs
        must be loadable, and they were validated before their commit.
        """
        changed: dict[str, ConfigValue] = {}
        for name, text in overrides.items():
            key = TOPIC_CONFIG_DEF.get(name)
            if key is None:
                continue
            try:
                changed[name] = key.parse(text)
            except ConfigException:
                continue
        if not changed:
            return self
        config = object.__new__(TopicConfig)
        for attribute in TopicConfig.__slots__:
            object.__setattr__(config, attribute, getattr(self, attribute))
        for name, value in changed.items():
            object.__setattr__(config, name.replace(".", "_"), value)
        return config

    @property
    def compact(self) -> bool:
        return "compact" in self.cleanup_policy

    @property
    def delete(self) -> bool:
        return "delete" in self.cleanup_policy

    @property
    def segment_size(self) -> int:
        """The size at which a segment is rolled: tests and metadata logs may set one below the public minimum."""
        return self.segment_bytes if self.internal_segment_bytes is None else self.internal_segment_bytes

    @property
    def log_append_time(self) -> bool:
        return self.message_timestamp_type == "LogAppendTime"

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"TopicConfig is shared and can't be changed: {name}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TopicConfig) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]


def validate_topic_config(
    configs: Mapping[str, object],
    *,
    previous: Mapping[str, object] | None = None,
    defaults: Mapping[str, object] | None = None,
    remote_storage_system_enabled: bool = False,
) -> None:
    """Raise ConfigException unless ``configs`` is an allowed set of overrides for one topic.

    With ``defaults`` (the values of a topic without overrides on this node) the rules between remote storage settings
    are checked too, as the controller does; without, only names, values and compaction lags.
    """
    values, problems = TOPIC_CONFIG_DEF.parse_given(configs)
    raise_together([UnknownTopicConfig(name) for name in configs if name not in TOPIC_CONFIG_DEF] + problems)
    # A setting absent from the overrides may have been removed: that is a change too.
    if not _COMBINED.isdisjoint(values) or "remote.storage.enable" in (previous or {}):
        complete = _Complete(values, defaults or {})
        _validate_compaction_lags(complete)
        if defaults:
            _validate_remote_storage(complete, previous or {}, remote_storage_system_enabled)


class _Complete:
    """Overrides with their defaults, resolved only for the settings that a rule reads."""

    def __init__(self, overrides: Mapping[str, ConfigValue], defaults: Mapping[str, object]) -> None:
        self._overrides = overrides
        self._defaults = defaults

    def __getitem__(self, name: str) -> ConfigValue:
        if name in self._overrides:
            return self._overrides[name]
        key = TOPIC_CONFIG_DEF[name]
        return key.parse(self._defaults[name]) if name in self._defaults else key.default


def _validate_compaction_lags(values: _Complete) -> None:
    least, most = _integer(values, "min.compaction.lag.ms"), _integer(values, "max.compaction.lag.ms")
    if least > most:
        raise ConfigStateException(
            "min.compaction.lag.ms",
            least,
            f"conflict topic config setting min.compaction.lag.ms ({least}) > max.compaction.lag.ms ({most})",
        )


def _validate_remote_storage(values: _Complete, previous: Mapping[str, object], system_enabled: bool) -> None:
    was_enabled = str(previous.get("remote.storage.enable", "false")).strip().lower() == "true"
    if not values["remote.storage.enable"]:
        if was_enabled and not values["remote.log.delete.on.disable"]:
            raise ConfigStateException(
                "remote.storage.enable",
                False,
                "It is invalid to disable remote storage without deleting remote data: "
                "set remote.log.copy.disable=true to keep it, or remote.log.delete.on.disable=true to delete it.",
            )
        return
    if not system_enabled:
        raise ConfigStateException(
            "remote.storage.enable", True, "Tiered Storage functionality is disabled in the broker. "
            "Topic cannot be configured with remote log storage."
        )  # fmt: skip
    if values["cleanup.policy"] not in ([], ["delete"]):
        raise ConfigStateException(
            "cleanup.policy", values["cleanup.policy"],
            "Remote log storage only supports topics with cleanup.policy=delete or cleanup.policy being an empty list.",
        )  # fmt: skip
    for unit in ("bytes", "ms"):
        _validate_local_retention(values, unit)
    if values["remote.log.copy.disable"]:
        for unit in ("bytes", "ms"):
            _validate_nothing_is_left_behind(values, unit)


def _validate_local_retention(values: _Complete, unit: str) -> None:
    name = f"local.retention.{unit}"
    local, total = _integer(values, name), _integer(values, f"retention.{unit}")
    if total <= -1 or local == _AS_TOTAL:
        return
    if local == -1:
        raise ConfigException(name, local, f"Value must not be -1 as retention.{unit} value is set as {total}.")
    if local > total:
        raise ConfigException(name, local, f"Value must not be more than retention.{unit} property value: {total}")


def _validate_nothing_is_left_behind(values: _Complete, unit: str) -> None:
    """Once copying has ended, local retention must not delete data before its time."""
    name = f"local.retention.{unit}"
    local, total = _integer(values, name), _integer(values, f"retention.{unit}")
    if local not in (_AS_TOTAL, total):
        raise ConfigException(
            name, local, f"With remote.log.copy.disable=true {name} must equal retention.{unit} (or be {_AS_TOTAL})"
        )


def _integer(values: _Complete, name: str) -> int:
    value = values[name]
    return value if isinstance(value, int) else 0
