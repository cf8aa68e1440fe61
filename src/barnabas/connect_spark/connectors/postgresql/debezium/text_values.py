"""Read values from PostgreSQL's text form, as Debezium's consumers expect them. No I/O.

The text is of a session with TimeZone UTC, DateStyle ISO, IntervalStyle iso_8601 and bytea_output hex. Times are
numbers since 1970. An infinite time is the largest or smallest number of its type; where times are text, it is
``infinity``.
"""

from __future__ import annotations

import json
import re
import struct
from datetime import date
from decimal import Decimal

__all__ = [
    "array_items",
    "bits",
    "boolean",
    "byte_string",
    "days",
    "decimal",
    "duration_micros",
    "hstore_json",
    "micros",
    "micros_of_day",
    "money",
    "point",
    "variable_decimal",
    "zoned_time",
    "zoned_timestamp",
]

_DAY_US = 86_400_000_000
_UNIX_DAY = date(1970, 1, 1).toordinal()
_INT32_MAX, _INT64_MAX = (1 << 31) - 1, (1 << 63) - 1
_INFINITE = {"infinity": 1, "-infinity": -1}
_DURATION = re.compile(
    r"P(?:(-?\d+)Y)?(?:(-?\d+)M)?(?:(-?\d+)D)?(?:T(?:(-?\d+)H)?(?:(-?\d+)M)?(?:(-?\d+(?:\.\d+)?)S)?)?"
)
_MONTH_US = int(365.25 / 12 * _DAY_US)
_HSTORE = re.compile(r'"((?:[^"\\]|\\.)*)"=>(?:"((?:[^"\\]|\\.)*)"|NULL)', re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_WKB_POINT = struct.Struct("<BIdd")


def boolean(text: str) -> bool:
    return text in ("t", "1", "true")


def byte_string(text: str) -> bytes:
    """Read ``\\x`` and hexadecimal digits."""
    if not text.startswith("\\x"):
        raise ValueError(f"{text[:20]!r} is not a bytea in hexadecimal digits")
    return bytes.fromhex(text[2:])


def bits(text: str) -> bytes:
    """Return the bits as a number, least significant byte first."""
    return int(text or "0", 2).to_bytes((len(text) + 7) // 8, "little")


def decimal(text: str) -> Decimal:
    found = Decimal(text)
    if not found.is_finite():
        raise ValueError(
            f"{text} has no form as a precise decimal: set decimal.handling.mode to double or string for such values"
        )
    return found


def variable_decimal(text: str) -> dict[str, object]:
    """Return the scale, and the digits as a whole number with the highest byte first."""
    sign, digits, exponent = decimal(text).as_tuple()
    assert isinstance(exponent, int)
    unscaled = int("".join(map(str, digits))) * 10 ** max(exponent, 0)
    unscaled = -unscaled if sign else unscaled
    size = (unscaled + (unscaled < 0)).bit_length() // 8 + 1
    return {"scale": max(-exponent, 0), "value": unscaled.to_bytes(size, "big", signed=True)}


def money(text: str) -> Decimal:
    """Read the form of the locale C, such as ``-$1,234.56``."""
    return Decimal(re.sub(r"[^0-9.\-]", "", text))


def days(text: str) -> int:
    """Return the days since 1970."""
    if text in _INFINITE:
        return _INFINITE[text] * _INT32_MAX
    if len(text) == 10:
        return date.fromisoformat(text).toordinal() - _UNIX_DAY
    return _far_days(text)


def _far_days(text: str) -> int:
    """Read a date before the year 1 or after 9999, by the Gregorian calendar of 400 years."""
    era, _, suffix = text.partition(" ")
    year, month, day = (int(part) for part in era.split("-"))
    year = 1 - year if suffix == "BC" else year
    cycles, within = divmod(year, 400)
    return date(within or 400, month, day).toordinal() + (cycles - (not within)) * 146_097 - _UNIX_DAY


def micros(text: str) -> int:
    """Return the microseconds since 1970 of a timestamp, whose zone is UTC if it has one."""
    if text in _INFINITE:
        return _INFINITE[text] * _INT64_MAX
    suffix = " BC" if text.endswith(" BC") else ""
    day, _, clock = text.removesuffix(" BC").partition(" ")
    return days(day + suffix) * _DAY_US + micros_of_day(clock.removesuffix("+00"))


def micros_of_day(text: str) -> int:
    """Read ``13:51:30.123``; ``24:00:00`` is allowed."""
    hours, minutes, seconds = text.split(":")
    whole, _, fraction = seconds.partition(".")
    return (int(hours) * 3600 + int(minutes) * 60 + int(whole)) * 1_000_000 + int(fraction.ljust(6, "0") or 0)


def zoned_timestamp(text: str, digits: int) -> str:
    """Return the ISO form in UTC with this number of digits of a second: ``2020-01-01T13:51:30.123000Z``."""
    if text in _INFINITE:
        return text
    suffix = " BC" if text.endswith(" BC") else ""
    day, _, clock = text.removesuffix(" BC").partition(" ")
    whole, _, fraction = clock.removesuffix("+00").partition(".")
    year = f"-{int(day.split('-')[0]) - 1:04}-{day.split('-', 1)[1]}" if suffix else day
    return f"{year}T{whole}" + (f".{fraction.ljust(digits, '0')}" if digits else "") + "Z"


def zoned_time(text: str) -> str:
    """Return a time with a zone in UTC: ``13:51:30.123+02`` is ``11:51:30.123Z``."""
    place = max(text.rfind("+"), text.rfind("-"))
    hours, minutes, seconds = (*(int(part) for part in text[place + 1 :].split(":")), 0, 0)[:3]
    offset_us = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 * (1 if text[place] == "+" else -1)
    at_us = (micros_of_day(text[:place]) - offset_us) % _DAY_US
    whole, fraction = divmod(at_us, 1_000_000)
    clock = f"{whole // 3600:02}:{whole // 60 % 60:02}:{whole % 60:02}"
    return clock + (f".{fraction:06}".rstrip("0") if fraction else "") + "Z"


def duration_micros(text: str) -> int:
    """Return the microseconds of an ISO 8601 duration. A month has a twelfth of 365.25 days."""
    found = _DURATION.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not an interval in ISO 8601")
    years, months, whole_days, hours, minutes = (int(part or 0) for part in found.groups()[:5])
    seconds = int(Decimal(found.group(6) or 0) * 1_000_000)
    return (years * 12 + months) * _MONTH_US + whole_days * _DAY_US + (hours * 60 + minutes) * 60_000_000 + seconds


def point(text: str) -> dict[str, object]:
    """Read ``(x,y)``. The well-known binary form is added, as Debezium does."""
    x, y = (float(part) for part in text.strip("()").split(","))
    return {"x": x, "y": y, "wkb": _WKB_POINT.pack(1, 1, x, y), "srid": None}


def hstore_json(text: str) -> str:
    """Return an hstore as a JSON object."""
    pairs = {_unescaped(key.group(1)): _optional(key.group(2)) for key in _HSTORE.finditer(text)}
    return json.dumps(pairs, ensure_ascii=False, separators=(",", ":"))


def _optional(text: str | None) -> str | None:
    return None if text is None else _unescaped(text)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(r"\1", text) if "\\" in text else text


def array_items(text: str, delimiter: str = ",") -> list[str | None]:
    """Return the items of an array of one dimension. Raise ValueError for more dimensions.

    Bounds before the braces, ``[0:1]={...}``, are ignored.
    """
    begin = text.find("{")
    if begin < 0 or not text.endswith("}") or (begin and text[begin - 1] != "="):
        raise ValueError(f"{text[:40]!r} is not an array")
    items: list[str | None] = []
    at, end = begin + 1, len(text) - 1
    while at < end:
        if text[at] == "{":
            raise ValueError("an array of more than one dimension has no form in Debezium's events")
        item, at = _quoted_item(text, at) if text[at] == '"' else _plain_item(text, at, delimiter)
        items.append(item)
        at += 1
    return items


def _quoted_item(text: str, at: int) -> tuple[str, int]:
    """Return the item, and the place of the delimiter after it."""
    begin = at = at + 1
    while text[at] != '"':
        at += 2 if text[at] == "\\" else 1
    return _unescaped(text[begin:at]), at + 1


def _plain_item(text: str, at: int, delimiter: str) -> tuple[str | None, int]:
    end = text.find(delimiter, at)
    end = len(text) - 1 if end < 0 else end
    item = text[at:end]
    return (None if item == "NULL" else _unescaped(item)), end
