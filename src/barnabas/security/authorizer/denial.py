"""Builds the message for a denied caller: principal, operation and resource, and nothing else.

It never names the deciding rule, nor a name that the caller did not send.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.printable import printable
from barnabas.common.resource import ResourceType

if TYPE_CHECKING:
    from barnabas.common.acl import AclOperation
    from barnabas.security.request_context import RequestContext

__all__ = ["RESOURCE_TYPE_TEXTS", "denial_error", "denial_text"]

RESOURCE_TYPE_TEXTS: dict[int, str] = {
    ResourceType.TOPIC: "Topic",
    ResourceType.GROUP: "Group",
    ResourceType.CLUSTER: "Cluster",
    ResourceType.TRANSACTIONAL_ID: "TransactionalId",
    ResourceType.DELEGATION_TOKEN: "DelegationToken",
    ResourceType.USER: "User",
}

_CODES: dict[int, ErrorCode] = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}


def denial_text(context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str) -> str:
    """``User:billing lacks WRITE on Topic:orders``"""
    who = printable(str(context.principal))
    return f"{who} lacks {operation.name} on {RESOURCE_TYPE_TEXTS[resource_type]}:{printable(name)}"


def denial_error(
    context: RequestContext, operation: AclOperation, resource_type: ResourceType, name: str
) -> ApiException:
    """Return the text with Kafka's error code for the type."""
    return ApiException(_CODES[resource_type], denial_text(context, operation, resource_type, name))
