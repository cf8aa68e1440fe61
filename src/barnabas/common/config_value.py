"""Turn the text of a setting into a value and back, by the rules of Kafka's ConfigDef.

Clients compare what they read with what they wrote, so the corner cases count: text is trimmed of everything
up to U+0020 (not of Unicode spaces), a boolean is true or false in any case and nothing else, integers take a sign
and any Unicode digit but no underscore, doubles are Java literals ("1f", ".5", "0x1p3", "NaN", but neither "inf"
nor "١٢"), a list is split at commas with their surrounding blanks, and blank text is the empty list.
Null remains null for every type.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from enum import Enum, IntEnum

__all__ = [
    "ConfigException",
    "ConfigType",
    "ConfigValue",
    "Importance",
    "Long",
    "Password",
    "Short",
    "display",
    "java_double",
    "java_trim",
    "parse_value",
    "raise_together",
    "value_to_string",
]

# A value as Python has it. Every type may be null.
ConfigValue = object


class ConfigType(IntEnum):
    """The type of a setting; the number is the ConfigType of DescribeConfigs answers."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class Importance(Enum):
    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


class ConfigException(ValueError):
    """A setting has an invalid value. The message is Kafka's."""

    def __init__(self, name: str, value: object, reason: str | None = None) -> None:
        super().__init__(
            f"Invalid value {display(value)} for configuration {name}" + (f": {reason}" if reason is not None else "")
        )
        self.name = name
        self.value = value
        self.reason = reason


class ConfigStateException(ConfigException):
    """The same, for rules whose message does not begin with the value."""

    def __init__(self, name: str, value: object, message: str) -> None:
        ValueError.__init__(self, message)
        self.name = name
        self.value = value
        self.reason = message


def raise_together(problems: Sequence[ConfigException]) -> None:
    """Raise the single problem, or one exception that names all of them. Without problems, return."""
    if len(problems) == 1:
        raise problems[0]
    if problems:
        first = problems[0]
        raise ConfigStateException(first.name, first.value, "; ".join(map(str, problems)))


class Password:
    """A secret: shown as [hidden] wherever it is printed."""

    __slots__ = ("value",)

    HIDDEN = "[hidden]"

    def __init__(self, value: str) -> None:
        self.value = value

    def __str__(self) -> str:
        return self.HIDDEN

    __repr__ = __str__

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Password) and self.value == other.value

    def __hash__(self) -> int:
        return hash(self.value)


class Short(int):
    """An integer that its sender typed as 16 bits wide. Plain ``int`` means Kafka's 32 bits."""


class Long(int):
    """An integer that its sender typed as 64 bits wide."""


_INT_RANGES = {
    ConfigType.SHORT: (-(1 << 15), (1 << 15) - 1),
    ConfigType.INT: (-(1 << 31), (1 << 31) - 1),
    ConfigType.LONG: (-(1 << 63), (1 << 63) - 1),
}
_INT_NAMES = {
    ConfigType.SHORT: "16-bit integer (short)",
    ConfigType.INT: "32-bit integer",
    ConfigType.LONG: "64-bit integer (long)",
}
_JAVA_BLANKS = "".join(map(chr, range(0x21)))
_COMMA_WITH_BLANKS = re.compile(r"[ \t\n\x0b\f\r]*,[ \t\n\x0b\f\r]*")
# Rare values are left as text: compiling a pattern costs half a millisecond of its start.
_DECIMAL = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?)")
_HEXADECIMAL = r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+"
_CLASS_NAME = r"[^\W\d][\w$]*(?:\.[^\W\d][\w$]*)+"


def parse_value(type_: ConfigType, value: object, name: str = "") -> ConfigValue:
    """The typed value of ``value``, which is text in nearly every case; raises ConfigException.

    Values that are typed already pass when their type fits: a 32-bit integer is a LONG, a 16-bit one is not.
    A CLASS is any dotted name, returned as text: the user of the setting finds out whether it exists.
    """
    if value is None:
        return None
    if type_ == ConfigType.BOOLEAN:
        return _parse_boolean(name, value)
    if type_ in _INT_RANGES:
        return _parse_integer(type_, name, value)
    if type_ == ConfigType.STRING:
        return _parse_string(name, value)
    if type_ == ConfigType.LIST:
        return _parse_list(name, value)
    if type_ == ConfigType.DOUBLE:
        return _parse_double(name, value)
    if type_ == ConfigType.PASSWORD:
        return value if isinstance(value, Password) else Password(_parse_string(name, value))
    return _parse_class(name, value)


def value_to_string(type_: ConfigType, value: ConfigValue) -> str | None:
    """The text of a typed value: as describe calls return it (the caller hides secrets)."""
    if value is None:
        return None
    if type_ == ConfigType.LIST and isinstance(value, list | tuple):
        return ",".join(map(display, value))
    return display(value)


def display(value: object) -> str:
    """How Java prints a value, because Kafka's messages quote it so."""
    if isinstance(value, str):
        return value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_double(value)
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(display, value)) + "]"
    if isinstance(value, type):
        return f"class {value.__module__}.{value.__qualname__}"
    return str(value)


