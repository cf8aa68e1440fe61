"""Validators of values beyond their type, with Kafka's messages and Kafka's texts for the reference.

Tables name a validator by a short expression, read by ``validator_of``:

==================  =====================================================================
``0..``  ``1..9``   a range; the ends are part of it
``a|b``             one of these strings; ``i:A|B`` in any case
``list``            a list without blank or repeated items; ``list+`` not empty, ``list?`` may be null
``list:a|b``        the same, of these items only (``list+:`` not empty)
``nonempty``        text that is not empty; ``nonnull`` anything but null
others              by name: ``gzip-level``, ``throttled-replicas``, ``voters``, ``bootstrap-servers``,
                    ``auto-offset-reset``
==================  =====================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Protocol

from barnabas.common.config_value import ConfigException, ConfigStateException, display, java_trim

__all__ = [
    "CaseInsensitiveString",
    "ListSize",
    "NonEmptyString",
    "NonEmptyWithoutControlCharacters",
    "NonNull",
    "Range",
    "ValidList",
    "ValidString",
    "Validator",
    "validator_of",
]


class Validator(Protocol):
    """``str()`` of a validator is the text that Kafka's configuration reference shows for it."""

    def ensure_valid(self, name: str, value: object) -> None:
        """Raise ConfigException unless ``value``, already of the right type, is allowed."""


class Range:
    """A number between two ends, either of which may be missing. Null is refused."""

    __slots__ = ("least", "most")

    def __init__(self, least: float | None = None, most: float | None = None) -> None:
        self.least = least
        self.most = most

    def ensure_valid(self, name: str, value: object) -> None:
        if value is None:
            raise ConfigException(name, None, "Value must be non-null")
        if not isinstance(value, int | float) or isinstance(value, bool):
            raise ConfigException(name, value, "Value must be a number")
        # NaN is neither below nor above anything, and Kafka lets it pass.
        if self.least is not None and value < self.least:
            raise ConfigException(name, value, f"Value must be at least {display(self.least)}")
        if self.most is not None and value > self.most:
            raise ConfigException(name, value, f"Value must be no more than {display(self.most)}")

    def __str__(self) -> str:
        if self.least is None:
            return f"[...,{display(self.most)}]"
        return (
            f"[{display(self.least)},...]" if self.most is None else f"[{display(self.least)},...,{display(self.most)}]"
        )


class ValidString:
    """One of the allowed strings, in this case."""

    __slots__ = ("allowed",)

    def __init__(self, allowed: Sequence[str]) -> None:
        self.allowed = tuple(allowed)

    def ensure_valid(self, name: str, value: object) -> None:
        if value not in self.allowed:
            raise ConfigException(name, value, f"String must be one of: {', '.join(self.allowed)}")

    def __str__(self) -> str:
        return f"[{', '.join(self.allowed)}]"


class CaseInsensitiveString:
    __slots__ = ("allowed",)

    def __init__(self, allowed: Sequence[str]) -> None:
        self.allowed = tuple(item.upper() for item in allowed)

    def ensure_valid(self, name: str, value: object) -> None:
        if not isinstance(value, str) or value.upper() not in self.allowed:
            raise ConfigException(name, value, f"String must be one of (case insensitive): {', '.join(self.allowed)}")

    def __str__(self) -> str:
        return f"(case insensitive) [{', '.join(self.allowed)}]"


class ValidList:
    """A list of different, non-blank items, of the allowed ones if any are listed."""

    __slots__ = ("allowed", "empty_allowed", "null_allowed")

    def __init__(self, allowed: Sequence[str] = (), *, empty_allowed: bool = True, null_allowed: bool = False) -> None:
        self.allowed = tuple(allowed)
        self.empty_allowed = empty_allowed
        self.null_allowed = null_allowed

    def ensure_valid(self, name: str, value: object) -> None:
        if value is None:
            if not self.null_allowed:
                raise ConfigStateException(name, value, f"Configuration '{name}' values must not be null.")
            return
        if not isinstance(value, list | tuple):
            raise ConfigException(name, value, "Expected a comma separated list.")
        if not value and not self.empty_allowed:
            choices = display(self.allowed) if self.allowed else "any non-empty value"
            raise ConfigStateException(
                name, value, f"Configuration '{name}' must not be empty. Valid values include: {choices}"
            )
        if len(set(value)) != len(value):
            raise ConfigStateException(name, value, f"Configuration '{name}' values must not be duplicated.")
        for item in value:
            if item == "":
                raise ConfigStateException(name, value, f"Configuration '{name}' values must not be empty.")
            if self.allowed and item not in self.allowed:
                raise ConfigException(name, item, f"String must be one of: {', '.join(self.allowed)}")

    def __str__(self) -> str:
        return f"[{', '.join(self.allowed)}]" if self.allowed else ""


class NonEmptyString:
    """Null or some text."""

    __slots__ = ()

    def ensure_valid(self, name: str, value: object) -> None:
        if value == "":
            raise ConfigException(name, value, "String must be non-empty")

    def __str__(self) -> str:
        return "non-empty string"


class NonNull:
    __slots__ = ()

    def ensure_valid(self, name: str, value: object) -> None:
        if value is None:
            raise ConfigException(name, None, "entry must be non null")

    def __str__(self) -> str:
        return "non-null string"


