"""Split the infinite space of names into the finitely many classes that rules distinguish.

Rules name literals and prefixes. Every set of rules treats two names alike if neither is the literal of a rule, and
their longest prefix in use is the same. So these are the classes:

- for each literal, the class of this name;
- for each prefix, the names that begin with it, but not with a longer prefix, and that are not literals;
- all other names.

Each class has an example. The authorizer decides about the example as in a real request, and the decision applies to
the whole class.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import count
from string import ascii_letters
from typing import NamedTuple

from barnabas.common.acl import WILDCARD_NAME
from barnabas.common.resource import CLUSTER_NAME, PatternType, ResourceType

__all__ = ["NameClass", "NameSpace", "Pattern", "PatternTable", "does_match", "outermost"]

Pattern = tuple[str, int]
"""Name and pattern type of a rule."""

_EXAMPLES = ("example", "x", "0")


class NameClass(NamedTuple):
    """Names of one resource type that the rules do not distinguish."""

    resource_type: int
    name: str
    pattern_type: int
    """LITERAL: this name. PREFIXED: the names that begin with ``name`` and don't belong to a narrower class."""
    example: str

    @property
    def is_rest(self) -> bool:
        """Whether only the wildcard matches these names."""
        return self.pattern_type == PatternType.PREFIXED and not self.name


class PatternTable:
    """The literals and prefixes of some rules of one resource type. The wildcard does not distinguish names."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self.literals: set[str] = set()
        self.prefixes: set[str] = set()
        self.has_wildcard = False
        for name, pattern_type in patterns:
            if pattern_type == PatternType.PREFIXED:
                self.prefixes.add(name)
            elif name == WILDCARD_NAME:
                self.has_wildcard = True
            else:
                self.literals.add(name)
        self._lengths = sorted(set(map(len, self.prefixes)), reverse=True)

    def patterns(self) -> Iterator[Pattern]:
        """Yield the patterns, except the wildcard."""
        yield from ((name, int(PatternType.PREFIXED)) for name in self.prefixes)
        yield from ((name, int(PatternType.LITERAL)) for name in self.literals)

    @cached_property
    def sorted_literals(self) -> list[str]:
        return sorted(self.literals)

    @cached_property
    def sorted_prefixes(self) -> list[str]:
        return sorted(self.prefixes)

    def longest_prefix(self, name: str) -> int:
        """Return the length of the longest prefix in the table that the name begins with, or -1 if none exists."""
        for length in self._lengths:
            if length <= len(name) and name[:length] in self.prefixes:
                return length
        return -1

    def matches(self, name: str) -> bool:
        return self.has_wildcard or name in self.literals or self.longest_prefix(name) >= 0

    def may_touch(self, name: str, pattern_type: int) -> bool:
        """Return whether a name exists that matches this pattern and a pattern of the table."""
        if pattern_type == PatternType.LITERAL and name != WILDCARD_NAME:
            return self.matches(name)
        if pattern_type == PatternType.LITERAL:
            return self.has_wildcard or bool(self.literals or self.prefixes)
        return (
            self.matches(name)
            or any(_starting(self.sorted_literals, name))
            or any(True for _ in _starting(self.sorted_prefixes, name))
        )


def outermost(patterns: Iterable[Pattern]) -> list[Pattern]:
    """Return the patterns that are not within another of them, sorted by name."""
    found: list[Pattern] = []
    ordered = sorted(patterns, key=lambda pattern: (pattern[0], pattern[1] != PatternType.PREFIXED))
    if any(pattern == (WILDCARD_NAME, PatternType.LITERAL) for pattern in ordered):
        return [(WILDCARD_NAME, int(PatternType.LITERAL))]
    start: str | None = None
    for name, pattern_type in ordered:
        if start is not None and name.startswith(start):
            continue
        if pattern_type == PatternType.PREFIXED:
            start = name
        found.append((name, pattern_type))
    return found


class NameSpace:
    """The classes into which the patterns of all ``tables`` together divide the names of a resource type."""

    def __init__(self, resource_type: int, tables: Sequence[PatternTable]) -> None:
        self.resource_type = resource_type
        self._tables = tables

    def classes(self) -> Iterator[NameClass]:
        return self.within(WILDCARD_NAME, PatternType.LITERAL)

    def within(self, name: str, pattern_type: int) -> Iterator[NameClass]:
        """Yield the classes of the names that match a pattern, which is in one of the tables or is the wildcard."""
        if self.resource_type == ResourceType.CLUSTER:
            if does_match(name, pattern_type, CLUSTER_NAME):
                yield self._literal(CLUSTER_NAME)
            return
        if pattern_type == PatternType.LITERAL and name != WILDCARD_NAME:
            if name:
                yield self._literal(name)
            return
        start = name if pattern_type == PatternType.PREFIXED else ""
        literals = {literal for table in self._tables for literal in _starting(table.sorted_literals, start)}
        for literal in sorted(literals):
            if literal:
                yield self._literal(literal)
        prefixes = {prefix for table in self._tables for prefix in _starting(table.sorted_prefixes, start)} | {start}
        for prefix in sorted(prefixes):
            yield self.class_of_prefix(prefix)

    def class_of_prefix(self, prefix: str) -> NameClass:
        return NameClass(self.resource_type, prefix, PatternType.PREFIXED, self._example(prefix))

    def _literal(self, name: str) -> NameClass:
        return NameClass(self.resource_type, name, PatternType.LITERAL, name)

    def _example(self, prefix: str) -> str:
        for suffix in _EXAMPLES:
            if self._is_in_class(prefix + suffix, prefix):
                return prefix + suffix
        for letter in ascii_letters:
            for number in range(3):
                candidate = f"{prefix}{letter}{number or ''}"
                if self._is_in_class(candidate, prefix):
                    return candidate
        # More characters than patterns exist, so a character exists that begins no longer pattern.
        return next(name for code in count(0x10000) if self._is_in_class(name := prefix + chr(code), prefix))

    def _is_in_class(self, name: str, prefix: str) -> bool:
        return all(name not in table.literals and table.longest_prefix(name) <= len(prefix) for table in self._tables)


def does_match(name: str, pattern_type: int, resource_name: str) -> bool:
    """Return whether a rule's pattern matches a resource's name (KIP-290)."""
    if pattern_type == PatternType.PREFIXED:
        return resource_name.startswith(name)
    return pattern_type == PatternType.LITERAL and name in (resource_name, WILDCARD_NAME)


def _starting(names: Sequence[str], start: str) -> Iterator[str]:
    """Yield the names that begin with ``start``, sorted as ``names``."""
    for index in range(bisect_left(names, start), len(names)):
        if not names[index].startswith(start):
            return
        yield names[index]
