"""CreateAcls on the controller: ALTER on the cluster. Each rule succeeds or fails alone; one batch is written."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiError, ApiException, ErrorCode
from barnabas.common.resource import CLUSTER_NAME, ResourceType
from barnabas.controller.apis.request_checks import require_on_cluster
from barnabas.controller.controller_result import ControllerResult
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from barnabas.security.authorizer.acl_requests import binding_of_creation, require_acls
from barnabas.security.authorizer.acl_requests import check_create_acls as check_request
from barnabas.security.authorizer.acl_warnings import acl_warnings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.common.acl import AclBinding
    from barnabas.controller.decision_steps import Steps
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "check_request", "error_response", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.ALTER),)

log = logging.getLogger(__name__)

_WARNINGS_MAX = 10
"""The most warnings per request, which may have thousands of ACLs with the same problem."""


def handle(
    controller: QuorumController, context: RequestContext, request: CreateAclsRequest, authorizer: Authorizer
) -> Deferred[CreateAclsResponse]:
    def decide() -> Steps[ControllerResult[CreateAclsResponse]]:
        require_on_cluster(authorizer, context, AclOperation.ALTER)
        require_acls(authorizer, "No Authorizer is configured.")
        bindings = [binding_of_creation(creation) for creation in request.creations]
        refusals = [_refusal(binding) for binding in bindings]
        accepted = [binding for binding, refusal in zip(bindings, refusals, strict=True) if refusal is None]
        result = yield from controller.acls.create_acls(accepted)
        decided = iter(result.response)
        errors = [next(decided) if refusal is None else refusal for refusal in refusals]
        _warn(context, [binding for binding, error in zip(bindings, errors, strict=True) if not error.is_error])
        return result.with_response(CreateAclsResponse(results=[_result(error) for error in errors]))

    return controller.submit_in_steps(decide(), lambda error: error_response(request, error))


def error_response(request: CreateAclsRequest, error: ApiException) -> CreateAclsResponse:
    return CreateAclsResponse(results=[_result(ApiError.of(error)) for _ in request.creations])


def _refusal(binding: AclBinding) -> ApiError | None:
    """Return the API's own error, before the controller checks the ACL; Kafka checks in this order too."""
    if binding.resource_type == ResourceType.CLUSTER and binding.name != CLUSTER_NAME:
        message = f"The only valid name for the CLUSTER resource is {CLUSTER_NAME}"
        return ApiError(ErrorCode.INVALID_REQUEST, message)
    if not binding.name:
        return ApiError(ErrorCode.INVALID_REQUEST, "Invalid empty resource name")
    return None


def _result(error: ApiError) -> AclCreationResult:
    # For success Kafka writes the empty text and not null.
    return AclCreationResult(error_code=int(error.code), error_message=error.message if error.is_error else "")


def _warn(context: RequestContext, bindings: Sequence[AclBinding]) -> None:
    warnings = [(binding, warning) for binding in bindings for warning in acl_warnings(binding)]
    for binding, warning in warnings[:_WARNINGS_MAX]:
        log.warning("%s creates an ACL that was accepted, but %s: %s", context.principal, warning, ascii(str(binding)))
    if len(warnings) > _WARNINGS_MAX:
        log.warning("%d more warnings about the ACLs of this request", len(warnings) - _WARNINGS_MAX)
