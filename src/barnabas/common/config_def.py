"""Definitions of settings: names, types, defaults, validators, and how a text becomes a checked value.

A definition is one row of a table (``ConfigRow``); the ``ConfigKey`` is made when somebody asks for it, because a node
has hundreds of settings, looks at some dozens, and has to be ready in a fraction of a second.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from barnabas.common.config_validators import Validator, ValidList, validator_of
from barnabas.common.config_value import (
    ConfigException,
    ConfigStateException,
    ConfigType,
    ConfigValue,
    Importance,
    Long,
    Password,
    Short,
    parse_value,
    raise_together,
    value_to_string,
)

__all__ = [
    "CLUSTER_WIDE",
    "NO_DEFAULT",
    "PER_BROKER",
    "READ_ONLY",
    "ConfigDef",
    "ConfigException",
    "ConfigKey",
    "ConfigRow",
    "ConfigStateException",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "Long",
    "Password",
    "Short",
    "parse_value",
    "raise_together",
    "value_to_string",
]

# Where a broker setting can be changed while it runs: nowhere, for one broker, or also for all of them.
READ_ONLY = "read-only"
PER_BROKER = "per-broker"
CLUSTER_WIDE = "cluster-wide"

# The default text of a setting that has to be given.
NO_DEFAULT = "<required>"

# name, type, default as text (None: null), validator expression, importance, update mode
ConfigRow = tuple[str, str, str | None, str, str, str]


class ConfigKey:
    """One setting. ``default`` is the typed value; a setting without default has ``required``."""

    __slots__ = (
        "default",
        "default_text",
        "importance",
        "internal",
        "name",
        "required",
        "type",
        "update_mode",
        "validator",
    )

    def __init__(self, row: ConfigRow, *, internal: bool = False) -> None:
        self.name, type_name, self.default_text, expression, importance, self.update_mode = row
        self.type = ConfigType[type_name]
        self.importance = Importance[importance]
        self.validator: Validator | None = validator_of(expression)
        self.internal = internal
        self.required = self.default_text == NO_DEFAULT
        self.default: ConfigValue = None if self.required else parse_value(self.type, self.default_text, self.name)

    @property
    def sensitive(self) -> bool:
        return self.type == ConfigType.PASSWORD

    def parse(self, value: object) -> ConfigValue:
        """The checked value of a text; raises ConfigException.

        Repeated items of a checked list are dropped instead of refused, as Kafka does until 5.0.
        """
        parsed = parse_value(self.type, value, self.name)
        if isinstance(self.validator, ValidList) and isinstance(parsed, list):
            parsed = list(dict.fromkeys(parsed))
        if self.validator is not None:
            self.validator.ensure_valid(self.name, parsed)
        return parsed

    def text_of(self, value: ConfigValue) -> str | None:
        return value_to_string(self.type, value)

    def __repr__(self) -> str:
        return f"ConfigKey({self.name}: {self.type.name})"


class ConfigDef:
    """A family of settings. Looking one up costs nothing for the others."""

    def __init__(self, rows: Iterable[ConfigRow], *, internal: Iterable[str] = ()) -> None:
        self._rows = {row[0]: row for row in rows}
        self._internal = frozenset(internal)
        self._keys: dict[str, ConfigKey] = {}

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of the table."""
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, name: str) -> ConfigKey | None:
        key = self._keys.get(name)
        if key is None and name in self._rows:
            key = self._keys[name] = ConfigKey(self._rows[name], internal=name in self._internal)
        return key

    def __getitem__(self, name: str) -> ConfigKey:
        key = self.get(name)
        if key is None:
            raise KeyError(name)
        return key

    @property
    def visible_names(self) -> list[str]:
        """What describe calls list: everything but the internal settings, sorted."""
        return sorted(name for name in self._rows if name not in self._internal)

    def parse(self, configs: Mapping[str, object]) -> dict[str, ConfigValue]:
        """All settings: those of ``configs`` checked, the others by default. Unknown names are left out.

        Raises ConfigException for the first bad value, or for a setting that has no default and is missing.
        """
        values: dict[str, ConfigValue] = {}
        for name in self._rows:
            key = self[name]
            if name in configs:
                values[name] = key.parse(configs[name])
            elif key.required:
                raise ConfigStateException(
                    name, None, f'Missing required configuration "{name}" which has no default value.'
                )
            else:
                values[name] = key.default
        return values

    def parse_given(self, configs: Mapping[str, object]) -> tuple[dict[str, ConfigValue], list[ConfigException]]:
        """The values of the known settings in ``configs``, and what is wrong with the others."""
        values: dict[str, ConfigValue] = {}
        problems: list[ConfigException] = []
        for name, value in configs.items():
            key = self.get(name)
            if key is None:
                continue
            try:
                values[name] = key.parse(value)
            except ConfigException as error:
                problems.append(error)
        return values, problems

    def hint(self, name: str) -> str:
        """What to add to a message about an unknown name; empty when no known name is like it."""
        nearest = self.nearest_name(name)
        return f" (did you mean {nearest}?)" if nearest else ""

    def nearest_name(self, name: str) -> str | None:
        """The known name that somebody who wrote ``name`` most likely meant."""
        from difflib import get_close_matches  # Only a mistake needs it.

        close = get_close_matches(name, self._rows, n=1, cutoff=0.75)
        return close[0] if close else None
