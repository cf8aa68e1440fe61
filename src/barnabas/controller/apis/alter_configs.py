"""AlterConfigs (legacy) on the controller: replaces all configs of a resource; permissions as the incremental API."""

from __future__ import annotations

import logging
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiError, ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.alter_configs_checks import DUPLICATE_RESOURCE, denial
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.controller.prepared_decision import PreparedDecision, prepared
from barnabas.metadata.alter_configs_results import resource_answer
from barnabas.metadata.image.configs import ConfigResource, ConfigResourceType
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.alter_configs import (
    AlterConfigsRequest,
    AlterConfigsResource,
    AlterConfigsResourceResponse,
    AlterConfigsResponse,
)
from barnabas.protocol.records.config_record import ConfigRecord

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.metadata.image.record_writer import ApiMessageAndVersion
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "error_response", "handle"]

log = logging.getLogger(__name__)

ACL = (
    AclRule(ResourceType.TOPIC, AclOperation.ALTER_CONFIGS),
    AclRule(ResourceType.GROUP, AclOperation.ALTER_CONFIGS),
    AclRule(ResourceType.CLUSTER, AclOperation.ALTER_CONFIGS),
)

_DUPLICATE_KEYS = ApiError(ErrorCode.INVALID_REQUEST, "Error due to duplicate config keys")


class _Selection(NamedTuple):
    """Return the allowed changes, and the responses of the refused ones."""

    replacements: dict[ConfigResource, dict[str, str | None]]
    refused: list[AlterConfigsResourceResponse]


def handle(
    controller: QuorumController, context: RequestContext, request: AlterConfigsRequest, authorizer: Authorizer
) -> Deferred[AlterConfigsResponse] | PreparedDecision[AlterConfigsResponse]:
    return prepared(_select(context, request, authorizer), partial(_submit, controller, context, request))


def _select(context: RequestContext, request: AlterConfigsRequest, authorizer: Authorizer) -> Steps[_Selection]:
    counts = Counter(ConfigResource(r.resource_type, r.resource_name) for r in request.resources)
    refused: list[AlterConfigsResourceResponse] = []
    replacements: dict[ConfigResource, dict[str, str | None]] = {}
    pace = Pace()
    for requested in request.resources:
        if pace.is_reached():
            yield
        resource = ConfigResource(requested.resource_type, requested.resource_name)
        if counts[resource] > 1:
            refused.append(_result(resource, DUPLICATE_RESOURCE))
            continue
        problem = denial(authorizer, context, resource) or _duplicate_keys(requested)
        if problem is not None:
            refused.append(_result(resource, problem))
            continue
        replacements[resource] = {config.name: config.value for config in requested.configs}
    return _Selection(replacements, refused)


def _submit(
    controller: QuorumController, context: RequestContext, request: AlterConfigsRequest, selection: _Selection
) -> Deferred[AlterConfigsResponse]:
    replacements, refused = selection

    def decide() -> Steps[ControllerResult[AlterConfigsResponse]]:
        result = yield from controller.configs.legacy_alter_configs(
            replacements, validate_only=request.validate_only, is_forwarded=controller.configs.came_by_broker(context)
        )
        _tell_dropped(context, result.records, replacements)
        done = [_result(resource, error) for resource, error in result.response.items()]
        return result.with_response(AlterConfigsResponse(responses=[*refused, *done]))

    def answer_error(error: ApiException) -> AlterConfigsResponse:
        failed = [_result(resource, ApiError.of(error)) for resource in replacements]
        return AlterConfigsResponse(responses=[*refused, *failed])

    return controller.submit_in_steps(decide(), answer_error)


def error_response(request: AlterConfigsRequest, error: ApiException) -> AlterConfigsResponse:
    resources = (ConfigResource(resource.resource_type, resource.resource_name) for resource in request.resources)
    return AlterConfigsResponse(responses=[_result(resource, ApiError.of(error)) for resource in resources])


def _tell_dropped(
    context: RequestContext,
    records: Sequence[ApiMessageAndVersion],
    replacements: Mapping[ConfigResource, Mapping[str, str | None]],
) -> None:
    """Log the call: callers of this API seldom intend to reset other settings, and operators need the caller's name."""
    dropped: dict[ConfigResource, list[str]] = {}
    for record in records:
        message = record.message
        if not isinstance(message, ConfigRecord):
            continue
        resource = ConfigResource(message.resource_type, message.resource_name)
        if message.value is None and message.name not in replacements[resource]:
            dropped.setdefault(resource, []).append(message.name)
    for resource, names in dropped.items():
        kind = ConfigResourceType(resource.type).name.lower().replace("_", " ")
        log.warning(
            "%s at %s replaced all settings of %s %s with the legacy AlterConfigs, which removed %s",
            context.principal,
            context.client_host or "an unknown host",
            kind,
            resource.name or "default",
            ", ".join(sorted(names)),
        )


def _duplicate_keys(resource: AlterConfigsResource) -> ApiError | None:
    names = [config.name for config in resource.configs]
    return _DUPLICATE_KEYS if len(set(names)) != len(names) else None


def _result(resource: ConfigResource, error: ApiError) -> AlterConfigsResourceResponse:
    return resource_answer(AlterConfigsResourceResponse, resource, error)
