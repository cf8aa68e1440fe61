"""Settings for topics that a source may create (KIP-158); they depend on the groups that it names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from barnabas.connect.decide.validation.plugin_validators import ALIASES_MAX, JavaRegex
from barnabas.connect.settings.plugin_config_def import (
    REQUIRED,
    ConfigException,
    ConfigKey,
    ConfigType,
    ConfigValue,
    Importance,
    Width,
)

__all__ = ["topic_creation_keys"]

_TOPIC_CREATION = "topic.creation."


def topic_creation_keys(config: Mapping[str, str | None]) -> list[ConfigKey]:
    """Return the settings of groups of topics; none without groups (topics are then not created)."""
    if not any(name.startswith(_TOPIC_CREATION) and name != f"{_TOPIC_CREATION}groups" for name in config):
        return []
    groups = [group.strip() for group in (config.get(f"{_TOPIC_CREATION}groups") or "").split(",") if group.strip()]
    keys: list[ConfigKey] = []
    for group in list(dict.fromkeys(["default", *groups]))[: ALIASES_MAX + 1]:  # More are refused as a whole.
        is_default = group == "default"
        needed: ConfigValue = REQUIRED if is_default else None
        shown = "Topic Creation" + ("" if is_default else f": {group}")
        rows: list[tuple[str, ConfigType, ConfigValue, str]] = [
            (
                "include",
                ConfigType.LIST,
                ".*" if is_default else REQUIRED,
                "Regular expressions for the names of the group's topics.",
            ),
            ("exclude", ConfigType.LIST, "", "Regular expressions for names that are not the group's."),
            (
                "replication.factor",
                ConfigType.SHORT,
                needed,
                "The replication factor of new topics; -1 for the brokers' default.",
            ),
            ("partitions", ConfigType.INT, needed, "The partitions of new topics; -1 for the brokers' default."),
        ]
        keys += [
            ConfigKey(
                f"{_TOPIC_CREATION}{group}.{name}",
                type_,
                default,
                doc,
                _TopicCreation(name),
                Importance.LOW,
                shown,
                order,
                Width.LONG,
                name,
            )
            for order, (name, type_, default, doc) in enumerate(rows)
        ]
    return keys


@dataclass(frozen=True, slots=True)
class _TopicCreation:
    setting: str

    def ensure_valid(self, name: str, value: object) -> None:
        if isinstance(value, list):
            for pattern in value:
                JavaRegex().ensure_valid(name, pattern)
        elif isinstance(value, int) and (value == 0 or value < -1):
            what = "Number of partitions" if self.setting == "partitions" else "Replication factor"
            raise ConfigException(name, value, f"{what} must be positive, or -1 to use the broker's default")

    def __str__(self) -> str:
        return "positive, or -1 to use the broker's default"
