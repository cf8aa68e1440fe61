"""AlterClientQuotas: ALTER_CONFIGS on the cluster; an answer for each entry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiError, ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_on_cluster
from barnabas.controller.controller_result import ControllerResult
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from barnabas.controller.decision_steps import Steps
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "error_response", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.ALTER_CONFIGS),)


def handle(
    controller: QuorumController, context: RequestContext, request: AlterClientQuotasRequest, authorizer: Authorizer
) -> Deferred[AlterClientQuotasResponse]:
    def decide() -> Steps[ControllerResult[AlterClientQuotasResponse]]:
        require_on_cluster(authorizer, context, AclOperation.ALTER_CONFIGS)
        result = yield from controller.client_quotas.alter_quotas(request.entries, validate_only=request.validate_only)
        return result.with_response(_response(request, result.response))

    return controller.submit_in_steps(decide(), lambda error: error_response(request, error))


def error_response(request: AlterClientQuotasRequest, error: ApiException) -> AlterClientQuotasResponse:
    return _response(request, [ApiError.of(error)] * len(request.entries))


def _response(request: AlterClientQuotasRequest, outcome: Sequence[ApiError]) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=int(error.code),
                error_message=error.message,
                entity=[
                    EntityData(entity_type=component.entity_type, entity_name=component.entity_name)
                    for component in entry.entity
                ],
            )
            for entry, error in zip(request.entries, outcome, strict=True)
        ]
    )
