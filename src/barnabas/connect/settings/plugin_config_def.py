"""Definitions of a plugin's settings, with what the REST API shows of each.

The types, their parsing and the validators are those of all Kafka settings. The other attributes are for forms: a group
and an order in it, a width, a display name, the settings that depend on this one, and a recommender, which returns
possible values and whether the setting is relevant.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Protocol

from barnabas.common.config_def import parse_all
from barnabas.common.config_validators import Validator
from barnabas.common.config_value import (
    ConfigException,
    ConfigType,
    ConfigValue,
    Importance,
    Password,
)
from barnabas.common.settings.setting import SettingRow

__all__ = [
    "REQUIRED",
    "ConfigDef",
    "ConfigException",
    "ConfigKey",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "Password",
    "Recommender",
    "Width",
]


class _Required:
    """The default of a setting that has to be given."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


class Width(Enum):
    """How wide the field of a form should be."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class Recommender(Protocol):
    """Values and visibility of a setting that depend on others. ``settings`` are the values parsed so far."""

    def valid_values(self, name: str, settings: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        """The values to offer; empty if any value is valid. Other values are not refused."""

    def visible(self, name: str, settings: Mapping[str, ConfigValue]) -> bool:
        """Whether the setting has a meaning beside these."""


@dataclass(frozen=True, slots=True)
class ConfigKey(SettingRow):
    """One setting of a plugin. ``default`` may be the text or the typed value; without one the setting is required."""

    name: str
    type: ConfigType = ConfigType.STRING
    default: ConfigValue = REQUIRED
    documentation: str = ""
    validator: Validator | None = None
    importance: Importance = Importance.MEDIUM
    group: str | None = None
    order_in_group: int = -1
    width: Width = Width.NONE
    display_name: str = ""
    dependents: tuple[str, ...] = ()
    recommender: Recommender | None = None
    internal: bool = False

    def __post_init__(self) -> None:
        """A default that its own setting refuses is found where it is written. Raises ConfigException."""
        if self.default is not REQUIRED:
            default = self.parse_type(self.default)
            object.__setattr__(self, "default", default)
            if default is not None:
                self.check(default)
        if not self.display_name:
            object.__setattr__(self, "display_name", self.name)

    @property
    def required(self) -> bool:
        return self.default is REQUIRED

    @property
    def default_text(self) -> str | None:
        return None if self.required else self.text_of(self.default)


class ConfigDef:
    """The settings of a plugin, in the order in which they are shown."""

    __slots__ = ("_keys",)

    def __init__(self, keys: Iterable[ConfigKey] = ()) -> None:
        self._keys: dict[str, ConfigKey] = {}
        for key in keys:
            if key.name in self._keys:
                raise ValueError(f"the setting {key.name} is defined twice")
            self._keys[key.name] = key

    def __contains__(self, name: object) -> bool:
        return name in self._keys

    def __iter__(self) -> Iterator[ConfigKey]:
        return iter(self._keys.values())

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, name: str) -> ConfigKey:
        return self._keys[name]

    def get(self, name: str) -> ConfigKey | None:
        return self._keys.get(name)

    def __add__(self, other: ConfigDef) -> ConfigDef:
        """Both families; of a setting that both have, the later definition at the earlier place."""
        joined = ConfigDef()
        joined._keys = {**self._keys, **other._keys}
        return joined

    def embedded(self, prefix: str, group: str, first_order: int) -> list[ConfigKey]:
        """The settings under a prefix and in a group, for a plugin inside a connector.

        Messages of validators go on naming them without the prefix, as with Kafka. Those that must be given come first.
        """
        return [
            replace(
                key,
                name=prefix + key.name,
                group=f"{group}: {key.group}" if key.group is not None else group,
                order_in_group=first_order + index,
                validator=_Unprefixed(key.name, key.validator) if key.validator is not None else None,
                dependents=tuple(prefix + dependent for dependent in key.dependents),
                recommender=_EmbeddedRecommender(prefix, key.recommender) if key.recommender is not None else None,
            )
            for index, key in enumerate(sorted(self, key=self._sort_key))
        ]

    def _sort_key(self, key: ConfigKey) -> tuple[int, int, bool, int, str]:
        group = -1 if key.group is None else self.groups.index(key.group)
        return (group, key.order_in_group, not key.required, list(Importance).index(key.importance), key.name)

    @property
    def groups(self) -> list[str]:
        """In the order in which they first appear."""
        return list(dict.fromkeys(key.group for key in self if key.group is not None))

    def parse(self, config: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """All settings: those of ``config`` checked, the others by default. Names that are not ours are left out.

        Raises ConfigException for the first bad value, or for a required setting that is missing.
        """
        return parse_all(self, config)


@dataclass(frozen=True, slots=True)
class _Unprefixed:
    """A validator that knows its setting by the name it has in its own definition."""

    name: str
    validator: Validator

    def ensure_valid(self, name: str, value: object) -> None:
        self.validator.ensure_valid(self.name, value)

    def __str__(self) -> str:
        return str(self.validator)


@dataclass(frozen=True, slots=True)
class _EmbeddedRecommender:
    prefix: str
    recommender: Recommender

    def valid_values(self, name: str, settings: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        return self.recommender.valid_values(name.removeprefix(self.prefix), self._own(settings))

    def visible(self, name: str, settings: Mapping[str, ConfigValue]) -> bool:
        return self.recommender.visible(name.removeprefix(self.prefix), self._own(settings))

    def _own(self, settings: Mapping[str, ConfigValue]) -> dict[str, ConfigValue]:
        return {
            name.removeprefix(self.prefix): value for name, value in settings.items() if name.startswith(self.prefix)
        }
