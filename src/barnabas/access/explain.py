"""Explain why a principal may, or may not, perform an operation.

The authorizer makes the decision and names the deciding ACL. The explanation adds the overridden ACLs, those with the
same effect, and those that would match with another host or operation.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

from barnabas.access.acl_text import Resource, operation_name, pattern_text
from barnabas.access.rule_set import Policy, Rule, covers
from barnabas.common.acl import WILDCARD_HOST, WILDCARD_PRINCIPAL, AclOperation
from barnabas.security.authorizer.authorized_operations import supported_operations
from barnabas.security.principal import Principal

__all__ = ["Explanation", "Reason", "explain", "rule_text"]


class Reason(Enum):
    """The reason of a decision. The values are part of the JSON form."""

    SUPER_USER = "super-user"
    DENY_RULE = "deny-rule"
    ALLOW_RULE = "allow-rule"
    NO_MATCHING_RULE = "no-matching-rule"
    """ACLs exist for the resource, but none matches. The operation is denied, whatever the default is."""
    NO_RULE_FOR_RESOURCE = "no-rule-for-resource"
    """No ACL exists for the resource: ``allow.everyone.if.no.acl.found`` decides."""


class Explanation(NamedTuple):
    principal: Principal
    host: str
    operation: AclOperation
    resource: Resource
    allowed: bool
    reason: Reason
    rule: Rule | None
    """The deciding ACL, if any."""
    overridden: tuple[Rule, ...]
    """Matching ACLs with the opposite effect: ALLOWs that a DENY overrides, or ACLs that a super user bypasses."""
    agreeing: tuple[Rule, ...]
    """Other matching ACLs with the same effect."""
    other_host: tuple[Rule, ...]
    """ACLs that would match a client at their host."""
    other_operation: tuple[Rule, ...]
    """ACLs of this principal on this resource for other operations."""
    rules_for_resource: int
    """Number of ACLs for the resource, for all principals."""

    @property
    def is_implied(self) -> bool:
        """Whether the deciding ACL allows the operation only because another operation implies it."""
        rule = self.rule
        return rule is not None and rule.binding.operation not in (self.operation, AclOperation.ALL)

    @property
    def text(self) -> str:
        """The reason, as a sentence."""
        return _why(self)


def explain(
    policy: Policy, principal: Principal, host: str, operation: AclOperation, resource: Resource
) -> Explanation:
    """Explain a decision. The ``host`` ``*`` means an address that no ACL names."""
    asked_host = policy.unnamed_host if host == WILDCARD_HOST else host
    decision = policy.authorizer.explain(principal, asked_host, operation, resource.type, resource.name)
    on_resource = policy.rules_on(resource.type, resource.name)
    caller = f"{principal.type}:{principal.name}"
    rule = None if decision.id is None else policy.rule_of(decision.id)
    allowing = tuple(policy.rule_of(acl_id) for acl_id, _ in decision.allowing)
    denying = tuple(policy.rule_of(acl_id) for acl_id, _ in decision.denying)
    if caller in policy.super_users:
        reason = Reason.SUPER_USER
    elif rule is not None:
        reason = Reason.DENY_RULE if rule.is_deny else Reason.ALLOW_RULE
    else:
        reason = Reason.NO_MATCHING_RULE if on_resource else Reason.NO_RULE_FOR_RESOURCE
    mine = [r for r in on_resource if r.binding.principal in (caller, WILDCARD_PRINCIPAL)]
    return Explanation(
        principal,
        host,
        operation,
        resource,
        decision.allowed,
        reason,
        rule,
        overridden=denying if decision.allowed else allowing,
        agreeing=tuple(r for r in (allowing if decision.allowed else denying) if r is not rule),
        other_host=tuple(
            r for r in mine if covers(r.binding, operation) and r.binding.host not in (asked_host, WILDCARD_HOST)
        ),
        other_operation=tuple(
            r for r in mine if not covers(r.binding, operation) and r.binding.host in (asked_host, WILDCARD_HOST)
        ),
        rules_for_resource=len(on_resource),
    )


def rule_text(rule: Rule) -> str:
    """Format an ACL: ``ALLOW User:alice Read on Topic:orders from 10.0.0.1``. ``User:*`` means all users."""
    b = rule.binding
    host = "any host" if b.host == WILDCARD_HOST else b.host
    permission = "DENY" if rule.is_deny else "ALLOW"
    where = pattern_text(b.resource_type, b.name, b.pattern_type)
    return f"{permission} {b.principal} {operation_name(b.operation)} on {where} from {host}"


def _why(e: Explanation) -> str:
    word = operation_name(e.operation)
    if e.reason is Reason.SUPER_USER:
        return f"{e.principal} is a super user; ACLs do not apply"
    if e.rule is not None:
        text = rule_text(e.rule)
        if e.is_implied:
            text += f"; {operation_name(e.rule.binding.operation)} implies {word}"
        elif e.rule.binding.operation == AclOperation.ALL:
            text += f"; All includes {word}"
        if e.reason is Reason.DENY_RULE and e.overridden:
            text += "; a DENY overrides every ALLOW"
        return text
    if e.reason is Reason.NO_MATCHING_RULE:
        if e.rules_for_resource == 1:
            return f"the only ACL for {e.resource} does not allow {word} to {e.principal}"
        return f"none of the {e.rules_for_resource} ACLs for {e.resource} allows {word} to {e.principal}"
    outcome = "every principal may" if e.allowed else "no principal may"
    setting = "true" if e.allowed else "false"
    text = f"no ACL exists for {e.resource}, so {outcome}: allow.everyone.if.no.acl.found is {setting}"
    if e.operation not in supported_operations(e.resource.type):
        text += f" ({word} is not an operation of this resource type)"
    return text
