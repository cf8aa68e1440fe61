"""The decisions about one principal at one host, as masks that are cached until a rule changes them.

A view refers to the compiled rules that apply to it (those of its principal and those of all principals, for its host
and for any host). So a change of a rule takes effect immediately; only the cached decisions have to be dropped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from typing import TYPE_CHECKING

from barnabas.common.acl import WILDCARD_HOST, WILDCARD_NAME
from barnabas.common.resource import PatternType
from barnabas.security.authorizer.acl_masks import allow_bits, deny_bits

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.security.authorizer.acl_masks import PatternMasks, PrincipalMasks

__all__ = ["AclView"]

_Probes = tuple[int, tuple[tuple[Callable[[str, int], int], Callable[[str, int], int], tuple[int, ...]], ...]]
"""The wildcard's raw mask, and for each source the lookups of literals and of prefixes, with the prefix lengths."""

_LAST_CHARACTER = chr(0x10FFFF)

_RUN_COST = 8
"""Finding one pattern among sorted names costs about as much as looking up this many names among the patterns."""


class AclView:
    """``masks`` holds cached decisions by resource type and name; the view's owner fills and bounds it."""

    __slots__ = ("_any_resource", "_host", "_prefix_runs", "_principals", "_probes", "_sources", "masks")

    def __init__(self, host: str, principals: Sequence[PrincipalMasks]) -> None:
        """``principals``: the rules of the principal itself and of all principals."""
        self._host = host
        self._principals = principals
        self.masks: dict[int, dict[str, int]] = {}
        self._sources: dict[int, tuple[PatternMasks, ...]] = {}
        self._probes: dict[int, _Probes] = {}
        self._any_resource: dict[tuple[int, int], bool] = {}
        self._prefix_runs: dict[int, list[tuple[str, int]]] = {}

    def forget(self, resource_type: int, pattern_type: int, name: str) -> None:
        """Drop cached decisions after a rule on this pattern was added or removed."""
        masks = self.masks.get(resource_type)
        if masks:
            if pattern_type == PatternType.LITERAL and name != WILDCARD_NAME:
                masks.pop(name, None)
            else:
                masks.clear()
        self._sources.pop(resource_type, None)
        self._probes.pop(resource_type, None)
        self._prefix_runs.pop(resource_type, None)
        if self._any_resource:
            self._any_resource.clear()

    def _sources_of(self, resource_type: int) -> tuple[PatternMasks, ...]:
        sources = self._sources.get(resource_type)
        if sources is None:
            found = []
            for principal in self._principals:
                for host in {self._host, WILDCARD_HOST}:
                    by_type = principal.by_host.get(host)
                    patterns = None if by_type is None else by_type.get(resource_type)
                    if patterns is not None:
                        found.append(patterns)
            sources = self._sources[resource_type] = tuple(found)
        return sources

    def raw_mask(self, resource_type: int, name: str) -> int:
        """Return the mask of the rules that match the resource: one traversal of name, prefixes and wildcard."""
        try:
            raw, probes = self._probes[resource_type]
        except KeyError:
            raw, probes = self._probes_of(resource_type)
        for literal_mask, prefix_mask, lengths in probes:
            raw |= literal_mask(name, 0)
            for length in lengths:
                # A slice beyond the end is the name itself, which is a prefix of its own.
                raw |= prefix_mask(name[:length], 0)
        return raw

    def _probes_of(self, resource_type: int) -> _Probes:
        """Return the lookups of the sources, for the fast path. They do not change until ``forget``."""
        wildcard = 0
        probes = []
        for patterns in self._sources_of(resource_type):
            wildcard |= patterns.wildcard
            if patterns.literals or patterns.prefixes:
                probes.append((patterns.literals.get, patterns.prefixes.get, patterns.lengths))
        result = self._probes[resource_type] = wildcard, tuple(probes)
        return result

    def raw_masks(self, resource_type: int, names: Sequence[str]) -> list[int]:
        """Return ``raw_mask`` of each of many names, which must be sorted: the names with a prefix are adjacent."""
        sources = self._sources_of(resource_type)
        wildcard = 0
        prefix_count = probe_count = 0
        for patterns in sources:
            wildcard |= patterns.wildcard
            prefix_count += len(patterns.prefixes)
            probe_count += len(patterns.lengths) * len(names)
        masks = [wildcard] * len(names)
        if prefix_count * _RUN_COST <= probe_count:
            self._add_runs(masks, names, resource_type, sources)
        else:
            for patterns in sources:
                for length in patterns.lengths:
                    get = patterns.prefixes.get
                    masks = [mask | get(name[:length], 0) for mask, name in zip(masks, names, strict=True)]
        for patterns in sources:
            if len(patterns.literals) * _RUN_COST <= len(names):
                _add_few_literals(masks, names, patterns.literals)
            elif patterns.literals:
                get = patterns.literals.get
                masks = [mask | get(name, 0) for mask, name in zip(masks, names, strict=True)]
        return masks

    def _add_runs(
        self, masks: list[int], names: Sequence[str], resource_type: int, sources: tuple[PatternMasks, ...]
    ) -> None:
        for prefix, mask in self._runs(resource_type, sources):
            start = bisect_left(names, prefix)
            if start < len(names) and names[start].startswith(prefix):
                end = bisect_left(names, prefix + _LAST_CHARACTER, start)
                while end < len(names) and names[end].startswith(prefix):
                    end += 1  # Only names with U+10FFFF right after the prefix.
                masks[start:end] = [masks[start] | mask] * (end - start)

    def _runs(self, resource_type: int, sources: tuple[PatternMasks, ...]) -> list[tuple[str, int]]:
        """Return the prefixes in order, each with the mask of it and its own prefixes. Runs are nested or disjoint."""
        runs = self._prefix_runs.get(resource_type)
        if runs is None:
            merged: dict[str, int] = {}
            for patterns in sources:
                for prefix, mask in patterns.prefixes.items():
                    merged[prefix] = merged.get(prefix, 0) | mask
            runs = self._prefix_runs[resource_type] = []
            around: list[tuple[str, int]] = []
            for prefix in sorted(merged):
                while around and not prefix.startswith(around[-1][0]):
                    around.pop()
                mask = merged[prefix] | (around[-1][1] if around else 0)
                around.append((prefix, mask))
                runs.append((prefix, mask))
        return runs

    def allows_any(self, operation: int, resource_type: int) -> bool:
        """Return whether some pattern is allowed that no denial covers (KIP-679); implications do not apply."""
        key = (operation, resource_type)
        known = self._any_resource.get(key)
        if known is None:
            known = self._any_resource[key] = _allows_any(
                self._sources_of(resource_type), allow_bits(operation), deny_bits(operation)
            )
        return known


def _add_few_literals(masks: list[int], names: Sequence[str], literals: dict[str, int]) -> None:
    for literal, mask in literals.items():
        index = bisect_left(names, literal)
        while index < len(names) and names[index] == literal:
            masks[index] |= mask
            index += 1


def _allows_any(sources: tuple[PatternMasks, ...], allow: int, deny: int) -> bool:
    wildcard = 0
    for patterns in sources:
        wildcard |= patterns.wildcard
    if wildcard & deny:
        return False
    if wildcard & allow:
        return True

    def is_dominated(text: str) -> bool:
        for patterns in sources:
            for length in patterns.lengths:
                if length and patterns.prefixes.get(text[:length], 0) & deny:
                    return True
        return False

    for patterns in sources:
        for name, mask in patterns.literals.items():
            if mask & allow and not any(other.literals.get(name, 0) & deny for other in sources):
                if not is_dominated(name):
                    return True
        for prefix, mask in patterns.prefixes.items():
            if mask & allow and not is_dominated(prefix):
                return True
    return False
