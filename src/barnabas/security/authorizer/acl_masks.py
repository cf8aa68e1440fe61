"""What rules say about operations, as bits, and the rules of one principal in the form that decides.

A *raw* mask has the bit of each operation that is allowed in its lower half and of each that is denied in its upper
half, as the rules have them: the raw masks of all matching rules are or-ed, and only then ``effective`` draws the
conclusions (``All`` is everything, some operations imply Describe, a denial wins). So a rule is one bit, put and
taken away without a look at any other rule.
"""

from __future__ import annotations

from collections import Counter
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


def raw_bit(binding: AclBinding) -> int:
    """The bit of a rule; 0 for one with a code that we don't know, which can't decide anything."""
    operation = binding.operation
    if not AclOperation.ALL <= operation < _DENY_SHIFT:
        return 0
    if binding.pattern_type not in (PatternType.LITERAL, PatternType.PREFIXED):
        return 0
    if binding.permission == AclPermissionType.ALLOW:
        return 1 << operation
    return 1 << operation + _DENY_SHIFT if binding.permission == AclPermissionType.DENY else 0


def allow_bits(operation: int) -> int:
    """The raw bits that name the operation in rules that allow: its own and that of All, without implications."""
    return 1 << operation | _ALL if operation < _DENY_SHIFT else _ALL


def deny_bits(operation: int) -> int:
    return allow_bits(operation) << _DENY_SHIFT


@lru_cache(maxsize=4096)
def effective(raw: int) -> int:
    """The operations that are allowed: bit n is set when the operation with code n is."""
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
        self._length_counts: Counter[int] = Counter()

    def __bool__(self) -> bool:
        return bool(self.literals or self.prefixes or self.wildcard)

    def has(self, binding: AclBinding, bit: int) -> bool:
        if binding.pattern_type == PatternType.PREFIXED:
            return bool(self.prefixes.get(binding.name, 0) & bit)
        mask = self.wildcard if binding.name == WILDCARD_NAME else self.literals.get(binding.name, 0)
        return bool(mask & bit)

    def add(self, binding: AclBinding, bit: int) -> None:
        name = binding.name
        if binding.pattern_type == PatternType.PREFIXED:
            mask = self.prefixes.get(name)
            if mask is None:
                self._count_length(len(name), 1)
            self.prefixes[name] = (mask or 0) | bit
        elif name == WILDCARD_NAME:
            self.wildcard |= bit
        else:
            self.literals[name] = self.literals.get(name, 0) | bit

    def remove(self, binding: AclBinding, bit: int) -> None:
        name = binding.name
        if binding.pattern_type != PatternType.PREFIXED and name == WILDCARD_NAME:
            self.wildcard &= ~bit
            return
        is_prefix = binding.pattern_type == PatternType.PREFIXED
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
        before = counts[length]
        counts[length] = before + change
        if before == 0 or before + change == 0:
            if before:
                del counts[length]
            self.lengths = tuple(sorted(counts))


class PrincipalMasks:
    """The rules of one principal in the form that decides: by host, then by resource type."""

    __slots__ = ("_repeated", "by_host", "rule_count")

    def __init__(self, bindings: Iterable[AclBinding]) -> None:
        self.by_host: dict[str, dict[int, PatternMasks]] = {}
        self.rule_count = 0
        # Rules that stand under several ids, with how many there are besides the first: only a snapshot brings such.
        self._repeated: Counter[AclBinding] = Counter()
        for binding in bindings:
            if self.has(binding):
                self._repeated[binding] += 1
                self.rule_count += 1
            else:
                self.add(binding)

    def has(self, binding: AclBinding) -> bool:
        bit = raw_bit(binding)
        patterns = self.by_host.get(binding.host, {}).get(binding.resource_type)
        return patterns is not None and patterns.has(binding, bit)

    def add(self, binding: AclBinding) -> None:
        self.rule_count += 1
        bit = raw_bit(binding)
        if not bit:
            return
        by_type = self.by_host.get(binding.host)
        if by_type is None:
            by_type = self.by_host[binding.host] = {}
        patterns = by_type.get(binding.resource_type)
        if patterns is None:
            patterns = by_type[binding.resource_type] = PatternMasks()
        patterns.add(binding, bit)

    def remove(self, binding: AclBinding) -> None:
        self.rule_count -= 1
        if binding in self._repeated:
            self._repeated[binding] -= 1
            self._repeated = +self._repeated
            return
        bit = raw_bit(binding)
        if not bit:
            return
        by_type = self.by_host[binding.host]
        patterns = by_type[binding.resource_type]
        patterns.remove(binding, bit)
        if not patterns:
            del by_type[binding.resource_type]
            if not by_type:
                del self.by_host[binding.host]
