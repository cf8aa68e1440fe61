"""Find the rules that match a name without examining all rules: one lookup for each prefix length."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.access.rule_set import Rule
from barnabas.common.acl import WILDCARD_NAME
from barnabas.common.resource import PatternType

__all__ = ["RuleLookup"]


class RuleLookup:
    """Looks up the rules of one resource type."""

    def __init__(self, rules: Iterable[Rule]) -> None:
        self._literals: dict[str, list[Rule]] = {}
        self._prefixes: dict[str, list[Rule]] = {}
        for rule in rules:
            by_name = self._prefixes if rule.binding.pattern_type == PatternType.PREFIXED else self._literals
            by_name.setdefault(rule.binding.name, []).append(rule)
        self._lengths = sorted({len(name) for name in self._prefixes})

    def matching(self, name: str) -> list[Rule]:
        """Return the matching rules, nearest first: by name, by prefixes from the longest, by the wildcard."""
        found = list(self._literals.get(name, ()))
        for length in reversed(self._lengths):
            if length <= len(name):
                found += self._prefixes.get(name[:length], ())
        if name != WILDCARD_NAME:
            found += self._literals.get(WILDCARD_NAME, ())
        return found
