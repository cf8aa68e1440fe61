"""JSON as Connect's internal converter writes it: compact, in the order of the map, UTF-8 where 16 bits are enough.

The bytes of a key matter, because partitioning and compaction use them. Numbers with a fraction look like Java's.
Reading is as lenient as Kafka's: text after the first value is ignored, and the last of equal names applies.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any, TypeAlias

__all__ = ["JsonValue", "MalformedJson", "UnwritableJson", "dump_json", "encode_text", "kind_of", "parse_json"]

JsonValue: TypeAlias = "bool | int | float | str | list[Any] | dict[str, Any] | None"

_ESCAPED = re.compile(r'["\\\x00-\x1f\U00010000-\U0010ffff]')
_ESCAPES = {chr(code): f"\\u{code:04X}" for code in range(0x20)} | {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
}
_PLAIN_FROM, _PLAIN_BELOW = 1e-3, 1e7
"""The range in which Java writes a number without an exponent."""


class MalformedJson(ValueError):
    """The bytes are not valid JSON."""


class UnwritableJson(ValueError):
    """This value has no JSON form that other programs can read."""


def dump_json(value: Any) -> bytes:
    """Return the JSON bytes. Raise UnwritableJson."""
    parts: list[str] = []
    _write(value, parts.append)
    return encode_text("".join(parts))


def encode_text(text: str) -> bytes:
    """Encode as UTF-8. Raise UnwritableJson where Kafka, depending on the place, writes a question mark or fails."""
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise UnwritableJson(
            f"the text has half of a surrogate pair (U+{ord(error.object[error.start]):04X}), which UTF-8 can't encode"
        ) from error


def parse_json(data: bytes) -> JsonValue:
    """Return the value. Raise only MalformedJson."""
    try:
        value, _ = _DECODER.raw_decode(data.decode().lstrip("\ufeff \t\r\n"))
    except (ValueError, RecursionError) as error:
        raise MalformedJson(str(error)) from error
    result: JsonValue = value
    return result


def kind_of(value: object) -> str:
    """Return the name of a value's type for messages."""
    for kinds, name in _KINDS:
        if isinstance(value, kinds):
            return name
    return "null"


_KINDS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((bool,), "a boolean"),
    ((int,), "an integer"),
    ((float,), "a number"),
    ((str,), "a string"),
    ((list,), "an array"),
    ((dict,), "an object"),
)


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant)


def _write(value: Any, write: Any) -> None:
    if isinstance(value, str):
        write(_quoted(value))
    elif value is None:
        write("null")
    elif isinstance(value, bool):
        write("true" if value else "false")
    elif isinstance(value, int):
        write(str(value))
    elif isinstance(value, float):
        write(_java_double(value))
    elif isinstance(value, list | tuple):
        write("[")
        for index, item in enumerate(value):
            if index:
                write(",")
            _write(item, write)
        write("]")
    elif isinstance(value, dict):
        write("{")
        for index, (name, item) in enumerate(value.items()):
            if not isinstance(name, str):
                raise UnwritableJson(f"{name!r} is not a string, as a name in JSON must be")
            write(("," if index else "") + _quoted(name) + ":")
            _write(item, write)
        write("}")
    else:
        raise UnwritableJson(f"{type(value).__name__} has no form in JSON")


def _quoted(text: str) -> str:
    return f'"{_ESCAPED.sub(_escape, text)}"'


def _escape(found: re.Match[str]) -> str:
    character = found[0]
    known = _ESCAPES.get(character)
    if known is not None:
        return known
    code = ord(character) - 0x10000  # Kafka writes characters beyond 16 bits as a surrogate pair.
    return f"\\u{0xD800 + (code >> 10):04X}\\u{0xDC00 + (code & 0x3FF):04X}"


def _java_double(value: float) -> str:
    """Format as ``Double.toString`` of Java 19 and later: at least one digit after the point, exponents as in 1.0E-5.

    Up to Java 18 one in a thousand large numbers has one digit more than necessary.
    """
    if not math.isfinite(value):
        return f'"{"NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"}"'
    if value == 0 or _PLAIN_FROM <= abs(value) < _PLAIN_BELOW:
        return repr(value)
    text = repr(value)
    if sum(map(str.isdigit, text.partition("e")[0].replace("0", ""))) == 1 and float(f"{value:.1e}") == value:
        text = f"{value:.1e}"  # Java looks for the nearest one of two digits, where one would do.
    digits, _, exponent = text.partition("e")
    sign = "-" if digits.startswith("-") else ""
    whole, _, fraction = digits.lstrip("-").partition(".")
    power = int(exponent or 0) + len(whole) - 1
    figures = whole + fraction
    leading = len(figures) - len(figures.lstrip("0"))
    significant = figures[leading:].rstrip("0")
    return f"{sign}{significant[0]}.{significant[1:] or '0'}E{power - leading}"
