"""The settings of a shell, which SET changes: its own, and those of Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from barnabas.cli.output.advice import nearest
from barnabas.cli.sql.read_points import ReadPoint, parse_read_point

__all__ = ["OUTPUTS", "PACKAGES", "SPARK", "ShellSettings"]

SPARK = "spark."
OUTPUTS = ("table", "json", "csv")
PACKAGES = ("delta", "iceberg", "s3")
"""Packages with which Spark starts only if they are needed."""

_DEFAULTS = {"start": "earliest", "end": "latest", "output": "table", "rows": "1000", "packages": ""}
_MEANINGS = {
    "start": "where a query begins to read topics",
    "end": "where it ends",
    "output": "table, json or csv",
    "rows": "how many rows a table shows",
    "packages": "what Spark starts with: delta, iceberg, s3",
}
_ROWS_MAX = 1_000_000


def _now_ms() -> int:
    return int(time.time() * 1000)


@dataclass(slots=True)
class ShellSettings:
    """Values are texts, as SET has them."""

    now_ms: Callable[[], int] = _now_ms
    _given: dict[str, str] = field(default_factory=dict)

    def set(self, name: str, value: str) -> None:
        """Raise ValueError for an unknown setting or a value that it does not take."""
        if not name.startswith(SPARK):
            self._check_name(name)
            value = _PARSERS[name](value) if name in _PARSERS else value
            if name in ("start", "end"):
                parse_read_point(value, name, self.now_ms())
        self._given[name] = value

    def reset(self, name: str | None) -> None:
        """Return a setting, or all of them, to its default. Raise ValueError."""
        if name is None:
            self._given.clear()
            return
        if not name.startswith(SPARK):
            self._check_name(name)
        self._given.pop(name, None)

    def __getitem__(self, name: str) -> str:
        """Raise ValueError for an unknown setting."""
        if not name.startswith(SPARK):
            self._check_name(name)
        return self._given.get(name, _DEFAULTS.get(name, ""))

    @property
    def rows(self) -> int:
        return int(self["rows"])

    @property
    def packages(self) -> tuple[str, ...]:
        return tuple(self["packages"].split(",")) if self["packages"] else ()

    @property
    def of_spark(self) -> Mapping[str, str]:
        return {name: value for name, value in self._given.items() if name.startswith(SPARK)}

    def point(self, name: str, own: str | None = None) -> ReadPoint:
        """Return ``start`` or ``end``; ``own`` is the value of a view. Raise ValueError."""
        return parse_read_point(self[name] if own is None else own, name, self.now_ms())

    def listing(self) -> list[tuple[str, str, str]]:
        """Return names, values and meanings."""
        own = [(name, self[name], meaning) for name, meaning in _MEANINGS.items()]
        return [*own, *((name, value, "") for name, value in sorted(self.of_spark.items()))]

    @staticmethod
    def _check_name(name: str) -> None:
        if name not in _DEFAULTS:
            near = nearest(name, _DEFAULTS)
            hint = f"did you mean {near}? " if near else ""
            raise ValueError(f"{name} is not a setting: {hint}there are {', '.join(_DEFAULTS)}, and Spark's: spark.*")


def _output(value: str) -> str:
    if value.lower() not in OUTPUTS:
        raise ValueError(f"output {value}: write {', '.join(OUTPUTS[:-1])} or {OUTPUTS[-1]}")
    return value.lower()


def _rows(value: str) -> str:
    if not (value.isascii() and value.isdigit() and 0 < int(value) <= _ROWS_MAX):
        raise ValueError(f"rows {value}: write a number from 1 to {_ROWS_MAX}")
    return str(int(value))


def _packages(value: str) -> str:
    names = [name.strip().lower() for name in value.split(",") if name.strip()]
    wrong = [name for name in names if name not in PACKAGES]
    if wrong:
        raise ValueError(f"packages {value}: {wrong[0]} is not one of {', '.join(PACKAGES)}")
    return ",".join(dict.fromkeys(names))


_PARSERS: Mapping[str, Callable[[str], str]] = {"output": _output, "rows": _rows, "packages": _packages}
