"""Whether rules allow something, read one by one: slow, short, and nothing of the product in it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

__all__ = ["is_allowed", "right_for"]

LITERAL, PREFIXED = 3, 4
DENY, ALLOW = 2, 3
ALL, READ, WRITE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS = 2, 3, 4, 6, 7, 8, 10, 11

_IMPLYING = {DESCRIBE: {READ, WRITE, DELETE, ALTER}, DESCRIBE_CONFIGS: {ALTER_CONFIGS}}


def is_allowed(
    rules: Iterable[tuple[Any, ...]], principal: str, host: str, operation: int, resource_type: int, name: str
) -> bool:
    is_any_allowing = False
    for of_type, of_name, pattern, of_principal, of_host, of_operation, permission in rules:
        if of_type != resource_type or of_host not in (host, "*") or of_principal not in (principal, "User:*"):
            continue
        if pattern == LITERAL:
            covers = of_name in (name, "*")
        else:
            covers = pattern == PREFIXED and name.startswith(of_name)
        if not covers:
            continue
        if permission == DENY and of_operation in (operation, ALL):
            return False
        if permission == ALLOW and (of_operation in (operation, ALL) or of_operation in _IMPLYING.get(operation, ())):
            is_any_allowing = True
    return is_any_allowing


CLUSTER = (4, "kafka-cluster")


def right_for(request: Any) -> tuple[int, int, str] | None:
    """The operation, the type and the name of the resource that a change needs; None when we don't look."""
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
