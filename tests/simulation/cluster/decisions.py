"""Decides whether ACLs allow an operation: reads them one by one, slowly, without any code of the product."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["is_allowed", "right_for"]

LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 2, 3, 4, 6, 7, 8, 10, 11

_IMPLYING = {DESCRIBE: {READ, WRITE, DELETE, ALTER}, DESCRIBE_CONFIGS: {ALTER_CONFIGS}}


def is_allowed(
    acls: Iterable[tuple[Any, ...]], principal: str, host: str, operation: int, resource_type: int, name: str
) -> bool:
    is_any_allowing = False
    for acl_type, acl_name, pattern, acl_principal, acl_host, acl_operation, permission in acls:
        if acl_type != resource_type or acl_host not in (host, "*") or acl_principal not in (principal, "User:*"):
            continue
        if pattern == LITERAL:
            covers = acl_name in (name, "*")
        else:
            covers = pattern == PREFIXED and name.startswith(acl_name)
        if not covers:
            continue
        if permission == DENY and acl_operation in (operation, ALL):
            return False
        if permission == ALLOW and (acl_operation in (operation, ALL) or acl_operation in _IMPLYING.get(operation, ())):
            is_any_allowing = True
    return is_any_allowing


CLUSTER = (4, "kafka-cluster")


def right_for(request: Any) -> tuple[int, int, str] | None:
    """Return the operation, resource type and resource name that a change requires; None if it is not checked."""
    kind = type(request).__name__
    if kind in ("CreateAclsRequest", "DeleteAclsRequest"):
        return (ALTER, *CLUSTER)
    if kind == "AlterClientQuotasRequest":
        return (ALTER_CONFIGS, *CLUSTER)
    if kind == "DeleteTopicsRequest":
        return (DELETE, 2, request.topics[0].name)
    if kind == "IncrementalAlterConfigsRequest" and request.resources[0].resource_type == 2:
        return (ALTER_CONFIGS, 2, request.resources[0].resource_name)
    return None
