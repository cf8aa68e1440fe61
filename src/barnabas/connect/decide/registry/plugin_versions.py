"""Versions of plugins and ranges of them (KIP-891), compared as Maven does.

A range is ``[1.0,2.0)``, several of these separated by commas, or one version, which matches only itself: ``1.0`` is
``[1.0,1.0]``. ``latest`` and an empty text match any version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

__all__ = ["ANY_VERSION", "InvalidVersionRange", "PluginVersion", "VersionRange", "parse_version_range"]

_TOKEN = re.compile(r"[0-9]+|[a-z]+|[.-]", re.IGNORECASE)
# Before a release, the release itself, and after it; other words follow, in alphabetical order.
_QUALIFIERS = {
    "alpha": 0,
    "a": 0,
    "beta": 1,
    "b": 1,
    "milestone": 2,
    "m": 2,
    "rc": 3,
    "cr": 3,
    "snapshot": 4,
    "": 5,
    "ga": 5,
    "final": 5,
    "release": 5,
    "sp": 6,
}
_RELEASE = _QUALIFIERS[""]
_UNKNOWN = 7
_NUMBER = 8


class InvalidVersionRange(ValueError):
    """An invalid range. The text names it and the error."""


@total_ordering
class PluginVersion:
    """Numbers count as numbers, ``1.0`` equals ``1``, and ``2.0-rc1`` comes before ``2.0``."""

    __slots__ = ("_key", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._key = _key(text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PluginVersion) and self._key == other._key

    def __lt__(self, other: PluginVersion) -> bool:
        ours, theirs = list(self._key), list(other._key)
        length = max(len(ours), len(theirs))
        # A missing part counts as zero, or as the release, to match the part that it is compared with.
        for mine, its in zip(_padded(ours, theirs, length), _padded(theirs, ours, length), strict=True):
            if mine != its:
                return mine < its
        return False

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__


_Part = tuple[int, int, str]


def _key(text: str) -> tuple[_Part, ...]:
    parts: list[_Part] = []
    for token in _TOKEN.findall(text.lower()):
        if token.isdigit():
            parts.append((_NUMBER, int(token), ""))
        elif token not in (".", "-"):
            rank = _QUALIFIERS.get(token, _UNKNOWN)
            _drop_zeros(parts)
            parts.append((rank, 0, token if rank == _UNKNOWN else ""))
    _drop_zeros(parts)
    return tuple(parts)


def _drop_zeros(parts: list[_Part]) -> None:
    while parts and parts[-1] in ((_NUMBER, 0, ""), (_RELEASE, 0, "")):
        parts.pop()


def _padded(parts: list[_Part], other: list[_Part], length: int) -> list[_Part]:
    missing = [(_NUMBER, 0, "") if part[0] == _NUMBER else (_RELEASE, 0, "") for part in other[len(parts) : length]]
    return parts + missing


@dataclass(frozen=True, slots=True)
class _Interval:
    least: PluginVersion | None
    most: PluginVersion | None
    is_least_part: bool
    is_most_part: bool

    def __contains__(self, version: PluginVersion) -> bool:
        if self.least is not None and (version < self.least or (version == self.least and not self.is_least_part)):
            return False
        return self.most is None or version < self.most or (version == self.most and self.is_most_part)

    def __str__(self) -> str:
        if self.least is not None and self.least is self.most:
            return f"[{self.least},{self.most}]"
        opening, closing = "[" if self.is_least_part else "(", "]" if self.is_most_part else ")"
        return f"{opening}{self.least or ''},{self.most or ''}{closing}"


@dataclass(frozen=True, slots=True)
class VersionRange:
    """Without intervals it contains every version, and plugins without a version."""

    intervals: tuple[_Interval, ...] = ()

    def __contains__(self, version: str | None) -> bool:
        if not self.intervals:
            return True
        return version is not None and any(PluginVersion(version) in interval for interval in self.intervals)

    def __str__(self) -> str:
        return ",".join(map(str, self.intervals))


ANY_VERSION = VersionRange()

_INTERVAL = re.compile(r"\s*([\[(])\s*([^,\[\]()\s]*)\s*(?:(,)\s*([^,\[\]()\s]*)\s*)?([\])])\s*")


def parse_version_range(text: str | None) -> VersionRange:
    """Parse a range. Raise InvalidVersionRange."""
    if text is None or not text.strip() or text.strip().lower() == "latest":
        return ANY_VERSION
    stripped = text.strip()
    if stripped[0] not in "[(":
        if not re.fullmatch(r"[^,\[\]()\s]+", stripped):
            raise InvalidVersionRange(f"{text} is not a version; write 1.0, or a range such as [1.0,2.0)")
        version = PluginVersion(stripped)
        return VersionRange((_Interval(version, version, True, True),))
    intervals: list[_Interval] = []
    at = 0
    while True:
        match = _INTERVAL.match(stripped, at)
        if match is None:
            raise InvalidVersionRange(f"{text} is not a range of versions; write one such as [1.0,2.0)")
        intervals.append(_interval(text, match))
        at = match.end()
        if at == len(stripped):
            return VersionRange(tuple(intervals))
        if stripped[at] != ",":
            raise InvalidVersionRange(f"{text} is not a range of versions; write one such as [1.0,2.0)")
        at += 1


def _interval(text: str, match: re.Match[str]) -> _Interval:
    is_least_part, is_most_part = match[1] == "[", match[5] == "]"
    least = PluginVersion(match[2]) if match[2] else None
    if match[3] is None:
        if least is None or not (is_least_part and is_most_part):
            raise InvalidVersionRange(f"{text}: a single version is surrounded by []")
        return _Interval(least, least, True, True)
    most = PluginVersion(match[4]) if match[4] else None
    if least is not None and most is not None and most < least:
        raise InvalidVersionRange(f"{text}: {match[4]} is lower than {match[2]}")
    return _Interval(least, most, is_least_part, is_most_part)
