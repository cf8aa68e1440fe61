"""Compute changes of the right "some resource of this type is allowed", which producers need before they name a topic.

Nodes decide this right by KIP-679, without a resource name: no operation implies another, and a denial of a prefix
covers all names that begin with it. Most principals keep the right, because one of their rules grants it before and
after the change. For these the authorizer makes no decision.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from barnabas.access.name_classes import PatternTable, does_match
from barnabas.access.rule_comparison import OTHER_PRINCIPALS, RulesBeforeAndAfter
from barnabas.common.acl import (
    WILDCARD_HOST,
    WILDCARD_NAME,
    WILDCARD_PRINCIPAL,
    AclBinding,
    AclOperation,
    AclPermissionType,
)
from barnabas.common.resource import PatternType, ResourceType
from barnabas.security.principal import Principal

__all__ = ["AnyResourceChange", "any_resource_changes"]

_RIGHTS = ((ResourceType.TOPIC, AclOperation.WRITE), (ResourceType.TRANSACTIONAL_ID, AclOperation.WRITE))
"""The rights that nodes check: a principal that may write to some topic may use an idempotent producer."""

_Outcome = tuple[tuple[str, ...], tuple[str, ...], bool]

_SAMPLE_NAME = "hardcode"
_WITNESSES_MAX = 20


class AnyResourceChange(NamedTuple):
    resource_type: int
    operation: int
    principal: str
    """``*``: any principal without a rule of its own for the resource type."""
    hosts: tuple[str, ...]
    hosts_except: tuple[str, ...]
    """If ``hosts`` is ``("*",)``: the hosts where the right does not change, or changes in the opposite way."""
    is_allowed: bool


def any_resource_changes(rules: RulesBeforeAndAfter) -> Iterator[AnyResourceChange]:
    for resource_type, operation in _RIGHTS:
        yield from _Right(rules, resource_type, operation).changes()


class _Right:
    def __init__(self, rules: RulesBeforeAndAfter, resource_type: int, operation: int) -> None:
        self._rules = rules
        self._type, self._operation = resource_type, operation
        self._outcomes: dict[object, list[_Outcome]] = {}
        self._kept = rules.before.rules.bindings & rules.after.rules.bindings
        self._shared = self._about(rules.rules_for(resource_type, WILDCARD_PRINCIPAL))
        self._shared_denials = self._denials(self._shared)
        self._shared_witnesses = self._witnesses(self._shared)
        changed = rules.changed_by_type.get(resource_type, {})
        self._changed = {text: about for text, group in changed.items() if (about := self._about(group))}
        self._is_sample_touched = rules.is_default_changed or (
            rules.is_default_open
            and any(
                does_match(binding.name, binding.pattern_type, _SAMPLE_NAME)
                for group in changed.values()
                for binding in group
            )
        )

    def _about(self, bindings: Sequence[AclBinding]) -> list[AclBinding]:
        return [binding for binding in bindings if binding.operation in (self._operation, AclOperation.ALL)]

    def _denials(self, bindings: Sequence[AclBinding]) -> PatternTable:
        """Return the patterns of all denials, whatever their hosts: a superset of the denials for one host."""
        return PatternTable((b.name, b.pattern_type) for b in bindings if b.permission == AclPermissionType.DENY)

    def _witnesses(self, bindings: Sequence[AclBinding]) -> list[AclBinding]:
        """Return the rules that allow the right before and after, first those for any host."""
        found = [b for b in bindings if b.permission == AclPermissionType.ALLOW and b in self._kept]
        return sorted(found, key=lambda binding: binding.host != WILDCARD_HOST)

    def changes(self) -> Iterator[AnyResourceChange]:
        in_use = set(self._rules.by_type.get(self._type, ()))
        special = self._rules.before.rules.super_users ^ self._rules.after.rules.super_users
        concerns_all_principals = WILDCARD_PRINCIPAL in self._changed or self._is_sample_touched
        concerned = set(self._changed) | special
        if concerns_all_principals:
            concerned |= in_use | {OTHER_PRINCIPALS}
        for principal in sorted(concerned - {WILDCARD_PRINCIPAL}):
            yield from self._changes_of(principal)

    def _changes_of(self, principal: str) -> Iterator[AnyResourceChange]:
        own = self._about(self._rules.rules_for(self._type, principal)) if ":" in principal else []
        requester = self._rules.principal_of(principal)
        sides = self._rules.before, self._rules.after
        key = (
            tuple(side.is_super(requester) for side in sides),
            frozenset((_without_principal(rule), *(rule in side.rules.bindings for side in sides)) for rule in own),
        )
        known = self._outcomes.get(key)
        if known is None:
            known = self._outcomes[key] = list(self._outcomes_of(requester, own))
        for hosts, hosts_except, is_now in known:
            yield AnyResourceChange(self._type, self._operation, principal, hosts, hosts_except, is_now)

    def _outcomes_of(self, principal: Principal, own: Sequence[AclBinding]) -> Iterator[_Outcome]:
        """Yield the outcomes for all principals with the same own rules about the right."""
        denials, witnesses = self._denials(own), self._witnesses(own)
        named = {binding.host for binding in chain(own, self._shared)} - {WILDCARD_HOST}
        outcomes: dict[tuple[bool, bool], list[str]] = {}
        for host in (WILDCARD_HOST, *sorted(named)):
            if self._is_kept(host, denials, witnesses):
                was, is_now = True, True
            else:
                from_host = self._rules.other_host if host == WILDCARD_HOST else host
                was, is_now = (
                    side.allows_any(principal, from_host, self._operation, self._type)
                    for side in (self._rules.before, self._rules.after)
                )
            outcomes.setdefault((was, is_now), []).append(host)
        for (was, is_now), hosts in outcomes.items():
            if was != is_now:
                is_broad = hosts[0] == WILDCARD_HOST
                yield (
                    (WILDCARD_HOST,) if is_broad else tuple(hosts),
                    tuple(sorted(named - set(hosts))) if is_broad else (),
                    is_now,
                )

    def _is_kept(self, host: str, denials: PatternTable, own: Sequence[AclBinding]) -> bool:
        """Return whether a rule allows the right in both states, and no denial removes it."""
        if denials.has_wildcard or self._shared_denials.has_wildcard:
            return False
        for binding in chain(own[:_WITNESSES_MAX], self._shared_witnesses[:_WITNESSES_MAX]):
            if binding.host not in (host, WILDCARD_HOST):
                continue
            if binding.pattern_type == PatternType.LITERAL and binding.name == WILDCARD_NAME:
                return True
            if not denials.matches(binding.name) and not self._shared_denials.matches(binding.name):
                return True
        return False


def _without_principal(binding: AclBinding) -> AclBinding:
    return binding._replace(principal="")