def java_double(value: float) -> str:
    """The shortest text of a double in Java's layout: plain from 1e-3 to below 1e7, else with an E."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    text = repr(value)
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return text if "e" not in text else f"{value:f}"
    digits, _, exponent = text.partition("e")
    significant = digits.lstrip("-").replace(".", "").strip("0")
    if len(significant) == 1 and float(f"{value:.1e}") == value:
        # Java prints two digits at least, and the nearest two: the smallest double is 4.9E-324, not 5.0E-324.
        text = f"{value:.1e}"
        digits, _, exponent = text.partition("e")
    return _scientific(digits, int(exponent or 0))


def _scientific(digits: str, exponent: int) -> str:
    sign = "-" if digits.startswith("-") else ""
    whole, _, fraction = digits.lstrip("-").partition(".")
    if whole.strip("0"):
        exponent += len(whole) - 1
    else:
        exponent -= len(fraction) - len(fraction.lstrip("0")) + 1
    significant = (whole + fraction).strip("0")
    return f"{sign}{significant[0]}.{significant[1:] or '0'}E{exponent}"


def java_trim(text: str) -> str:
    return text.strip(_JAVA_BLANKS)


def _parse_boolean(name: str, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        # Java folds character by character, through upper case: no folding changes the length.
        folded = "".join(c.upper() if len(c.upper()) == 1 else c for c in java_trim(value)).lower()
        if folded in ("true", "false"):
            return folded == "true"
    raise ConfigException(name, value, "Expected value to be either true or false")


def _parse_integer(type_: ConfigType, name: str, value: object) -> int:
    low, high = _INT_RANGES[type_]
    if isinstance(value, str):
        number = _java_integer(java_trim(value))
        if number is None or not low <= number <= high:
            raise ConfigException(name, value, f"Not a number of type {type_.name}")
        return number
    if isinstance(value, int) and not isinstance(value, bool):
        fits = {
            ConfigType.SHORT: isinstance(value, Short),
            ConfigType.INT: not isinstance(value, Short | Long),
            ConfigType.LONG: not isinstance(value, Short),
        }[type_]
        if fits and low <= value <= high:
            return int(value)
    raise ConfigException(name, value, f"Expected value to be a {_INT_NAMES[type_]}, but it was a {_java_class(value)}")


def _java_integer(text: str) -> int | None:
    digits = text[1:] if text[:1] in ("+", "-") else text
    # Characters beyond U+FFFF are two to Java, neither of them a digit.
    if not digits or not all(c.isdecimal() and c <= "\uffff" for c in digits):
        return None
    return int(text) if len(digits) < 64 else None


def _parse_double(name: str, value: object) -> float:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        raise ConfigException(name, value, f"Expected value to be a double, but it was a {_java_class(value)}")
    text = java_trim(value)
    if text.lstrip("+-") in ("NaN", "Infinity") and len(text) - len(text.lstrip("+-")) <= 1:
        return float(text)
    number = text[:-1] if text[-1:] in tuple("fFdD") else text
    if _DECIMAL.fullmatch(number):
        return float(number)
    # A trailing "d" or "f" can't be a digit of a hexadecimal literal: its exponent is decimal.
    if re.fullmatch(_HEXADECIMAL, number):
        try:
            return float.fromhex(number)
        except OverflowError:
            return float("-inf") if number.startswith("-") else float("inf")
    raise ConfigException(name, value, "Not a number of type DOUBLE")


def _parse_string(name: str, value: object) -> str:
    if isinstance(value, str):
        return java_trim(value)
    raise ConfigException(name, value, f"Expected value to be a string, but it was a {_java_class(value)}")


def _parse_list(name: str, value: object) -> list[str]:
    if isinstance(value, list):
        return value
    if isinstance(value, str):
        text = java_trim(value)
        return _COMMA_WITH_BLANKS.split(text) if text else []
    raise ConfigException(name, value, "Expected a comma separated list.")


def _parse_class(name: str, value: object) -> str:
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    if not isinstance(value, str):
        raise ConfigException(name, value, "Expected a Class instance or class name.")
    text = java_trim(value)
    # Python's own form of a plug-in, "module:Class", is as good as a dotted name.
    if not re.fullmatch(_CLASS_NAME, text.replace(":", ".", 1)):
        raise ConfigException(name, value, f"Class {value} could not be found.")
    return text


def _java_class(value: object) -> str:
    """Kafka's message names the Java class of a value that has the wrong type."""
    if isinstance(value, Password):
        return "org.apache.kafka.common.config.types.Password"
    if isinstance(value, list | tuple):
        return (
            "java.util.ImmutableCollections$List12" if len(value) in (1, 2) else "java.util.ImmutableCollections$ListN"
        )
    names: list[tuple[type, str]] = [
        (bool, "Boolean"), (Short, "Short"), (Long, "Long"), (int, "Integer"), (float, "Double"), (str, "String"),
        (type, "Class"),
    ]  # fmt: skip
    return next((f"java.lang.{java}" for python, java in names if isinstance(value, python)), type(value).__name__)
