"""Convert results to JSON. docs/tutorials/access.md documents the fields. They may be added, but are never renamed.

Enumerations have Kafka's names (``TOPIC``, ``DESCRIBE_CONFIGS``, ``LITERAL``, ``DENY``). ``*`` as a principal or host
means every principal or host that the same result does not name elsewhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum

from barnabas.access.acl_text import Resource
from barnabas.access.explain import Explanation
from barnabas.access.listing import Access, AccessOfPrincipal, Grant, PrincipalsWithAccess
from barnabas.access.needs import Need
from barnabas.access.rule_set import Rule
from barnabas.common.acl import AclOperation, AclPermissionType
from barnabas.common.resource import PatternType, ResourceType

__all__ = ["enum_name", "explanation_json", "holders_json", "holdings_json", "member_json", "needs_json", "rule_json"]


def explanation_json(e: Explanation) -> dict[str, object]:
    return {
        "principal": f"{e.principal.type}:{e.principal.name}",
        "host": e.host,
        "operation": e.operation.name,
        "resource": _resource(e.resource),
        "allowed": e.allowed,
        "reason": e.reason.value,
        "why": e.text,
        "rule": None if e.rule is None else rule_json(e.rule),
        "implied": e.is_implied,
        "overridden": _rules(e.overridden),
        "agreeing": _rules(e.agreeing),
        "other_host": _rules(e.other_host),
        "other_operation": _rules(e.other_operation),
        "rules_for_resource": e.rules_for_resource,
    }


def holders_json(holders: PrincipalsWithAccess) -> dict[str, object]:
    return {
        "resource": _resource(holders.resource),
        "operation": None if holders.operation is None else enum_name(AclOperation, holders.operation),
        "has_rules": holders.has_rules,
        "default_allows": holders.default_allows,
        "grants": [_grant(grant) for grant in holders.grants],
    }


def holdings_json(holdings: AccessOfPrincipal) -> dict[str, object]:
    return {
        "principal": f"{holdings.principal.type}:{holdings.principal.name}",
        "super_user": holdings.is_super_user,
        "default_allows": holdings.default_allows,
        "accesses": [_access(access) for access in holdings.accesses],
    }


def needs_json(needs: Iterable[Need]) -> list[dict[str, object]]:
    return [
        {
            "resource_type": enum_name(ResourceType, need.resource.type),
            "resource_name": need.resource.name,
            "pattern_type": enum_name(PatternType, PatternType.PREFIXED if need.is_prefixed else PatternType.LITERAL),
            "operation": enum_name(AclOperation, need.operation),
            "reason": need.reason,
        }
        for need in needs
    ]


def member_json(explained: Iterable[tuple[Need, Explanation]]) -> list[dict[str, object]]:
    """Return what a client needs, with the decision about each right."""
    pairs = list(explained)
    return [
        need | {"allowed": explanation.allowed, "explanation": explanation_json(explanation)}
        for need, (_, explanation) in zip(needs_json(need for need, _ in pairs), pairs, strict=True)
    ]


def rule_json(rule: Rule) -> dict[str, object]:
    b = rule.binding
    return {
        "id": None if rule.id is None else str(rule.id),
        "permission": enum_name(AclPermissionType, b.permission),
        "principal": b.principal,
        "host": b.host,
        "operation": enum_name(AclOperation, b.operation),
        "resource_type": enum_name(ResourceType, b.resource_type),
        "name": b.name,
        "pattern_type": enum_name(PatternType, b.pattern_type),
    }


def _grant(grant: Grant) -> dict[str, object]:
    return {
        "principal": grant.principal,
        "host": grant.host,
        "super_user": grant.is_super_user,
        "operations": _operations(grant.operations),
        "denied": _operations(grant.denied),
        "rules": _rules(grant.rules),
    }


def _access(access: Access) -> dict[str, object]:
    return {
        "resource_type": enum_name(ResourceType, access.resource_type),
        "name": access.name,
        "pattern_type": enum_name(PatternType, access.pattern_type),
        "host": access.host,
        "operations": _operations(access.operations),
        "denied": _operations(access.denied),
        "except": [{"name": name, "pattern_type": enum_name(PatternType, type_)} for name, type_ in access.exceptions],
        "rules": _rules(access.rules),
    }


def _resource(resource: Resource) -> dict[str, str]:
    return {"type": resource.type.name, "name": resource.name}


def _operations(codes: Iterable[int]) -> list[str]:
    return [enum_name(AclOperation, code) for code in codes]


def _rules(rules: Iterable[Rule]) -> list[dict[str, object]]:
    return [rule_json(rule) for rule in rules]


def enum_name(kind: type[IntEnum], code: int) -> str:
    """Return the name of a code, which may be of a newer Kafka."""
    return kind(code).name if code in kind._value2member_map_ else f"UNKNOWN_{code}"
