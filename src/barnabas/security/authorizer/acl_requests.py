"""Converts ACLs between requests and rules, with the checks of Kafka's request classes.

A request that has the code UNKNOWN (0) anywhere can't be read: Kafka closes the connection, as for a body that is cut
short. A code that is merely not known here (of a newer Kafka) can be read, and becomes UNKNOWN. ANY and MATCH belong
into filters: a rule to create with one of them fails the whole request, as in Kafka. There it is error -1 without a
message; here it is INVALID_REQUEST with the reason.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

from barnabas.common.acl import AclBinding, AclBindingFilter, AclOperation, AclPermissionType
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import PatternType, ResourceType
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages.describe_acls import AclDescription, DescribeAclsResource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from barnabas.protocol.messages.create_acls import AclCreation, CreateAclsRequest
    from barnabas.protocol.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
    from barnabas.protocol.messages.describe_acls import DescribeAclsRequest
    from barnabas.security.authorizer.authorizer import AclAuthorizer, Authorizer

__all__ = [
    "binding_of_creation",
    "check_create_acls",
    "check_delete_acls",
    "check_describe_acls",
    "describe_bindings",
    "filter_of",
    "require_acls",
]


def require_acls(authorizer: Authorizer, none_configured: str) -> AclAuthorizer:
    """Return the authorizer that keeps the cluster's ACLs; raises SECURITY_DISABLED if the authorizer has none."""
    known = authorizer.acl_authorizer
    if known is None:
        message = none_configured if authorizer.is_absent else "The authorizer of this node does not decide by ACLs."
        raise ApiException(ErrorCode.SECURITY_DISABLED, message)
    return known


def check_create_acls(request: CreateAclsRequest) -> None:
    """Raise DecodeError for what Kafka's request class refuses."""
    for creation in request.creations:
        if 0 in (creation.resource_type, creation.resource_pattern_type, creation.operation, creation.permission_type):
            raise DecodeError("an ACL to create has an UNKNOWN element")


def check_delete_acls(request: DeleteAclsRequest) -> None:
    """Raise DecodeError for what Kafka's request class refuses."""
    for acl_filter in request.filters:
        _check_filter(acl_filter)


def check_describe_acls(request: DescribeAclsRequest) -> None:
    """Raise DecodeError for what Kafka's request class refuses."""
    _check_filter(request)


def _check_filter(acl_filter: DeleteAclsFilter | DescribeAclsRequest) -> None:
    if 0 in (
        acl_filter.resource_type_filter,
        acl_filter.pattern_type_filter,
        acl_filter.operation,
        acl_filter.permission_type,
    ):
        raise DecodeError("an ACL filter has an UNKNOWN element")


def binding_of_creation(creation: AclCreation) -> AclBinding:
    """Raise INVALID_REQUEST for a code that only a filter may have."""
    for what, kind, code in (
        ("resourceType", ResourceType, creation.resource_type),
        ("patternType", PatternType, creation.resource_pattern_type),
        ("operation", AclOperation, creation.operation),
        ("permissionType", AclPermissionType, creation.permission_type),
    ):
        if code == kind.ANY or (kind is PatternType and code == PatternType.MATCH):
            raise ApiException(ErrorCode.INVALID_REQUEST, f"{what} must not be {kind(code).name}")
    return AclBinding(
        _known(ResourceType, creation.resource_type),
        creation.resource_name,
        _known(PatternType, creation.resource_pattern_type),
        creation.principal,
        creation.host,
        _known(AclOperation, creation.operation),
        _known(AclPermissionType, creation.permission_type),
    )


def filter_of(requested: DeleteAclsFilter | DescribeAclsRequest) -> AclBindingFilter:
    return AclBindingFilter(
        _known(ResourceType, requested.resource_type_filter),
        requested.resource_name_filter,
        _known(PatternType, requested.pattern_type_filter),
        requested.principal_filter,
        requested.host_filter,
        _known(AclOperation, requested.operation),
        _known(AclPermissionType, requested.permission_type),
    )


def describe_bindings(bindings: Iterable[AclBinding]) -> list[DescribeAclsResource]:
    """Return one entry for each resource pattern with all of its rules, in the order of ``bindings``."""
    resources: dict[tuple[int, str, int], DescribeAclsResource] = {}
    for binding in bindings:
        key = (binding.resource_type, binding.name, binding.pattern_type)
        resource = resources.get(key)
        if resource is None:
            resource = resources[key] = DescribeAclsResource(
                resource_type=binding.resource_type, resource_name=binding.name, pattern_type=binding.pattern_type
            )
        resource.acls.append(
            AclDescription(
                principal=binding.principal,
                host=binding.host,
                operation=binding.operation,
                permission_type=binding.permission,
            )
        )
    return list(resources.values())


def _known(kind: type[IntEnum], code: int) -> int:
    return code if code in kind._value2member_map_ else 0
