"""A family of settings: look one up, check the texts of several, suggest the nearest known name."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

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
from barnabas.common.settings.setting import (
    CLUSTER_WIDE,
    NO_DEFAULT,
    PER_BROKER,
    READ_ONLY,
    Setting,
    SettingRow,
    SettingTable,
    rows_of,
)

__all__ = [
    "CLUSTER_WIDE",
    "NO_DEFAULT",
    "PER_BROKER",
    "READ_ONLY",
    "ConfigDef",
    "ConfigException",
    "ConfigStateException",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "Long",
    "Password",
    "Setting",
    "Short",
    "missing",
    "parse_all",
    "parse_value",
    "raise_together",
    "value_to_string",
]


class ConfigDef:
    """Rows by their names, from a table or from rows outside any table."""

    def __init__(self, rows: type[SettingTable] | Iterable[Setting]) -> None:
        listed = list(rows_of(rows) if isinstance(rows, type) else rows)
        self._rows = {row.name: row for row in listed}
        if len(self._rows) != len(listed):
            names = [row.name for row in listed]
            raise ValueError(f"defined twice: {', '.join(sorted({name for name in names if names.count(name) > 1}))}")

    def __contains__(self, name: object) -> bool:
        return name in self._rows

    def __iter__(self) -> Iterator[str]:
        """The names, in the order of the table."""
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def get(self, name: str) -> Setting | None:
        return self._rows.get(name)

    def __getitem__(self, name: str) -> Setting:
        return self._rows[name]

    def doc(self, name: str) -> str | None:
        """The documentation of a setting; None for an unknown one, or one that another setting explains."""
        row = self._rows.get(name)
        return (row.doc or None) if row is not None else None

    @property
    def visible_names(self) -> list[str]:
        """The names that describe calls list: all but the internal settings, sorted."""
        return sorted(name for name, row in self._rows.items() if not row.internal)

    def parse(self, configs: Mapping[str, object]) -> dict[str, ConfigValue]:
        """Return all settings: the checked values of ``configs``, defaults for the others. Unknown names are omitted.

        Raises ConfigException for the first bad value, or for a missing setting without a default.
        """
        return parse_all(self._rows.values(), configs)

    def parse_given(self, configs: Mapping[str, object]) -> tuple[dict[str, ConfigValue], list[ConfigException]]:
        """The values of the known settings in ``configs``, and what is wrong with the others."""
        values: dict[str, ConfigValue] = {}
        problems: list[ConfigException] = []
        for name, value in configs.items():
            row = self.get(name)
            if row is None:
                continue
            try:
                values[name] = row.parse(value)
            except ConfigException as error:
                problems.append(error)
        return values, problems

    def hint(self, name: str) -> str:
        """A suggestion for a message about an unknown name; empty without a similar name."""
        nearest = self.nearest_name(name)
        return f" (did you mean {nearest}?)" if nearest else ""

    def nearest_name(self, name: str) -> str | None:
        """Return the known name that ``name`` most likely means."""
        from difflib import get_close_matches  # Only a mistake needs it.

        close = get_close_matches(name, self._rows, n=1, cutoff=0.75)
        return close[0] if close else None


def parse_all(rows: Iterable[SettingRow], configs: Mapping[str, object]) -> dict[str, ConfigValue]:
    """Return the values of all rows: checked if they are in ``configs``, defaults otherwise.

    Raises ConfigException for the first bad value, or for a missing setting without a default.
    """
    values: dict[str, ConfigValue] = {}
    for row in rows:
        if row.name in configs:
            values[row.name] = row.parse(configs[row.name])
        elif row.required:
            raise missing(row.name)
        else:
            values[row.name] = row.default
    return values


def missing(name: str) -> ConfigException:
    return ConfigStateException(name, None, f'Missing required configuration "{name}" which has no default value.')
