"""AlterConfigs (legacy) on the controller: replaces all that is set on a resource; rights as the incremental form."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiError, ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.alter_configs_checks import DUPLICATE_RESOURCE, denial
from barnabas.controller.controller_result import ControllerResult
from barnabas.metadata.image.configs import ConfigResource
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL = (
    AclRule(ResourceType.TOPIC, AclOperation.ALTER_CONFIGS),
    AclRule(ResourceType.GROUP, AclOperation.ALTER_CONFIGS),
    AclRule(ResourceType.CLUSTER, AclOperation.ALTER_CONFIGS),
)

_DUPLICATE_KEYS = ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


def handle(
    controller: QuorumController, context: RequestContext, request: AlterConfigsRequest, authorizer: Authorizer
) -> Deferred[AlterConfigsResponse]:
    counts = Counter(ConfigResource(r.resource_type, r.resource_name) for r in request.resources)
    refused = []
    replacements: dict[ConfigResource, dict[str, str | None]] = {}
    for requested in request.resources:
        resource = ConfigResource(requested.resource_type, requested.resource_name)
        if counts[resource] > 1:
            refused.append(_result(resource, DUPLICATE_RESOURCE))
            continue
        problem = denial(authorizer, context, resource) or _duplicate_keys(requested)
        if problem is not None:
            refused.append(_result(resource, problem))
            continue
        replacements[resource] = {config.name: config.value for config in requested.configs}

    def decide() -> ControllerResult[AlterConfigsResponse]:
        result = controller.configs.legacy_alter_configs(replacements, validate_only=request.validate_only)
        done = [_result(resource, error) for resource, error in result.response.items()]
        return result.with_response(AlterConfigsResponse(responses=[*refused, *done]))

    def answer_error(error: ApiException) -> AlterConfigsResponse:
        failed = [_result(resource, ApiError.of(error)) for resource in replacements]
        return AlterConfigsResponse(responses=[*refused, *failed])

    return controller.submit(decide, answer_error)


def _duplicate_keys(resource: AlterConfigsResource) -> ApiError | None:
    names = [config.name for config in resource.configs]
    return _DUPLICATE_KEYS if len(set(names)) != len(names) else None


def _result(resource: ConfigResource, error: ApiError) -> AlterConfigsResourceResponse:
    return AlterConfigsResourceResponse(
        error_code=int(error.code),
        error_message=error.message,
        resource_type=resource.type,
        resource_name=resource.name,
    )
