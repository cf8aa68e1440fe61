"""IncrementalAlterConfigs on the controller: ALTER_CONFIGS on the topic, the group, or the cluster for the rest.

Changing the levels of this process's loggers requires CLUSTER_ACTION, as on Kafka's controllers.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiError, ApiException
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.controller.apis.alter_configs_checks import DUPLICATE_RESOURCE, denial
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.decision_steps import Pace, Steps
from barnabas.controller.prepared_decision import PreparedDecision, prepared
from barnabas.metadata.alter_configs_results import resource_answer
from barnabas.metadata.config_descriptions import other_node_problem
from barnabas.metadata.config_operations import ConfigOperation
from barnabas.metadata.image.configs import ConfigResource, ConfigResourceType
from barnabas.metadata.log_levels import alter_log_levels
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.incremental_alter_configs import (
    AlterConfigsResourceResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)
from barnabas.security.authorizer.denial import denial_error

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "error_response", "handle"]

ACL = (
    AclRule(ResourceType.TOPIC, AclOperation.ALTER_CONFIGS),
    AclRule(ResourceType.GROUP, AclOperation.ALTER_CONFIGS),
    AclRule(ResourceType.CLUSTER, AclOperation.ALTER_CONFIGS),
    AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),
)


class _Selection(NamedTuple):
    """Return the allowed changes, and the responses of the refused ones."""

    changes: dict[ConfigResource, list[ConfigOperation]]
    refused: list[AlterConfigsResourceResponse]


def handle(
    controller: QuorumController,
    context: RequestContext,
    request: IncrementalAlterConfigsRequest,
    authorizer: Authorizer,
) -> Deferred[IncrementalAlterConfigsResponse] | PreparedDecision[IncrementalAlterConfigsResponse]:
    return prepared(_select(controller, context, request, authorizer), partial(_submit, controller, context, request))


def _select(
    controller: QuorumController,
    context: RequestContext,
    request: IncrementalAlterConfigsRequest,
    authorizer: Authorizer,
) -> Steps[_Selection]:
    counts = Counter(ConfigResource(r.resource_type, r.resource_name) for r in request.resources)
    refused: list[AlterConfigsResourceResponse] = []
    changes: dict[ConfigResource, list[ConfigOperation]] = {}
    pace = Pace()
    for requested in request.resources:
        if pace.is_reached():
            yield
        resource = ConfigResource(requested.resource_type, requested.resource_name)
        if counts[resource] > 1:
            refused.append(_result(resource, DUPLICATE_RESOURCE))
            continue
        operations = [ConfigOperation(c.name, c.config_operation, c.value) for c in requested.configs]
        if resource.type == ConfigResourceType.BROKER_LOGGER:
            outcome = _alter_loggers(controller, context, authorizer, resource, operations, request.validate_only)
            refused.append(_result(resource, outcome))
            continue
        denied = denial(authorizer, context, resource)
        if denied is not None:
            refused.append(_result(resource, denied))
            continue
        changes[resource] = operations
    return _Selection(changes, refused)


def _submit(
    controller: QuorumController,
    context: RequestContext,
    request: IncrementalAlterConfigsRequest,
    selection: _Selection,
) -> Deferred[IncrementalAlterConfigsResponse]:
    changes, refused = selection

    def decide() -> Steps[ControllerResult[IncrementalAlterConfigsResponse]]:
        result = yield from controller.configs.incremental_alter_configs(
            changes, validate_only=request.validate_only, is_forwarded=controller.configs.came_by_broker(context)
        )
        done = [_result(resource, error) for resource, error in result.response.items()]
        return result.with_response(IncrementalAlterConfigsResponse(responses=[*refused, *done]))

    def answer_error(error: ApiException) -> IncrementalAlterConfigsResponse:
        failed = [_result(resource, ApiError.of(error)) for resource in changes]
        return IncrementalAlterConfigsResponse(responses=[*refused, *failed])

    return controller.submit_in_steps(decide(), answer_error)


def _alter_loggers(
    controller: QuorumController,
    context: RequestContext,
    authorizer: Authorizer,
    resource: ConfigResource,
    operations: Sequence[ConfigOperation],
    validate_only: bool,
) -> ApiError:
    """Change the log levels of this process: they take effect immediately, and are not recorded."""
    if not authorizer.authorize(context, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME):
        return ApiError.of(denial_error(context, AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER, CLUSTER_NAME))
    problem = other_node_problem(controller.config.node_id, resource)
    if problem is not None:
        return ApiError.of(problem)
    try:
        alter_log_levels(operations, who=context.principal, validate_only=validate_only)
    except ApiException as error:
        return ApiError.of(error)
    return ApiError.NONE


def error_response(request: IncrementalAlterConfigsRequest, error: ApiException) -> IncrementalAlterConfigsResponse:
    resources = (ConfigResource(resource.resource_type, resource.resource_name) for resource in request.resources)
    return IncrementalAlterConfigsResponse(responses=[_result(resource, ApiError.of(error)) for resource in resources])


def _result(resource: ConfigResource, error: ApiError) -> AlterConfigsResourceResponse:
    return resource_answer(AlterConfigsResourceResponse, resource, error)
