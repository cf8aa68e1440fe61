"""Which accesses a change of the rules opens and closes: all of them, and no others.

The space of (principal, host, operation, resource) is endless, but rules divide it into finitely many parts:

- Names: see ``name_classes``.
- Principals: those that have a rule of their own for a name, or are super users, are looked at one by one. All others
  (``*`` in a result: "whoever has no rule of his own for the name") only differ by nothing, as rules for ``User:*`` and
  the default are all that concerns them.
- Hosts: those that a rule in question names, and any other one.
- Operations: those of the resource type, and those that a changed rule names besides.

Only parts that a changed rule covers can change, so only they are looked at. Each is decided twice by the
authorizer's own index, before and after; implied operations, denials and the default are its business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cached_property
from typing import NamedTuple

from barnabas.access.any_resource import AnyResourceChange, any_resource_changes
from barnabas.access.name_classes import NameClass, NameSpace, Pattern, PatternTable
from barnabas.access.policy import Rule, covers
from barnabas.access.rule_comparison import EVERYBODY_ELSE, AccessRules, RulesBeforeAndAfter
from barnabas.access.rule_lookup import RuleLookup
from barnabas.common.acl import WILDCARD_HOST, WILDCARD_PRINCIPAL, AclBinding, AclOperation, AclPermissionType
from barnabas.security.authorizer.authorized_operations import SUPPORTED_MASKS, supported_mask

__all__ = ["AccessChange", "AccessRules", "AnyResourceChange", "Cause", "CauseKind", "ClassChange", "Proof", "prove"]

_RULES_SHOWN_MAX = 20
_Operations = tuple[int, ...]


class CauseKind(Enum):
    """Why an access changed. The values are part of the JSON form."""

    RULE_ADDED = "rule-added"
    RULE_REMOVED = "rule-removed"
    FIRST_RULE = "first-rule"
    """The resource had no rule at all, and the default was to allow."""
    LAST_RULE = "last-rule"
    """The resource has no rule any more, and the default is to allow."""
    SUPER_USER_ADDED = "super-user-added"
    SUPER_USER_REMOVED = "super-user-removed"
    DEFAULT_CHANGED = "default-changed"


class Cause(NamedTuple):
    kind: CauseKind
    binding: AclBinding | None = None


class ClassChange(NamedTuple):
    """A class of names where the access changes, and the changed rules without which it would not."""

    names: NameClass
    opened_by: tuple[Cause, ...]
    closed_by: tuple[Cause, ...]


class AccessChange(NamedTuple):
    """What changes for a principal at some hosts, in the same way on all names of some classes."""

    resource_type: int
    principal: str
    """``*``: whoever has no rule of his own for the name."""
    hosts: tuple[str, ...]
    """``("*",)``: every host but ``hosts_except``."""
    hosts_except: tuple[str, ...]
    before: _Operations
    after: _Operations
    opened: _Operations
    closed: _Operations
    classes: tuple[ClassChange, ...]


class Proof(NamedTuple):
    changes: tuple[AccessChange, ...]
    any_resource: tuple[AnyResourceChange, ...]
    classes_examined: int

    @property
    def opens(self) -> bool:
        return any(c.opened for c in self.changes) or any(c.is_allowed for c in self.any_resource)

    @property
    def closes(self) -> bool:
        return any(c.closed for c in self.changes) or any(not c.is_allowed for c in self.any_resource)


def prove(before: AccessRules, after: AccessRules) -> Proof:
    """The exact difference between what two sets of rules allow."""
    comparison = _Comparison(before, after)
    changes = [change for resource_type in comparison.types for change in comparison.changes_of(resource_type)]
    return Proof(_merged(changes), tuple(any_resource_changes(comparison.rules)), comparison.examined)


class _Comparison:
    def __init__(self, before: AccessRules, after: AccessRules) -> None:
        self.rules = RulesBeforeAndAfter(before, after)
        self.before, self.after = self.rules.before, self.rules.after
        self.examined = 0
        self._tables: dict[tuple[int, str], PatternTable] = {}
        self._lookups: dict[tuple[int, str], RuleLookup] = {}
        self._operations_by_type: dict[int, int] = {}

    @cached_property
    def types(self) -> list[int]:
        is_everywhere = self.rules.is_default_changed or self.before.rules.super_users != self.after.rules.super_users
        return sorted(set(SUPPORTED_MASKS) if is_everywhere else set(self.rules.changed_by_type))

    # ---- what has to be looked at ----------------------------------------------------------------

    def changes_of(self, resource_type: int) -> Iterator[AccessChange]:
        changed = self.rules.changed_by_type.get(resource_type, {})
        for principal in sorted(
            {*self.rules.by_type.get(resource_type, ()), *self.rules.special} - {WILDCARD_PRINCIPAL}
        ):
            for name_class in self._classes_of(resource_type, principal, changed):
                yield from self._changes_in(name_class, principal)
        for name_class in self._classes_of_everybody_else(resource_type, changed):
            yield from self._changes_in(name_class, EVERYBODY_ELSE)

    def _classes_of(
        self, resource_type: int, principal: str, changed: Mapping[str, Sequence[AclBinding]]
    ) -> Iterator[NameClass]:
        """Where something may change for a principal because of its own rules or beside them."""
        is_super = [principal in side.rules.super_users for side in (self.before, self.after)]
        if all(is_super):
            return
        if any(is_super):
            yield from self._space(resource_type, principal).classes()
            return
        own = _patterns(changed.get(principal, ()))
        found: set[NameClass] = set()
        if own:
            space = self._space(resource_type, principal)
            found = {name_class for pattern in own for name_class in space.within(*pattern)}
        if WILDCARD_PRINCIPAL in changed and principal in self.rules.by_type.get(resource_type, ()):
            found |= self._classes_beside(resource_type, principal, changed[WILDCARD_PRINCIPAL])
        yield from sorted(found)

    def _classes_beside(self, resource_type: int, principal: str, everybodys: Sequence[AclBinding]) -> set[NameClass]:
        """Where a changed rule for everybody meets rules of the principal."""
        touched = PatternTable(_patterns(everybodys))
        mine = [
            pattern
            for pattern in _patterns(self.rules.by_type[resource_type][principal])
            if touched.may_touch(*pattern)
        ]
        space = self._space(resource_type, principal)
        return {
            name_class
            for pattern in mine
            for name_class in space.within(*pattern)
            if touched.matches(name_class.example)
        }

    def _classes_of_everybody_else(
        self, resource_type: int, changed: Mapping[str, Sequence[AclBinding]]
    ) -> Iterable[NameClass]:
        space = self._space(resource_type, WILDCARD_PRINCIPAL)
        if self.rules.is_default_changed:
            return space.classes()
        if self.rules.is_default_open:
            touching = [binding for bindings in changed.values() for binding in bindings]
        else:
            touching = list(changed.get(WILDCARD_PRINCIPAL, ()))
        return sorted({name_class for pattern in _patterns(touching) for name_class in space.within(*pattern)})

    def _space(self, resource_type: int, principal: str) -> NameSpace:
        """Split as finely as the principal's decisions need; an open default depends on everybody's rules."""
        if self.rules.is_default_open:
            return NameSpace(resource_type, [self._table(resource_type, "")])
        principals = dict.fromkeys((principal, WILDCARD_PRINCIPAL))
        return NameSpace(resource_type, [self._table(resource_type, text) for text in principals])

    def _table(self, resource_type: int, principal: str) -> PatternTable:
        key = (resource_type, principal)
        if key not in self._tables:
            by_principal = self.rules.by_type.get(resource_type, {})
            groups = by_principal.values() if not principal else [by_principal.get(principal, ())]
            self._tables[key] = PatternTable(_patterns(binding for group in groups for binding in group))
        return self._tables[key]

    # ---- what changes there ----------------------------------------------------------------------

    def _changes_in(self, name_class: NameClass, principal: str) -> Iterator[AccessChange]:
        self.examined += 1
        resource_type, name = name_class.resource_type, name_class.example
        matching = self._matching(resource_type, principal, name)
        among = self._operations(resource_type)
        asked = self.rules.asked(principal)
        masks: dict[tuple[int, int], list[str]] = {}
        named = {binding.host for binding in matching} - {WILDCARD_HOST}
        for host in (WILDCARD_HOST, *sorted(named)):
            from_host = self.rules.other_host if host == WILDCARD_HOST else host
            was = self.before.mask(asked, from_host, resource_type, name) & among
            is_now = self.after.mask(asked, from_host, resource_type, name) & among
            masks.setdefault((was, is_now), []).append(host)
        for (was, is_now), hosts in masks.items():
            if was == is_now:
                continue
            is_broad = hosts[0] == WILDCARD_HOST
            here = [binding for binding in matching if binding.host in (hosts[0], WILDCARD_HOST)]
            opened, closed = _codes(is_now & ~was), _codes(was & ~is_now)
            yield AccessChange(
                resource_type,
                principal,
                (WILDCARD_HOST,) if is_broad else tuple(hosts),
                tuple(sorted(named - set(hosts))) if is_broad else (),
                _codes(was),
                _codes(is_now),
                opened,
                closed,
                (
                    ClassChange(
                        name_class,
                        self._causes(principal, name_class, here, opened, is_opening=True),
                        self._causes(principal, name_class, here, closed, is_opening=False),
                    ),
                ),
            )

    def _matching(self, resource_type: int, principal: str, name: str) -> list[AclBinding]:
        """The rules, before or after, that speak to the principal about the name."""
        texts = (WILDCARD_PRINCIPAL,) if principal == EVERYBODY_ELSE else (principal, WILDCARD_PRINCIPAL)
        found: list[AclBinding] = []
        for text in texts:
            key = (resource_type, text)
            if key not in self._lookups:
                self._lookups[key] = RuleLookup(map(Rule, self.rules.by_type.get(resource_type, {}).get(text, ())))
            found += [rule.binding for rule in self._lookups[key].matching(name)]
        return found

    def _operations(self, resource_type: int) -> int:
        """A mask of those that are looked at."""
        known = self._operations_by_type.get(resource_type)
        if known is not None:
            return known
        mask = supported_mask(resource_type)
        for bindings in self.rules.changed_by_type.get(resource_type, {}).values():
            for binding in bindings:
                if binding.operation > AclOperation.ALL:
                    mask |= 1 << binding.operation
        self._operations_by_type[resource_type] = mask
        return mask

    def _causes(
        self,
        principal: str,
        name_class: NameClass,
        here: Sequence[AclBinding],
        operations: _Operations,
        *,
        is_opening: bool,
    ) -> tuple[Cause, ...]:
        """The changed rules without which the operations would be as they were."""
        if not operations:
            return ()
        # What closes is what would open if time ran backwards.
        old, new = (self.before, self.after) if is_opening else (self.after, self.before)
        was_added, was_removed = CauseKind.RULE_ADDED, CauseKind.RULE_REMOVED
        if not is_opening:
            was_added, was_removed = was_removed, was_added
        if principal in old.rules.super_users ^ new.rules.super_users:
            return (Cause(CauseKind.SUPER_USER_ADDED if is_opening else CauseKind.SUPER_USER_REMOVED),)
        found: dict[Cause, None] = {}
        for operation in operations:
            speaking = [binding for binding in here if covers(binding, operation)]
            denied = [b for b in speaking if b.permission == AclPermissionType.DENY and b in old.rules.bindings]
            found.update(dict.fromkeys(Cause(was_removed, binding) for binding in denied))
            allowing = [b for b in speaking if b.permission == AclPermissionType.ALLOW]
            if any(binding in old.rules.bindings for binding in allowing):
                continue
            granted = [binding for binding in allowing if binding in new.rules.bindings]
            found.update(dict.fromkeys(Cause(was_added, binding) for binding in granted))
            if not granted:
                found.update(dict.fromkeys(self._default_causes(name_class, is_opening=is_opening)))
        return tuple(found)

    def _default_causes(self, name_class: NameClass, *, is_opening: bool) -> list[Cause]:
        """The default decides about the name on one side only: because its rules came or went, or it changed itself."""
        key = (name_class.resource_type, "")
        if key not in self._lookups:
            groups = self.rules.changed_by_type.get(name_class.resource_type, {}).values()
            self._lookups[key] = RuleLookup(Rule(binding) for group in groups for binding in group)
        kind = CauseKind.LAST_RULE if is_opening else CauseKind.FIRST_RULE
        rules = [Cause(kind, rule.binding) for rule in self._lookups[key].matching(name_class.example)]
        return rules[:_RULES_SHOWN_MAX] if rules else [Cause(CauseKind.DEFAULT_CHANGED)]


def _merged(changes: Iterable[AccessChange]) -> tuple[AccessChange, ...]:
    """Changes that differ in their names only, as one."""
    classes: dict[AccessChange, list[ClassChange]] = {}
    for change in changes:
        classes.setdefault(change._replace(classes=()), []).extend(change.classes)
    return tuple(change._replace(classes=tuple(names)) for change, names in classes.items())


def _patterns(bindings: Iterable[AclBinding]) -> set[Pattern]:
    return {(binding.name, binding.pattern_type) for binding in bindings}


def _codes(mask: int) -> _Operations:
    return tuple(code for code in range(mask.bit_length()) if mask >> code & 1)
