"""The settings of a process as its user gave them: a properties file, and ``--override key=value``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from barnabas.common.properties_file import MalformedProperties, read_properties_file
from barnabas.common.settings.problem import InvalidSettings, SettingProblem

__all__ = ["GivenSettings", "read_settings"]


class GivenSettings(NamedTuple):
    texts: dict[str, str]
    where: dict[str, str]
    """Where each was given: the file and its line, or ``--override``."""
    warnings: list[str]
    problems: list[SettingProblem]


def read_settings(path: str, overrides: Sequence[str], refusal: type[InvalidSettings]) -> GivenSettings:
    """Read the file and apply the overrides. Raise ``refusal`` for a malformed file, or OSError."""
    try:
        properties = read_properties_file(path)
    except MalformedProperties as error:
        raise refusal([SettingProblem(path, f"{path}: {error}")]) from None
    texts = dict(properties.values)
    where = {name: f"{path} line {properties.lines[name]}" for name in texts}
    problems: list[SettingProblem] = []
    for override in overrides:
        name, equals, text = override.partition("=")
        if equals and name.strip():
            texts[name.strip()] = text.strip()
            where[name.strip()] = "--override"
        else:
            shown = name if equals else "--override"  # A text without a name may be a secret.
            problems.append(SettingProblem(shown, f"{shown} does not have the form key=value", "--override"))
    return GivenSettings(texts, where, [f"{path}: {warning}" for warning in properties.warnings], problems)
