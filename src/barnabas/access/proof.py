"""Compute exactly which accesses a change of the rules opens and closes.

The space of (principal, host, operation, resource) is infinite, but rules divide it into finitely many parts:

- Names: see ``name_classes``.
- Principals: those with a rule of their own for a name, and super users, are examined individually. All others (``*``
  in a result: "any principal without a rule of its own for the name") have the same access, because only the rules
  for ``User:*`` and the default apply to them.
- Hosts: those that a relevant rule names, and any other host.
- Operations: those of the resource type, and any others that a changed rule names.

Access can change only in parts that a changed rule covers, so only these are examined. The authorizer's own index
decides the access in them, before and after, with implied operations, denials and the default: see
``class_decisions``.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from enum import Enum
from functools import cache, cached_property, partial
from typing import NamedTuple

from barnabas.access.any_resource import AnyResourceChange, any_resource_changes
from barnabas.access.class_buckets import ClassBuckets, ClassChanges, Segment
from barnabas.access.class_decisions import ClassDecisions, Outcome, Place, RuleGroup, RuleGroups
from barnabas.access.name_classes import NameClass, NameSpace, Pattern, PatternTable, outermost
from barnabas.access.rule_comparison import OTHER_PRINCIPALS, AccessRules, RulesBeforeAndAfter, Side
from barnabas.access.rule_lookup import RuleLookup
from barnabas.access.rule_set import Rule
from barnabas.common.acl import WILDCARD_NAME, WILDCARD_PRINCIPAL, AclBinding, AclOperation
from barnabas.common.resource import PatternType
from barnabas.security.authorizer.authorized_operations import SUPPORTED_MASKS, supported_mask

__all__ = ["AccessChange", "AccessRules", "AnyResourceChange", "Cause", "CauseKind", "ClassChange", "Proof", "prove"]

_RULES_SHOWN_MAX = 20
_EVERY_NAME: Pattern = (WILDCARD_NAME, int(PatternType.LITERAL))
_Operations = tuple[int, ...]


class CauseKind(Enum):
    """The reason for an access change. The values are part of the JSON form."""

    RULE_ADDED = "rule-added"
    RULE_REMOVED = "rule-removed"
    FIRST_RULE = "first-rule"
    """No rule existed for the resource before, and the default was to allow."""
    LAST_RULE = "last-rule"
    """No rule exists for the resource after, and the default is to allow."""
    SUPER_USER_ADDED = "super-user-added"
    SUPER_USER_REMOVED = "super-user-removed"
    DEFAULT_CHANGED = "default-changed"


class Cause(NamedTuple):
    kind: CauseKind
    binding: AclBinding | None = None


class ClassChange(NamedTuple):
    """A class of names where access changes, and the changed rules that cause it."""

    names: NameClass
    opened_by: tuple[Cause, ...]
    closed_by: tuple[Cause, ...]


class AccessChange(NamedTuple):
    """A change for a principal at some hosts that is the same for all names of some classes."""

    resource_type: int
    principal: str
    """``*``: any principal without a rule of its own for the name."""
    hosts: tuple[str, ...]
    """``("*",)``: every host except ``hosts_except``."""
    hosts_except: tuple[str, ...]
    before: _Operations
    after: _Operations
    opened: _Operations
    closed: _Operations
    classes: Sequence[ClassChange]


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
    """Return the exact difference between the access that two sets of rules allow."""
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
        self._buckets_by_type: dict[int, ClassBuckets] = {}
        self._found: dict[tuple[int, str, int], Segment] = {}

    @cached_property
    def types(self) -> list[int]:
        is_everywhere = self.rules.is_default_changed or self.before.rules.super_users != self.after.rules.super_users
        return sorted(set(SUPPORTED_MASKS) if is_everywhere else set(self.rules.changed_by_type))

    # ---- parts to examine ------------------------------------------------------------------------

    def look_at(self, resource_type: int) -> None:
        changed = self.rules.changed_by_type.get(resource_type, {})
        shared = _patterns(changed.get(WILDCARD_PRINCIPAL, ()))
        touched = PatternTable(shared) if shared else None
        for principal in sorted(
            {*self.rules.by_type.get(resource_type, ()), *self.rules.special} - {WILDCARD_PRINCIPAL}
        ):
            self._look_at_principal(resource_type, principal, _patterns(changed.get(principal, ())), touched)
        if self.rules.is_default_changed:
            self._look_everywhere(resource_type, OTHER_PRINCIPALS)
            return
        everything = _patterns(binding for bindings in changed.values() for binding in bindings)
        self._look_within(resource_type, OTHER_PRINCIPALS, everything if self.rules.is_default_open else shared)

    def _look_at_principal(
        self, resource_type: int, principal: str, own: set[Pattern], touched: PatternTable | None
    ) -> None:
        """Examine the names that the principal's changed rules cover, or changed ``User:*`` rules beside its own."""
        is_super = [principal in side.rules.super_users for side in (self.before, self.after)]
        if all(is_super):
            return
        if any(is_super):
            self._look_everywhere(resource_type, principal)
            return
        mine = _patterns(self.rules.rules_for(resource_type, principal)) if touched is not None else set()
        beside = [pattern for pattern in mine if touched is not None and touched.may_touch(*pattern)]
        if _EVERY_NAME in own or _EVERY_NAME in beside:
            self._look_everywhere(resource_type, principal)
            return
        found = set(self._classes_in(resource_type, principal, own))
        found.update(
            name_class
            for name_class in self._classes_in(resource_type, principal, beside)
            if touched is not None and touched.matches(name_class.example)
        )
        for name_class in sorted(found):
            self._look_at(name_class, principal)

    def _look_within(self, resource_type: int, principal: str, patterns: set[Pattern]) -> None:
        if _EVERY_NAME in patterns:
            self._look_everywhere(resource_type, principal)
            return
        for name_class in sorted(set(self._classes_in(resource_type, principal, patterns))):
            self._look_at(name_class, principal)

    def _look_everywhere(self, resource_type: int, principal: str) -> None:
        """Examine each class within the principal's own patterns, and the other classes by buckets."""
        space = self._space(resource_type, principal)
        table = self._table(resource_type, principal)
        patterns = outermost(table.patterns())
        for name_class in {found for pattern in patterns for found in space.within(*pattern)}:
            self._look_at(name_class, principal)
        buckets = self._buckets(resource_type)
        excluded = buckets.matched_by(patterns)
        for name_class in excluded:
            # A pattern divides the class. The example is in the pattern's part; this is the other part.
            if name_class.pattern_type == PatternType.PREFIXED and table.longest_prefix(name_class.name) < 0:
                self._look_at(space.class_of_prefix(name_class.name), principal)
        for bucket in buckets.without(excluded):
            first = bucket.first()
            if first is not None:
                self.examined += len(bucket)
                for segment in self._segments_of(first, principal):
                    segment.buckets.append(bucket)

    def _buckets(self, resource_type: int) -> ClassBuckets:
        """Return the classes of all names, without those of the principals' own patterns."""
        if resource_type not in self._buckets_by_type:
            shared = self._groups(resource_type, WILDCARD_PRINCIPAL)

            def alike(name_class: NameClass) -> Hashable:
                name = name_class.example
                return self._has_rules(resource_type, name), tuple(group.shape for group in shared.matching(name))

            space = self._space(resource_type, WILDCARD_PRINCIPAL)
            self._buckets_by_type[resource_type] = ClassBuckets(space.classes(), alike)
        return self._buckets_by_type[resource_type]

    def _classes_in(self, resource_type: int, principal: str, patterns: Iterable[Pattern]) -> Iterator[NameClass]:
        space = self._space(resource_type, principal)
        for pattern in outermost(patterns):
            yield from space.within(*pattern)

    def _space(self, resource_type: int, principal: str) -> NameSpace:
        """Split names as finely as decisions for the principal need. An open default depends on all rules."""
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

    # ---- changes in them -------------------------------------------------------------------------

    def _look_at(self, name_class: NameClass, principal: str) -> None:
        self.examined += 1
        for segment in self._segments_of(name_class, principal):
            segment.classes.append(name_class)

    def _segments_of(self, name_class: NameClass, principal: str) -> Iterator[Segment]:
        """Yield the segments of the outcomes for the class."""
        resource_type, name = name_class.resource_type, name_class.example
        matching = self._matching(resource_type, principal, name)
        has_rules = self._has_rules(resource_type, name)
        for outcome in self._decisions.outcomes(resource_type, principal, name, matching, has_rules):
            key = (resource_type, principal, id(outcome))
            if key not in self._found:
                self._found[key] = Segment(outcome, [], [])
            yield self._found[key]

    def _matching(self, resource_type: int, principal: str, name: str) -> list[RuleGroup]:
        shared = self._groups(resource_type, WILDCARD_PRINCIPAL).matching(name)
        if ":" not in principal:
            return shared
        return self._groups(resource_type, principal).matching(name) + shared

    def _has_rules(self, resource_type: int, name: str) -> tuple[bool, bool]:
        if not self.rules.is_default_open:
            return False, False
        was, is_now = self._tables_of_sides(resource_type)
        return was.matches(name), is_now.matches(name)

    def found(self) -> tuple[AccessChange, ...]:
        """Return the changes. Changes that differ only in their names are merged."""
        merged: dict[AccessChange, list[Segment]] = {}
        for (resource_type, principal, _), segment in self._found.items():
            change = AccessChange(resource_type, principal, *segment.outcome[:6], ())
            merged.setdefault(change, []).append(segment)
        return tuple(
            change._replace(classes=ClassChanges(partial(self._class_change, change.principal), segments))
            for change, segments in merged.items()
        )

    def _class_change(self, principal: str, outcome: Outcome, name_class: NameClass) -> ClassChange:
        groups = self._matching(name_class.resource_type, principal, name_class.example)
        bindings = [binding for group in groups for binding in group.bindings]
        return ClassChange(
            name_class,
            self._causes(outcome.opened_by, bindings, name_class, is_opening=True),
            self._causes(outcome.closed_by, bindings, name_class, is_opening=False),
        )

    def _groups(self, resource_type: int, principal: str) -> RuleGroups:
        key = (resource_type, principal)
        found = self._groups_by_principal.get(key)
        if found is None:
            bindings = self.rules.rules_for(resource_type, principal)
            found = self._groups_by_principal[key] = self._decisions.groups_of(bindings)
        return found

    def _tables_of_sides(self, resource_type: int) -> tuple[PatternTable, PatternTable]:
        """Return the patterns of the rules of all principals, before and after."""
        if resource_type not in self._sides:
            was, is_now = self.before.rules.bindings, self.after.rules.bindings
            groups = self.rules.by_type.get(resource_type, {}).values()
            self._sides[resource_type] = (
                PatternTable(_patterns(b for group in groups for b in group if b in was)),
                PatternTable(_patterns(b for group in groups for b in group if b in is_now)),
            )
        return self._sides[resource_type]

    def _operations(self, resource_type: int) -> int:
        """Return a mask of the operations to examine."""
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
        """Return the causes if the default decides on one side only.

        Then the default changed, or the first rule for the name was added, or the last one removed.
        """
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
