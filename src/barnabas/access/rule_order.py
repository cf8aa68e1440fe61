"""Order the creation and deletion of rules, so that no access is wrongly open or closed in between.

The guarantee, at every moment: access that is allowed both before and after the change is allowed, and access that is
allowed neither before nor after is denied. A node applies the rules of a request one by one, so the guarantee must
hold after each single rule.

If the default is to deny, this order always keeps the guarantee: create denials, create allowing rules, delete
allowing rules, delete denials. The proof, for one access:

- After new denials are created, it can only have closed, and then it is denied after the change.
- After new allowing rules are created, it is open only if the old or the new rules allow it, and neither deny it.
- After old allowing rules are deleted, it is open only if it is allowed after the change.
- After old denials are deleted, it is open exactly if it is allowed after the change.

Within each of the four phases the access changes in one direction only, so the order within a phase does not matter.

If the default is to allow, the first rule on a resource closes all access that this rule does not allow. In the same
way, before the last rule is deleted, it closes all access that it does not allow. So the first rule must allow
everything that is allowed after, and the last rule everything that was allowed before. Two conditions remain. Both
require only that another rule was added already:

- an allowing rule that would open access allowed neither before nor after waits for a denial that prevents this;
- the first rule on an open resource must allow all access that is allowed there after.

A rule that may be added can still be added after any other rules. So an order is found, if one exists, by always adding
every rule that may be added. If no rule may be added, no such order exists. Then the remaining denials are added first,
which closes too much rather than too little, and the affected names are reported. Deletion is the reverse of addition.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas.access.name_classes import NameClass, NameSpace, PatternTable
from barnabas.access.rule_comparison import AccessRules, Side
from barnabas.access.rule_lookup import RuleLookup
from barnabas.access.rule_set import Rule, covers
from barnabas.common.acl import WILDCARD_HOST, WILDCARD_PRINCIPAL, AclBinding, AclOperation, AclPermissionType
from barnabas.security.authorizer.acl_index import AclIndex
from barnabas.security.authorizer.authorized_operations import supported_mask
from barnabas.security.principal import Principal

__all__ = ["RuleOrder", "order_rules"]

_OPERATION_BITS = sum(1 << code for code in AclOperation if code > AclOperation.ALL)


class RuleOrder(NamedTuple):
    """The batches of rules. The rules of a batch may be applied in any order, or together."""

    created: tuple[tuple[AclBinding, ...], ...]
    deleted: tuple[tuple[AclBinding, ...], ...]
    gaps: tuple[NameClass, ...]
    """Names for which no order exists: access that is allowed before and after is closed for a moment."""


def order_rules(rules_before: AccessRules | Side, rules_after: AccessRules | Side) -> RuleOrder:
    """Order the changes between two sides with the same super users and the same default."""
    sides = Side.of(rules_before), Side.of(rules_after)
    before, after = sides[0].rules, sides[1].rules
    added, removed = after.bindings - before.bindings, before.bindings - after.bindings
    if not before.allow_everyone:
        return RuleOrder(_phases(added, denials_first=True), _phases(removed, denials_first=False), ())
    indexes = sides[0].index, sides[1].index
    created, gaps = _Adding((before, indexes[0]), (after, indexes[1]), added).order()
    deleted, more_gaps = _Adding((after, indexes[1]), (before, indexes[0]), removed).order()
    return RuleOrder(created, deleted[::-1], tuple(sorted({*gaps, *more_gaps})))


def _phases(rules: Iterable[AclBinding], *, denials_first: bool) -> tuple[tuple[AclBinding, ...], ...]:
    in_order = sorted(rules)
    denials = tuple(rule for rule in in_order if _is_deny(rule))
    others = tuple(rule for rule in in_order if not _is_deny(rule))
    return tuple(batch for batch in ((denials, others) if denials_first else (others, denials)) if batch)


def _is_deny(binding: AclBinding) -> bool:
    return binding.permission == AclPermissionType.DENY


class _Point(NamedTuple):
    """A principal and a host, with masks of their allowed operations."""

    principal: str
    host: str
    before: int
    after: int
    never: int
    """Operations that are allowed neither before nor after: those of the resource type, and those that rules name."""


class _Area:
    """A class of names that new rules cover."""

    __slots__ = ("first", "guards", "is_untouched", "name_class", "rules")

    def __init__(self, name_class: NameClass, rules: frozenset[AclBinding]) -> None:
        self.name_class = name_class
        self.rules = rules
        self.is_untouched = False
        """No rules exist yet, and some access must stay allowed: the next rule must be one of ``first``."""
        self.first: frozenset[AclBinding] = frozenset()
        self.guards: list[tuple[frozenset[AclBinding], frozenset[AclBinding]]] = []
        """Pairs of allowing rules and denials. One of the denials must be added before any of the allowing rules."""


class _Adding:
    """Orders the addition of rules to ``start``. ``goal`` contains the rules after the last step."""

    def __init__(
        self,
        start: tuple[AccessRules, AclIndex],
        goal: tuple[AccessRules, AclIndex],
        rules: frozenset[AclBinding],
    ) -> None:
        self._start = start[0]
        self._rules = rules
        self._indexes = start[1], goal[1]
        self._everything = start[0].bindings | goal[0].bindings

    def order(self) -> tuple[tuple[tuple[AclBinding, ...], ...], list[NameClass]]:
        areas = self._areas()
        by_rule: dict[AclBinding, list[_Area]] = {rule: [] for rule in self._rules}
        for area in areas:
            for rule in area.rules:
                by_rule[rule].append(area)
        left = sorted(self._rules)
        batches: list[tuple[AclBinding, ...]] = []
        gaps: list[NameClass] = []
        while left:
            batch = _next_batch(left, by_rule)
            if not batch:
                gaps += [area.name_class for area in areas if area.is_untouched]
                batches += _phases(left, denials_first=True)
                break
            batches.append(batch)
            added = frozenset(batch)
            left = [rule for rule in left if rule not in added]
            for area in {id(area): area for rule in batch for area in by_rule[rule]}.values():
                area.is_untouched = False
                area.guards = [(allowing, denials) for allowing, denials in area.guards if not denials & added]
        return tuple(batches), gaps

    def _areas(self) -> list[_Area]:
        by_type: dict[int, list[AclBinding]] = {}
        for binding in self._rules:
            by_type.setdefault(binding.resource_type, []).append(binding)
        areas: list[_Area] = []
        for resource_type, added in by_type.items():
            here = [binding for binding in self._everything if binding.resource_type == resource_type]
            space = NameSpace(resource_type, [PatternTable((binding.name, binding.pattern_type) for binding in here)])
            lookup = RuleLookup(map(Rule, here))
            patterns = {(binding.name, binding.pattern_type) for binding in added}
            for name_class in sorted({found for pattern in patterns for found in space.within(*pattern)}):
                matching = [rule.binding for rule in lookup.matching(name_class.example)]
                area = self._area(name_class, matching)
                if area is not None:
                    areas.append(area)
        return areas

    def _area(self, name_class: NameClass, matching: Sequence[AclBinding]) -> _Area | None:
        """Return the area, or None if it sets no condition on the order."""
        area = _Area(name_class, frozenset(binding for binding in matching if binding in self._rules))
        is_open = not any(binding in self._start.bindings for binding in matching)
        if not is_open and not any(map(_is_deny, area.rules)):
            return None
        points = self._points(name_class, matching)
        if is_open and any(point.after for point in points):
            area.is_untouched = True
            area.first = frozenset(rule for rule in area.rules if all(_allows(rule, point) for point in points))
        elif not is_open:
            denied = [binding for binding in matching if _is_deny(binding) and binding in self._start.bindings]
            area.guards = [guard for point in points for guard in _guards(point, area.rules, denied)]
        return area if area.is_untouched or area.guards else None

    def _points(self, name_class: NameClass, matching: Sequence[AclBinding]) -> list[_Point]:
        among = supported_mask(name_class.resource_type) | sum(
            1 << code for code in {binding.operation for binding in matching} if code > AclOperation.ALL
        )
        principals = {binding.principal for binding in matching} - {WILDCARD_PRINCIPAL} - self._start.super_users
        hosts = {binding.host for binding in matching} - {WILDCARD_HOST}
        points = []
        for principal in (None, *sorted(principals)):
            kind, _, name = (principal or f"User:{_unused(principals | self._start.super_users)}").partition(":")
            for host in (None, *sorted(hosts)):
                before, after = (
                    index.mask(
                        Principal(kind, name), host or _unused(hosts), name_class.resource_type, name_class.example
                    )
                    & among
                    for index in self._indexes
                )
                never = among & ~(before | after)
                points.append(_Point(principal or WILDCARD_PRINCIPAL, host or WILDCARD_HOST, before, after, never))
        return points


def _next_batch(left: Sequence[AclBinding], by_rule: dict[AclBinding, list[_Area]]) -> tuple[AclBinding, ...]:
    """Return the denials that may be added now. If none exist, return the other rules that may be added."""
    ready = [rule for rule in left if all(_may_be_added(rule, area) for area in by_rule[rule])]
    return tuple(rule for rule in ready if _is_deny(rule)) or tuple(ready)


def _may_be_added(rule: AclBinding, area: _Area) -> bool:
    if area.is_untouched and rule not in area.first:
        return False
    return not any(rule in allowing for allowing, _ in area.guards)


def _guards(
    point: _Point, rules: frozenset[AclBinding], denied: Sequence[AclBinding]
) -> list[tuple[frozenset[AclBinding], frozenset[AclBinding]]]:
    """Return pairs of new allowing rules and new denials: one denial must be added before any of the rules.

    A rule needs this if it allows an operation that is allowed neither before nor after. Operations that ``denied``
    covers need no new denial, because these rules stay until all new rules are added.
    """
    found: dict[tuple[frozenset[AclBinding], frozenset[AclBinding]], None] = {}
    speaking = [rule for rule in rules if _concerns(rule, point)]
    standing = [rule for rule in denied if _concerns(rule, point)]
    for operation in range(AclOperation.ALL + 1, _OPERATION_BITS.bit_length()):
        if not point.never >> operation & 1 or any(covers(rule, operation) for rule in standing):
            continue
        about = [rule for rule in speaking if covers(rule, operation)]
        denials = frozenset(rule for rule in about if _is_deny(rule))
        allowing = frozenset(about) - denials
        if allowing and denials:
            found[allowing, denials] = None
    return list(found)


def _concerns(rule: AclBinding, point: _Point) -> bool:
    return rule.principal in (point.principal, WILDCARD_PRINCIPAL) and rule.host in (point.host, WILDCARD_HOST)


def _allows(rule: AclBinding, point: _Point) -> bool:
    """Return whether the rule alone allows everything that is allowed after the change."""
    if not point.after:
        return True
    if _is_deny(rule) or not _concerns(rule, point):
        return False
    return all(covers(rule, operation) for operation in range(point.after.bit_length()) if point.after >> operation & 1)


def _unused(taken: Iterable[str]) -> str:
    known = set(taken)
    name = "(other)"
    while name in known or f"User:{name}" in known:
        name += "'"
    return name