class NonEmptyWithoutControlCharacters:
    """Null, or some text without ISO control characters."""

    __slots__ = ()

    def ensure_valid(self, name: str, value: object) -> None:
        if value is None:
            return
        text = str(value)
        if not text:
            raise ConfigException(name, value, "String may not be empty")
        found = [str(ord(c)) for c in text if ord(c) < 0x20 or 0x7F <= ord(c) < 0xA0]
        if found:
            raise ConfigException(
                name,
                value,
                f"String may not contain control sequences but had the following ASCII chars: {', '.join(found)}",
            )

    def __str__(self) -> str:
        return "non-empty string without ISO control characters"


class ListSize:
    __slots__ = ("most",)

    def __init__(self, most: int) -> None:
        self.most = most

    def ensure_valid(self, name: str, value: object) -> None:
        if isinstance(value, list | tuple) and len(value) > self.most:
            raise ConfigException(name, value, f"exceeds maximum list size of [{self.most}].")

    def __str__(self) -> str:
        return f"List containing maximum of {self.most} elements"


class GzipLevel:
    """1 to 9, or -1 for zlib's own default."""

    __slots__ = ()

    def ensure_valid(self, name: str, value: object) -> None:
        if not isinstance(value, int) or not (1 <= value <= 9 or value == -1):
            raise ConfigException(name, value, "Value must be between 1 and 9 or equal to -1")

    def __str__(self) -> str:
        return "[1,...,9] or -1"


class ThrottledReplicas:
    """``*`` alone, or partition:broker pairs. Blank items are overlooked, as in Kafka."""

    __slots__ = ()

    _FORMAT = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    _PAIR = r"([0-9]+:[0-9]+)?"

    def ensure_valid(self, name: str, value: object) -> None:
        if value is None:
            raise ConfigException(name, value, f"{name} must not be null")
        items = [java_trim(str(item)) for item in (value if isinstance(value, list | tuple) else [value])]
        if "".join(items) != "*" and not all(re.fullmatch(self._PAIR, item) for item in items):
            raise ConfigException(
                name,
                value,
                f"{name} must be the literal '*' or a list of replicas in the following format: {self._FORMAT}",
            )

    def __str__(self) -> str:
        return self._FORMAT


class AutoOffsetReset:
    """Where a share group starts: latest, earliest, or as long ago as an ISO-8601 duration says."""

    __slots__ = ()

    _DURATION = r"(?i:P(?=.)([0-9]+D)?(T(?=.)([0-9]+H)?([0-9]+M)?([0-9]+(\.[0-9]{0,9})?S)?)?)"

    def ensure_valid(self, name: str, value: object) -> None:
        text = value if isinstance(value, str) else ""
        kind, _, duration = text.partition(":")
        if text in ("latest", "earliest") or (kind == "by_duration" and re.fullmatch(self._DURATION, duration)):
            return
        raise ConfigException(name, value, f"must be one of {self}")

    def __str__(self) -> str:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"


class EachItem:
    """A list each item of which matches a form."""

    __slots__ = ("_form", "_pattern")

    def __init__(self, pattern: str, form: str) -> None:
        self._pattern = pattern
        self._form = form

    def ensure_valid(self, name: str, value: object) -> None:
        if value is None:
            raise ConfigException(name, None, "Value must be non-null")
        for item in value if isinstance(value, list | tuple) else [str(value)]:
            if not re.fullmatch(self._pattern, item):
                raise ConfigException(name, item, f"each entry must have the form {self._form}")

    def __str__(self) -> str:
        return "non-empty list"


_HOST_AND_PORT = r"(?:\[[0-9a-fA-F:.%\w]+\]|[^\s:\[\]@,/]+):[0-9]{1,5}"

_NAMED: dict[str, Callable[[], Validator]] = {
    "list": ValidList,
    "list+": lambda: ValidList(empty_allowed=False),
    "list?": lambda: ValidList(null_allowed=True),
    "list+?": lambda: ValidList(empty_allowed=False, null_allowed=True),
    "nonempty": NonEmptyString,
    "nonnull": NonNull,
    "gzip-level": GzipLevel,
    "throttled-replicas": ThrottledReplicas,
    "auto-offset-reset": AutoOffsetReset,
    "voters": lambda: EachItem(r"[0-9]+@" + _HOST_AND_PORT, "{id}@{host}:{port}"),
    "bootstrap-servers": lambda: EachItem(_HOST_AND_PORT, "{host}:{port}"),
}


def validator_of(expression: str) -> Validator | None:
    """The validator that a table's expression names; none for the empty one."""
    if not expression:
        return None
    if expression in _NAMED:
        return _NAMED[expression]()
    head, separator, tail = expression.partition(":")
    if separator and head in ("list", "list+"):
        return ValidList(tail.split("|"), empty_allowed=head == "list")
    if separator and head == "i":
        return CaseInsensitiveString(tail.split("|"))
    least, dots, most = expression.partition("..")
    if dots:
        return Range(_number(least), _number(most))
    return ValidString(expression.split("|"))


def _number(text: str) -> float | None:
    if not text:
        return None
    return float(text) if "." in text else int(text)
