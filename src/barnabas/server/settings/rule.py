"""Runs rules about several settings.

A rule names the settings that it uses. It is skipped if one of them is invalid on its own, so that each error is
reported once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from barnabas.common.broker_config import BROKER_CONFIG_DEF, listener_base_name
from barnabas.common.config_def import ConfigValue
from barnabas.common.settings.problem import SettingProblem
from barnabas.server.settings.problem import Given, node_problem

__all__ = ["Settings", "check_rules", "rule"]


class Settings:
    """The given values, or the defaults of settings that were not given, for the rules."""

    def __init__(
        self, values: Mapping[str, ConfigValue], given: Mapping[str, Given], *, fileless: bool = False
    ) -> None:
        self._values = values
        self._given = given
        self.fileless = fileless
        self.notes: list[str] = []
        """Warnings for the operator's log that are not errors."""

    def __contains__(self, name: str) -> bool:
        return name in self._values

    @property
    def values(self) -> Mapping[str, ConfigValue]:
        return self._values

    @property
    def given(self) -> set[str]:
        return set(self._values)

    def number(self, name: str) -> float:
        value = self._value(name)
        return value if isinstance(value, int | float) else 0

    def text(self, name: str) -> str:
        value = self._value(name)
        return value if isinstance(value, str) else ""

    def texts(self, name: str) -> list[str]:
        value = self._value(name)
        return [str(item) for item in value] if isinstance(value, list) else []

    def problem(self, name: str, what: str, advice: str = "") -> SettingProblem:
        return node_problem(name, self._given.get(name), what, advice)

    def value(self, name: str) -> ConfigValue:
        return self._value(name)

    def _value(self, name: str) -> ConfigValue:
        return self._values[name] if name in self._values else BROKER_CONFIG_DEF[name].default


Rule = Callable[[Settings], Iterator[SettingProblem]]
_RULES: list[tuple[tuple[str, ...], Rule]] = []


def rule(*names: str) -> Callable[[Rule], Rule]:
    """Register a rule about these settings."""

    def register(function: Rule) -> Rule:
        _RULES.append((names, function))
        return function

    return register


def check_rules(
    values: Mapping[str, ConfigValue],
    given: Mapping[str, Given],
    bad: Iterable[str],
    *,
    notes: list[str],
    fileless: bool = False,
) -> list[SettingProblem]:
    """Return the problems of all rules. A setting that one rule rejects counts as invalid for later rules.

    Warnings that are not errors are added to ``notes``.
    """
    settings = Settings(values, given, fileless=fileless)
    known_bad = set(bad)
    problems: list[SettingProblem] = []
    for names, check in _RULES:
        if not any(_is_about(name, names) for name in known_bad):
            found = list(check(settings))
            problems += found
            known_bad.update(problem.name for problem in found)
    notes += settings.notes
    return problems


def _is_about(name: str, names: tuple[str, ...]) -> bool:
    """Return whether a rule uses a setting or a listener form of it. ``ssl.*`` stands for all ``ssl.`` settings."""
    base = listener_base_name(name) or name
    return name in names or base in names or ("ssl.*" in names and base.startswith("ssl."))
