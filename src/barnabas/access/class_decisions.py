"""Decide the access changes of a principal in a class of names, once for all classes with rules of the same shape.

Access depends only on the host, operation and permission of the matching rules; if the default is to allow, also on
whether any rule exists. So classes have the same outcome, even for different principals, if their matching rules agree
in these, and in whether each rule exists before and after the change. The authorizer's own index decides for one of
the classes and for each host that the rules name. The outcome applies to all these classes. It refers to the rules that
cause it by their positions among the matching rules, nearest pattern first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from barnabas.access.rule_comparison import RulesBeforeAndAfter
from barnabas.access.rule_set import covers
from barnabas.common.acl import WILDCARD_HOST, WILDCARD_NAME, AclBinding, AclPermissionType
from barnabas.common.resource import PatternType

__all__ = ["ClassDecisions", "Outcome", "Place", "RuleGroup", "RuleGroups"]

_Operations = tuple[int, ...]
_Shape = tuple[tuple[str, int, int, bool, bool], ...]


class Place(Enum):
    """A cause that is not one of the matching rules."""

    SUPER_USER = "super-user"
    DEFAULT = "default"


class Outcome(NamedTuple):
    """An access change at some hosts. A cause is the position of a rule, and whether the change adds the rule."""

    hosts: tuple[str, ...]
    hosts_except: tuple[str, ...]
    before: _Operations
    after: _Operations
    opened: _Operations
    closed: _Operations
    opened_by: tuple[tuple[int, bool] | Place, ...]
    closed_by: tuple[tuple[int, bool] | Place, ...]


class RuleGroup(NamedTuple):
    """The sorted rules of one principal with one pattern, and the number of their shape."""

    bindings: tuple[AclBinding, ...]
    shape: int


class RuleGroups:
    """The rules of one principal for one resource type, by pattern."""

    __slots__ = ("_lengths", "_literals", "_prefixes")

    def __init__(self, literals: dict[str, RuleGroup], prefixes: dict[str, RuleGroup]) -> None:
        self._literals = literals
        self._prefixes = prefixes
        self._lengths = sorted(set(map(len, prefixes)), reverse=True)

    def matching(self, name: str) -> list[RuleGroup]:
        """Return the groups that match the name, nearest first: literal, prefixes from the longest, wildcard."""
        literals, prefixes, size = self._literals, self._prefixes, len(name)
        found = [literals[name]] if name in literals else []
        found += [
            prefixes[start] for length in self._lengths if length <= size and (start := name[:length]) in prefixes
        ]
        if name != WILDCARD_NAME and WILDCARD_NAME in literals:
            found.append(literals[WILDCARD_NAME])
        return found


class ClassDecisions:
    def __init__(self, rules: RulesBeforeAndAfter, *, operations: Callable[[int], int]) -> None:
        """Create an empty cache. ``operations`` returns the mask of operations to examine for a resource type."""
        self._rules = rules
        self._operations = operations
        self._numbers: dict[_Shape, int] = {}
        self._outcomes: dict[tuple[int, bool, bool, bool, bool, tuple[int, ...]], tuple[Outcome, ...]] = {}

    def groups_of(self, bindings: Iterable[AclBinding]) -> RuleGroups:
        before, after = self._rules.before.rules.bindings, self._rules.after.rules.bindings
        by_pattern: dict[tuple[bool, str], list[tuple[str, int, int, bool, bool, AclBinding]]] = {}
        for binding in bindings:
            key = (binding.pattern_type == PatternType.PREFIXED, binding.name)
            row = (binding.host, binding.operation, binding.permission, binding in before, binding in after, binding)
            by_pattern.setdefault(key, []).append(row)
        literals: dict[str, RuleGroup] = {}
        prefixes: dict[str, RuleGroup] = {}
        for (is_prefix, name), rows in by_pattern.items():
            rows.sort()
            shape = tuple(row[:5] for row in rows)
            number = self._numbers.setdefault(shape, len(self._numbers))
            (prefixes if is_prefix else literals)[name] = RuleGroup(tuple(row[5] for row in rows), number)
        return RuleGroups(literals, prefixes)

    def outcomes(
        self, resource_type: int, principal: str, name: str, matching: Sequence[RuleGroup], has_rules: tuple[bool, bool]
    ) -> tuple[Outcome, ...]:
        """Return the outcomes for a name.

        ``has_rules``: whether any rule exists for the name before and after. It matters if the default is to allow.
        """
        requester = self._rules.principal_of(principal)
        was_super, is_super = self._rules.before.is_super(requester), self._rules.after.is_super(requester)
        key = (resource_type, was_super, is_super, *has_rules, tuple(group.shape for group in matching))
        known = self._outcomes.get(key)
        if known is None:
            bindings = [binding for group in matching for binding in group.bindings]
            known = self._outcomes[key] = tuple(self._decide(resource_type, principal, name, bindings))
        return known

    def _decide(
        self, resource_type: int, principal: str, name: str, matching: Sequence[AclBinding]
    ) -> Iterable[Outcome]:
        rules, among = self._rules, self._operations(resource_type)
        requester = rules.principal_of(principal)
        masks: dict[tuple[int, int], list[str]] = {}
        named = {binding.host for binding in matching} - {WILDCARD_HOST}
        for host in (WILDCARD_HOST, *sorted(named)):
            from_host = rules.other_host if host == WILDCARD_HOST else host
            was = rules.before.mask(requester, from_host, resource_type, name) & among
            is_now = rules.after.mask(requester, from_host, resource_type, name) & among
            masks.setdefault((was, is_now), []).append(host)
        for (was, is_now), hosts in masks.items():
            if was == is_now:
                continue
            is_broad = hosts[0] == WILDCARD_HOST
            here = [(at, b) for at, b in enumerate(matching) if b.host in (hosts[0], WILDCARD_HOST)]
            opened, closed = _codes(is_now & ~was), _codes(was & ~is_now)
            yield Outcome(
                (WILDCARD_HOST,) if is_broad else tuple(hosts),
                tuple(sorted(named - set(hosts))) if is_broad else (),
                _codes(was),
                _codes(is_now),
                opened,
                closed,
                self._causes(principal, here, opened, is_opening=True),
                self._causes(principal, here, closed, is_opening=False),
            )

    def _causes(
        self,
        principal: str,
        here: Sequence[tuple[int, AclBinding]],
        operations: _Operations,
        *,
        is_opening: bool,
    ) -> tuple[tuple[int, bool] | Place, ...]:
        """Return the changed rules without which the operations would not change."""
        if not operations:
            return ()
        # Access that a change closes is access that the reverse change opens.
        sides = self._rules.before.rules, self._rules.after.rules
        old, new = sides if is_opening else sides[::-1]
        if principal in old.super_users ^ new.super_users:
            return (Place.SUPER_USER,)
        found: dict[tuple[int, bool] | Place, None] = {}
        for operation in operations:
            speaking = [(at, binding) for at, binding in here if covers(binding, operation)]
            for at, binding in speaking:
                if binding.permission == AclPermissionType.DENY and binding in old.bindings:
                    found[at, not is_opening] = None
            allowing = [(at, binding) for at, binding in speaking if binding.permission == AclPermissionType.ALLOW]
            if any(binding in old.bindings for _, binding in allowing):
                continue
            granted = [(at, is_opening) for at, binding in allowing if binding in new.bindings]
            found.update(dict.fromkeys(granted))
            if not granted:
                found[Place.DEFAULT] = None
        return tuple(found)


def _codes(mask: int) -> _Operations:
    return tuple(code for code in range(mask.bit_length()) if mask >> code & 1)
