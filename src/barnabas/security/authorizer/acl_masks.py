"""Rules as bits by operation, and the rules of one principal in the form that decides.

A *raw* mask has the bit of each operation that is allowed in its lower half and of each that is denied in its upper
half, as the rules have them: the raw masks of all matching rules are or-ed, and only then ``effective`` draws the
conclusions (``All`` is everything, some operations imply Describe, a denial wins). So a rule is one bit, which is set
and cleared without reading any other rule.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from barnabas.common.acl import WILDCARD_NAME, AclOperation, AclPermissionType
from barnabas.common.resource import PatternType

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.common.acl import AclBinding

__all__ = ["ALL_OPERATIONS", "PatternMasks", "PrincipalMasks", "allow_bits", "deny_bits", "effective", "raw_bit"]

ALL_OPERATIONS = -1
"""Every operation, those of the future included: a mask with all bits set."""

_DENY_SHIFT = 16
_LOWER_HALF = (1 << _DENY_SHIFT) - 1
_ALL = 1 << AclOperation.ALL
_DESCRIBE = 1 << AclOperation.DESCRIBE
_DESCRIBE_CONFIGS = 1 << AclOperation.DESCRIBE_CONFIGS
_IMPLY_DESCRIBE = 1 << AclOperation.READ | 1 << AclOperation.WRITE | 1 << AclOperation.DELETE | 1 << AclOperation.ALTER
_IMPLY_DESCRIBE_CONFIGS = 1 << AclOperation.ALTER_CONFIGS


_BITS: dict[tuple[int, int, int], int] = {
    (int(pattern_type), int(operation), int(permission)): 1 << operation + shift
    for pattern_type in (PatternType.LITERAL, PatternType.PREFIXED)
    for operation in AclOperation
    if operation >= AclOperation.ALL
    for permission, shift in ((AclPermissionType.ALLOW, 0), (AclPermissionType.DENY, _DENY_SHIFT))
}


def raw_bit(binding: AclBinding) -> int:
    """Return the bit of a rule; 0 for a rule with an unknown code, which can't decide anything."""
    return _BITS.get((binding[2], binding[5], binding[6]), 0)


def allow_bits(operation: int) -> int:
    """The raw bits that name the operation in rules that allow: its own and that of All, without implications."""
    return 1 << operation | _ALL if operation < _DENY_SHIFT else _ALL


def deny_bits(operation: int) -> int:
    return allow_bits(operation) << _DENY_SHIFT


@lru_cache(maxsize=4096)
def effective(raw: int) -> int:
    """Return the allowed operations: bit n is set if the operation with code n is allowed."""
    allowed, denied = raw & _LOWER_HALF, raw >> _DENY_SHIFT
    if denied & _ALL or not allowed:
        return 0
    if allowed & _ALL:
        return ALL_OPERATIONS & ~denied
    if allowed & _IMPLY_DESCRIBE:
        allowed |= _DESCRIBE
    if allowed & _IMPLY_DESCRIBE_CONFIGS:
        allowed |= _DESCRIBE_CONFIGS
    return allowed & ~denied


class PatternMasks:
    """The raw masks of one principal at one host for one resource type, by pattern.

    Which prefixes match a name is found by one probe for each length that a prefix has.
    """

    __slots__ = ("_length_counts", "lengths", "literals", "prefixes", "wildcard")

    def __init__(self) -> None:
        self.literals: dict[str, int] = {}
        self.prefixes: dict[str, int] = {}
        self.wildcard = 0
        self.lengths: tuple[int, ...] = ()
        self._length_counts: dict[int, int] = {}

    def __bool__(self) -> bool:
        return bool(self.literals or self.prefixes or self.wildcard)

    def put(self, pattern_type: int, name: str, bit: int) -> bool:
        """Whether the bit is new."""
        if pattern_type == PatternType.PREFIXED:
            mask = self.prefixes.get(name)
            if mask is None:
                self._count_length(len(name), 1)
                mask = 0
            self.prefixes[name] = mask | bit
        elif name == WILDCARD_NAME:
            mask = self.wildcard
            self.wildcard = mask | bit
        else:
            mask = self.literals.get(name, 0)
            self.literals[name] = mask | bit
        return not mask & bit

    def has(self, pattern_type: int, name: str, bit: int) -> bool:
        if pattern_type == PatternType.PREFIXED:
            return bool(self.prefixes.get(name, 0) & bit)
        return bool((self.wildcard if name == WILDCARD_NAME else self.literals.get(name, 0)) & bit)

    def take(self, pattern_type: int, name: str, bit: int) -> None:
        is_prefix = pattern_type == PatternType.PREFIXED
        if not is_prefix and name == WILDCARD_NAME:
            self.wildcard &= ~bit
            return
        masks = self.prefixes if is_prefix else self.literals
        mask = masks[name] & ~bit
        if mask:
            masks[name] = mask
            return
        del masks[name]
        if is_prefix:
            self._count_length(len(name), -1)

    def _count_length(self, length: int, change: int) -> None:
        counts = self._length_counts
        count = counts.get(length, 0) + change
        if count > 1 or (count and change < 0):
            counts[length] = count
            return
        if count:
            counts[length] = count
        else:
            del counts[length]
        self.lengths = tuple(sorted(counts))


class PrincipalMasks:
    """The rules of one principal in the form that decides: by host, then by resource type."""

    __slots__ = ("_repeated", "by_host", "rule_count")

    def __init__(self, bindings: Iterable[AclBinding]) -> None:
        self.by_host: dict[str, dict[int, PatternMasks]] = {}
        self.rule_count = 0
        # Rules that have several ids, with the number of further ids: only a snapshot contains such rules.
        self._repeated: dict[AclBinding, int] = {}
        for binding in bindings:
            self.add(binding)

    def has(self, binding: AclBinding) -> bool:
        patterns = self.by_host.get(binding.host, {}).get(binding.resource_type)
        return patterns is not None and patterns.has(binding.pattern_type, binding.name, raw_bit(binding))

    def add(self, binding: AclBinding) -> None:
        self.rule_count += 1
        bit = raw_bit(binding)
        if not bit:
            return
        resource_type, name, pattern_type, _, host, _, _ = binding
        by_type = self.by_host.get(host)
        if by_type is None:
            by_type = self.by_host[host] = {}
        patterns = by_type.get(resource_type)
        if patterns is None:
            patterns = by_type[resource_type] = PatternMasks()
        if not patterns.put(pattern_type, name, bit):
            self._repeated[binding] = self._repeated.get(binding, 0) + 1

    def remove(self, binding: AclBinding) -> None:
        self.rule_count -= 1
        bit = raw_bit(binding)
        if not bit:
            return
        if binding in self._repeated:
            self._repeated[binding] -= 1
            if not self._repeated[binding]:
                del self._repeated[binding]
            return
        by_type = self.by_host[binding.host]
        patterns = by_type[binding.resource_type]
        patterns.take(binding.pattern_type, binding.name, bit)
        if not patterns:
            del by_type[binding.resource_type]
            if not by_type:
                del self.by_host[binding.host]
