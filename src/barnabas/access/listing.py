"""List the principals with access to a resource, or the access of a principal to all resources.

Both results are complete, although names, principals and hosts are infinitely many. Rules distinguish only those that
they name, so one invented name, principal or host represents all others. The authorizer decides for each class as for
a real request. So a DENY has the same effect as in a node, and the result shows where it removes access.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from barnabas.access.acl_text import Resource
from barnabas.access.rule_lookup import RuleLookup
from barnabas.access.rule_set import Policy, Rule, covers
from barnabas.common.acl import WILDCARD_HOST, WILDCARD_NAME, WILDCARD_PRINCIPAL, AclOperation
from barnabas.common.resource import PatternType, ResourceType
from barnabas.security.authorizer.authorized_operations import supported_operations
from barnabas.security.principal import Principal

__all__ = [
    "Access",
    "AccessOfPrincipal",
    "Grant",
    "PrincipalsWithAccess",
    "access_of_principal",
    "principals_with_access",
]


class Grant(NamedTuple):
    """Access of a principal to the resource from a host. ``*`` is every principal or host without its own grant."""

    principal: str
    host: str
    operations: tuple[int, ...]
    denied: tuple[int, ...]
    """Operations that a DENY covers, whether or not another rule would allow them."""
    rules: tuple[Rule, ...]
    is_super_user: bool = False


class PrincipalsWithAccess(NamedTuple):
    resource: Resource
    operation: int | None
    grants: tuple[Grant, ...]
    has_rules: bool
    """If no rule exists for the resource, ``default_allows`` decides."""
    default_allows: bool


class Access(NamedTuple):
    """Access of the principal to the resources of a pattern, except those of narrower patterns in the list."""

    resource_type: int
    name: str
    pattern_type: int
    host: str
    operations: tuple[int, ...]
    denied: tuple[int, ...]
    exceptions: tuple[tuple[str, int], ...]
    """Narrower patterns (name, pattern type) where a DENY removes some of the operations."""
    rules: tuple[Rule, ...]


class AccessOfPrincipal(NamedTuple):
    principal: Principal
    is_super_user: bool
    accesses: tuple[Access, ...]
    default_allows: bool
    """Whether a resource without rules is open to all principals."""


def principals_with_access(policy: Policy, resource: Resource, operation: int | None = None) -> PrincipalsWithAccess:
    """List the principals with access to the resource (or ``operation`` on it), and those that a DENY excludes."""
    on_resource = policy.rules_on(resource.type, resource.name)
    by_principal: dict[str, list[Rule]] = {}
    for rule in on_resource:
        by_principal.setdefault(rule.binding.principal, []).append(rule)
    wildcard = by_principal.pop(WILDCARD_PRINCIPAL, [])
    operations = _operations(resource.type, on_resource) if operation is None else (operation,)
    grants = [Grant(name, WILDCARD_HOST, operations, (), (), True) for name in sorted(policy.super_users)]
    for name in sorted(by_principal):
        if name not in policy.super_users:
            kind, _, rest = name.partition(":")
            rules = [*by_principal[name], *wildcard]
            grants += _grants(policy, name, Principal(kind, rest), rules, resource, operations)
    unnamed = policy.unnamed_principal()
    if on_resource or policy.allow_everyone:
        grants += _grants(policy, "*", unnamed, wildcard, resource, operations)
    return PrincipalsWithAccess(resource, operation, tuple(grants), bool(on_resource), policy.allow_everyone)


def access_of_principal(policy: Policy, principal: Principal) -> AccessOfPrincipal:
    """List every pattern where the principal has access, or where a DENY removes access."""
    text = f"{principal.type}:{principal.name}"
    if text in policy.super_users:
        return AccessOfPrincipal(principal, True, (), policy.allow_everyone)
    by_type: dict[int, list[Rule]] = {}
    for rule in policy.rules_for(text, WILDCARD_PRINCIPAL):
        by_type.setdefault(rule.binding.resource_type, []).append(rule)
    accesses: list[Access] = []
    for resource_type in sorted(by_type):
        accesses += _accesses(policy, principal, resource_type, by_type[resource_type])
    return AccessOfPrincipal(principal, False, tuple(accesses), policy.allow_everyone)


def _grants(
    policy: Policy,
    shown: str,
    principal: Principal,
    rules: Sequence[Rule],
    resource: Resource,
    operations: Sequence[int],
) -> list[Grant]:
    """Return a grant for all hosts, and one for each host where it differs."""
    grants: list[Grant] = []
    for host in _hosts(rules):
        from_host = policy.unnamed_host if host == WILDCARD_HOST else host
        here = [rule for rule in rules if rule.binding.host in (host, WILDCARD_HOST)]
        allowed = tuple(
            o for o in operations if policy.is_allowed(principal, from_host, o, resource.type, resource.name)
        )
        denied = _denied(here, operations)
        if grants and (allowed, denied) == (grants[0].operations, grants[0].denied) and grants[0].host == WILDCARD_HOST:
            continue
        if allowed or denied or (grants and grants[0].operations):
            relevant = tuple(r for r in here if any(covers(r.binding, o) for o in operations))
            grants.append(Grant(shown, host, allowed, denied, relevant))
    return grants


def _accesses(policy: Policy, principal: Principal, resource_type: int, rules: Sequence[Rule]) -> list[Access]:
    lookup = RuleLookup(rules)
    other = policy.unused_character(resource_type)
    operations = _operations(resource_type, rules)
    patterns = sorted({(rule.binding.name, rule.binding.pattern_type) for rule in rules})
    found: list[Access] = []
    for name, pattern_type in patterns:
        sample = _sample(name, pattern_type, other)
        matching = lookup.matching(sample)
        first: Access | None = None
        for host in _hosts(matching):
            from_host = policy.unnamed_host if host == WILDCARD_HOST else host
            here = [rule for rule in matching if rule.binding.host in (host, WILDCARD_HOST)]
            allowed = tuple(o for o in operations if policy.is_allowed(principal, from_host, o, resource_type, sample))
            denied = _denied(here, operations)
            if first is not None and (allowed, denied) == (first.operations, first.denied):
                continue
            if allowed or denied or (first is not None and first.operations):
                access = Access(resource_type, name, pattern_type, host, allowed, denied, (), tuple(here))
                found.append(access)
                first = access if host == WILDCARD_HOST else first
    return _with_exceptions(found)


def _with_exceptions(accesses: list[Access]) -> list[Access]:
    """Add to each pattern the narrower ones that lose operations. Sort by width: wildcard, prefixes, names."""
    losing = sorted((a for a in accesses if a.denied), key=_name)
    names = [access.name for access in losing]
    result: list[Access] = []
    for access in accesses:
        if access.pattern_type != PatternType.PREFIXED and access.name != WILDCARD_NAME:
            result.append(access)
            continue
        is_wildcard = access.pattern_type != PatternType.PREFIXED
        start = 0 if is_wildcard else bisect_left(names, access.name)
        narrower: dict[tuple[str, int], None] = {}
        for other in losing[start:]:
            if not is_wildcard and not other.name.startswith(access.name):
                break
            if _is_same_pattern(other, access) or other.host not in (access.host, WILDCARD_HOST):
                continue
            if set(access.operations) & set(other.denied):
                narrower[other.name, other.pattern_type] = None
        result.append(access._replace(exceptions=tuple(narrower)))
    return sorted(result, key=_broad_first)


def _sample(name: str, pattern_type: int, other: str) -> str:
    """Return a name that matches the pattern, but no narrower pattern."""
    if pattern_type == PatternType.PREFIXED:
        return name + other
    return other if name == WILDCARD_NAME else name


def _operations(resource_type: int, rules: Iterable[Rule]) -> tuple[int, ...]:
    """Return the operations that the type supports, and others that rules name: a node decides those too."""
    named = {rule.binding.operation for rule in rules} - {AclOperation.ALL}
    return tuple(sorted({int(operation) for operation in supported_operations(resource_type)} | named))


def _denied(rules: Sequence[Rule], operations: Sequence[int]) -> tuple[int, ...]:
    denies = [rule.binding for rule in rules if rule.is_deny]
    return tuple(o for o in operations if any(covers(binding, o) for binding in denies)) if denies else ()


def _hosts(rules: Sequence[Rule]) -> list[str]:
    return [WILDCARD_HOST, *sorted({rule.binding.host for rule in rules} - {WILDCARD_HOST})]


def _name(access: Access) -> str:
    return access.name


def _is_same_pattern(first: Access, second: Access) -> bool:
    return (first.name, first.pattern_type) == (second.name, second.pattern_type)


def _broad_first(access: Access) -> tuple[int, bool, str, bool, str]:
    is_wildcard = access.pattern_type == PatternType.LITERAL and access.name == WILDCARD_NAME
    is_literal = access.pattern_type == PatternType.LITERAL and access.resource_type != ResourceType.CLUSTER
    return (access.resource_type, not is_wildcard, access.name, is_literal, access.host)
