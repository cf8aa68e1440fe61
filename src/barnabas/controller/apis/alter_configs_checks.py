"""Checks of both AlterConfigs APIs before the decision."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiError, ErrorCode
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.metadata.image.configs import ConfigResource, ConfigResourceType
from barnabas.security.authorizer.denial import denial_error

if TYPE_CHECKING:
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["DUPLICATE_RESOURCE", "denial"]

DUPLICATE_RESOURCE = ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")


def denial(authorizer: Authorizer, context: RequestContext, resource: ConfigResource) -> ApiError | None:
    """Return the error of a caller that may not alter the resource, or of a type without configs."""
    if resource.type == ConfigResourceType.TOPIC:
        protected, name = ResourceType.TOPIC, resource.name
    elif resource.type == ConfigResourceType.GROUP:
        protected, name = ResourceType.GROUP, resource.name
    elif resource.type in (ConfigResourceType.BROKER, ConfigResourceType.CLIENT_METRICS):
        protected, name = ResourceType.CLUSTER, CLUSTER_NAME
    else:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.type}")
    if authorizer.authorize(context, AclOperation.ALTER_CONFIGS, protected, name):
        return None
    return ApiError.of(denial_error(context, AclOperation.ALTER_CONFIGS, protected, name))
