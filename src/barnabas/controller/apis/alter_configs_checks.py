"""What both forms of altering configs check before anything is decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiError, ErrorCode
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.metadata.image.configs import ConfigResource, ConfigResourceType

if TYPE_CHECKING:
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["DUPLICATE_RESOURCE", "denial"]

DUPLICATE_RESOURCE = ApiError(ErrorCode.INVALID_REQUEST, "Each resource must appear at most once.")

_TOPIC_DENIED = ApiError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed.")
_GROUP_DENIED = ApiError(ErrorCode.GROUP_AUTHORIZATION_FAILED, "Group authorization failed.")
_CLUSTER_DENIED = ApiError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, "Cluster authorization failed.")


def denial(authorizer: Authorizer, context: RequestContext, resource: ConfigResource) -> ApiError | None:
    """The error of a caller that may not alter the resource, or of a type that has no configs here."""
    if resource.type == ConfigResourceType.TOPIC:
        protected, name, refused = ResourceType.TOPIC, resource.name, _TOPIC_DENIED
    elif resource.type == ConfigResourceType.GROUP:
        protected, name, refused = ResourceType.GROUP, resource.name, _GROUP_DENIED
    elif resource.type in (ConfigResourceType.BROKER, ConfigResourceType.CLIENT_METRICS):
        protected, name, refused = ResourceType.CLUSTER, CLUSTER_NAME, _CLUSTER_DENIED
    else:
        return ApiError(ErrorCode.INVALID_REQUEST, f"Unknown resource type {resource.type}")
    return None if authorizer.authorize(context, AclOperation.ALTER_CONFIGS, protected, name) else refused
