"""Validators for settings of connectors, transforms and converters beyond the common ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from barnabas.common.config_validators import Validator
from barnabas.common.config_value import ConfigException
from barnabas.connect.decide.registry.plugin_versions import InvalidVersionRange, parse_version_range
from barnabas.security.java_regex import UnsupportedExpression, compile_java

__all__ = ["ALIASES_MAX", "All", "JavaRegex", "NonEmptyList", "Pairs", "UniqueAliases", "VersionRequirement"]


class JavaRegex:
    """A Java regular expression. Another rule rejects null and empty values."""

    __slots__ = ("null_allowed",)

    def __init__(self, *, null_allowed: bool = True) -> None:
        self.null_allowed = null_allowed

    def ensure_valid(self, name: str, value: object) -> None:
        if value is None:
            if not self.null_allowed:
                raise ConfigException(name, None, "Invalid regex: there is none")
            return
        try:
            compile_java(str(value))
        except UnsupportedExpression as error:
            raise ConfigException(name, value, f"Invalid regex: {error}") from None

    def __str__(self) -> str:
        return "valid regex"


class NonEmptyList:
    __slots__ = ()

    def ensure_valid(self, name: str, value: object) -> None:
        if not value:
            raise ConfigException(name, value, "Empty list")

    def __str__(self) -> str:
        return "non-empty list"


class Pairs:
    """A list of ``left:right``."""

    __slots__ = ("_check", "_example")

    def __init__(self, example: str, check: Callable[[str, str], str | None] = lambda left, right: None) -> None:
        """``check`` returns the error of one pair."""
        self._example = example
        self._check = check

    def ensure_valid(self, name: str, value: object) -> None:
        seen: set[str] = set()
        for item in value if isinstance(value, list) else []:
            left, colon, right = (part.strip() for part in str(item).partition(":"))
            problem = (
                f"{item} is not of the form {self._example}"
                if (colon and not (left and right)) or ":" in right
                else self._check(left, right if colon else "")
            )
            if problem is None and left in seen:
                problem = f"{left} is given twice"
            if problem is not None:
                raise ConfigException(name, value, problem)
            seen.add(left)

    def __str__(self) -> str:
        return f"list of colon-delimited pairs, e.g. {self._example}"


ALIASES_MAX = 100
"""The limit of one list. Each alias has settings of its own, so a list of a hundred thousand would block a worker."""


class UniqueAliases:
    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def ensure_valid(self, name: str, value: object) -> None:
        if value is None:
            raise ConfigException(name, None, "entry must be non null")
        if isinstance(value, list) and len(value) > ALIASES_MAX:
            count = f"It has {len(value)} entries; at most {ALIASES_MAX} can be used."
            raise ConfigException(name, f"{value[0]}, ...", count)
        if isinstance(value, list) and len(set(value)) < len(value):
            raise ConfigException(name, value, "Duplicate alias provided.")
        if isinstance(value, list) and "" in value:
            raise ConfigException(name, value, "An alias is empty.")

    def __str__(self) -> str:
        return f"non-null string, unique {self.kind}"


class VersionRequirement:
    __slots__ = ()

    def ensure_valid(self, name: str, value: object) -> None:
        try:
            parse_version_range(None if value is None else str(value))
        except InvalidVersionRange as error:
            raise ConfigException(name, value, str(error)) from None

    def __str__(self) -> str:
        return "a version, or a range of versions such as [1.0,2.0)"


class All:
    """Applies several rules in turn."""

    __slots__ = ("_validators",)

    def __init__(self, *validators: Validator) -> None:
        self._validators: Sequence[Validator] = validators

    def ensure_valid(self, name: str, value: object) -> None:
        for validator in self._validators:
            validator.ensure_valid(name, value)

    def __str__(self) -> str:
        return ", ".join(map(str, self._validators))
