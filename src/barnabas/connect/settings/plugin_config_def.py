"""Definitions of a plugin's settings, with the attributes that the REST API returns.

Types, parsing and validators are those of all Kafka settings. The other attributes are for forms: a group and an order
in it, a width, a display name, and the settings that depend on this one. A recommender returns possible values, and
whether the setting is relevant.
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
    """The default of a required setting."""

    def __repr__(self) -> str:
        return "REQUIRED"


REQUIRED = _Required()


class Width(Enum):
    """The width of the field in a form."""

    NONE = "NONE"
    SHORT = "SHORT"
    MEDIUM = "MEDIUM"
    LONG = "LONG"


class Recommender(Protocol):
    """Determines values and visibility of a setting from other settings. ``settings`` are the values parsed so far."""

    def valid_values(self, name: str, settings: Mapping[str, ConfigValue]) -> Sequence[ConfigValue]:
        """Return the values to offer, or an empty sequence if any value is valid. Other values are accepted too."""

    def visible(self, name: str, settings: Mapping[str, ConfigValue]) -> bool:
        """Return whether the setting is relevant with these settings."""


@dataclass(frozen=True, slots=True)
class ConfigKey(SettingRow):
    """A setting of a plugin. ``default`` is a text or a typed value; a setting without a default is required."""

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
        """Parse and check the default, so that an invalid one fails at its definition. Raise ConfigException."""
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
    """The settings of a plugin, in display order."""

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
        """Return the settings of both. For a name in both, ``other`` defines the setting, and ``self`` its position."""
        joined = ConfigDef()
        joined._keys = {**self._keys, **other._keys}
        return joined

    def embedded(self, prefix: str, group: str, first_order: int) -> list[ConfigKey]:
        """Return the settings with a prefix and in a group, for a plugin inside a connector.

        As in Kafka, messages of validators name them without the prefix. Of settings with equal group and order,
        required settings are first.
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
        """The groups in the order of their first settings."""
        return list(dict.fromkeys(key.group for key in self if key.group is not None))

    def parse(self, config: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return all settings: checked values from ``config``, and defaults for the others. Omit unknown names.

        Raise ConfigException for the first invalid value, or for a missing required setting.
        """
        return parse_all(self, config)


@dataclass(frozen=True, slots=True)
class _Unprefixed:
    """A validator that names the setting as in its own definition, without the prefix."""

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
