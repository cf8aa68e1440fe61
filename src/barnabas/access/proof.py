"""Which accesses a change of the rules opens and closes: all of them, and no others.

The space of (principal, host, operation, resource) is endless, but rules divide it into finitely many parts:

- Names: see ``name_classes``.
- Principals: those that have a rule of their own for a name, or are super users, are looked at one by one. All others
  (``*`` in a result: "whoever has no rule of his own for the name") only differ by nothing, as rules for ``User:*`` and
  the default are all that concerns them.
- Hosts: those that a rule in question names, and any other one.
- Operations: those of the resource type, and those that a changed rule names besides.

Only parts that a changed rule covers can change, so only they are looked at. What holds in them is decided by the
authorizer's own index, before and after (see ``class_decisions``); implied operations, denials and the default are its
business.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from functools import cache, cached_property
from typing import NamedTuple

from barnabas.access.any_resource import AnyResourceChange, any_resource_changes
from barnabas.access.class_decisions import ClassDecisions, Outcome, Place, RuleGroups
from barnabas.access.name_classes import NameClass, NameSpace, Pattern, PatternTable, outermost
from barnabas.access.policy import Rule
from barnabas.access.rule_comparison import EVERYBODY_ELSE, AccessRules, RulesBeforeAndAfter, Side
from barnabas.access.rule_lookup import RuleLookup
from barnabas.common.acl import WILDCARD_PRINCIPAL, AclBinding, AclOperation
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


def prove(before: AccessRules | Side, after: AccessRules | Side) -> Proof:
    """The exact difference between what two sets of rules allow."""
    comparison = _Comparison(before, after)
    for resource_type in comparison.types:
        comparison.look_at(resource_type)
    return Proof(comparison.found(), tuple(any_resource_changes(comparison.rules)), comparison.examined)


class _Comparison:
    def __init__(self, before: AccessRules | Side, after: AccessRules | Side) -> None:
        self.rules = RulesBeforeAndAfter(before, after)
        self.before, self.after = self.rules.before, self.rules.after
        self.examined = 0
        self._tables: dict[tuple[int, str], PatternTable] = {}
        self._changed_lookups: dict[int, RuleLookup] = {}
        self._groups_by_principal: dict[tuple[int, str], RuleGroups] = {}
        self._open_spaces: dict[int, NameSpace] = {}
        self._sides: dict[int, tuple[PatternTable, PatternTable]] = {}
        self._decisions = ClassDecisions(self.rules, operations=cache(self._operations))
        self._found: dict[tuple[int, str, int], tuple[Outcome, list[ClassChange]]] = {}

    @cached_property
    def types(self) -> list[int]:
        is_everywhere = self.rules.is_default_changed or self.before.rules.super_users != self.after.rules.super_users
        return sorted(set(SUPPORTED_MASKS) if is_everywhere else set(self.rules.changed_by_type))

    # ---- what has to be looked at ----------------------------------------------------------------

    def look_at(self, resource_type: int) -> None:
        changed = self.rules.changed_by_type.get(resource_type, {})
        for principal in sorted(
            {*self.rules.by_type.get(resource_type, ()), *self.rules.special} - {WILDCARD_PRINCIPAL}
        ):
            for name_class in self._classes_of(resource_type, principal, changed):
                self._look_at(name_class, principal)
        for name_class in self._classes_of_everybody_else(resource_type, changed):
            self._look_at(name_class, EVERYBODY_ELSE)

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
            found = set(self._classes_in(resource_type, principal, own))
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
        return {
            name_class
            for name_class in self._classes_in(resource_type, principal, mine)
            if touched.matches(name_class.example)
        }

    def _classes_of_everybody_else(
        self, resource_type: int, changed: Mapping[str, Sequence[AclBinding]]
    ) -> Iterable[NameClass]:
        if self.rules.is_default_changed:
            return self._space(resource_type, WILDCARD_PRINCIPAL).classes()
        if self.rules.is_default_open:
            touching = [binding for bindings in changed.values() for binding in bindings]
        else:
            touching = list(changed.get(WILDCARD_PRINCIPAL, ()))
        return sorted(set(self._classes_in(resource_type, WILDCARD_PRINCIPAL, _patterns(touching))))

    def _classes_in(self, resource_type: int, principal: str, patterns: Iterable[Pattern]) -> Iterator[NameClass]:
        space = self._space(resource_type, principal)
        for pattern in outermost(patterns):
            yield from space.within(*pattern)

    def _space(self, resource_type: int, principal: str) -> NameSpace:
        """Split as finely as the principal's decisions need; an open default depends on everybody's rules."""
        if self.rules.is_default_open:
            if resource_type not in self._open_spaces:
                self._open_spaces[resource_type] = NameSpace(resource_type, [self._table(resource_type, "")])
            return self._open_spaces[resource_type]
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

    def _look_at(self, name_class: NameClass, principal: str) -> None:
        self.examined += 1
        resource_type, name = name_class.resource_type, name_class.example
        matching = self._groups(resource_type, WILDCARD_PRINCIPAL).matching(name)
        if ":" in principal:
            matching = self._groups(resource_type, principal).matching(name) + matching
        has_rules = (False, False)
        if self.rules.is_default_open:
            was, is_now = self._tables_of_sides(resource_type)
            has_rules = was.matches(name), is_now.matches(name)
        outcomes = self._decisions.outcomes(resource_type, principal, name, matching, has_rules)
        if not outcomes:
            return
        bindings = [binding for group in matching for binding in group.bindings]
        for outcome in outcomes:
            key = (resource_type, principal, id(outcome))
            if key not in self._found:
                self._found[key] = (outcome, [])
            self._found[key][1].append(
                ClassChange(
                    name_class,
                    self._causes(outcome.opened_by, bindings, name_class, is_opening=True),
                    self._causes(outcome.closed_by, bindings, name_class, is_opening=False),
                )
            )

    def found(self) -> tuple[AccessChange, ...]:
        """Changes that differ in their names only are one."""
        merged: dict[AccessChange, list[ClassChange]] = {}
        for (resource_type, principal, _), (outcome, classes) in self._found.items():
            change = AccessChange(resource_type, principal, *outcome[:6], ())
            merged.setdefault(change, []).extend(classes)
        return tuple(change._replace(classes=tuple(classes)) for change, classes in merged.items())

    def _groups(self, resource_type: int, principal: str) -> RuleGroups:
        key = (resource_type, principal)
        found = self._groups_by_principal.get(key)
        if found is None:
            bindings = self.rules.rules_for(resource_type, principal)
            found = self._groups_by_principal[key] = self._decisions.groups_of(bindings)
        return found

    def _tables_of_sides(self, resource_type: int) -> tuple[PatternTable, PatternTable]:
        """The patterns of everybody's rules, before and after."""
        if resource_type not in self._sides:
            was, is_now = self.before.rules.bindings, self.after.rules.bindings
            groups = self.rules.by_type.get(resource_type, {}).values()
            self._sides[resource_type] = (
                PatternTable(_patterns(b for group in groups for b in group if b in was)),
                PatternTable(_patterns(b for group in groups for b in group if b in is_now)),
            )
        return self._sides[resource_type]

    def _operations(self, resource_type: int) -> int:
        """A mask of those that are looked at."""
        mask = supported_mask(resource_type)
        for bindings in self.rules.changed_by_type.get(resource_type, {}).values():
            for binding in bindings:
                if binding.operation > AclOperation.ALL:
                    mask |= 1 << binding.operation
        return mask

    def _causes(
        self,
        places: Sequence[tuple[int, bool] | Place],
        matching: Sequence[AclBinding],
        name_class: NameClass,
        *,
        is_opening: bool,
    ) -> tuple[Cause, ...]:
        found: list[Cause] = []
        for place in places:
            if place is Place.SUPER_USER:
                found.append(Cause(CauseKind.SUPER_USER_ADDED if is_opening else CauseKind.SUPER_USER_REMOVED))
            elif place is Place.DEFAULT:
                found += self._default_causes(name_class, is_opening=is_opening)
            else:
                at, is_added = place
                found.append(Cause(CauseKind.RULE_ADDED if is_added else CauseKind.RULE_REMOVED, matching[at]))
        return tuple(found)

    def _default_causes(self, name_class: NameClass, *, is_opening: bool) -> list[Cause]:
        """The default decides about the name on one side only: because its rules came or went, or it changed itself."""
        resource_type = name_class.resource_type
        if resource_type not in self._changed_lookups:
            groups = self.rules.changed_by_type.get(resource_type, {}).values()
            self._changed_lookups[resource_type] = RuleLookup(
                Rule(binding) for group in groups for binding in sorted(group)
            )
        kind = CauseKind.LAST_RULE if is_opening else CauseKind.FIRST_RULE
        rules = self._changed_lookups[resource_type].matching(name_class.example)[:_RULES_SHOWN_MAX]
        return [Cause(kind, rule.binding) for rule in rules] or [Cause(CauseKind.DEFAULT_CHANGED)]


def _patterns(bindings: Iterable[AclBinding]) -> set[Pattern]:
    return {(binding.name, binding.pattern_type) for binding in bindings}
