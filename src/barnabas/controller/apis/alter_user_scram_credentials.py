"""AlterUserScramCredentials: ALTER on the cluster; an answer for each named user."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiError, ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_on_cluster
from barnabas.controller.controller_result import ControllerResult
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "error_response", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.ALTER),)


def handle(
    controller: QuorumController,
    context: RequestContext,
    request: AlterUserScramCredentialsRequest,
    authorizer: Authorizer,
) -> Deferred[AlterUserScramCredentialsResponse]:
    def decide() -> ControllerResult[AlterUserScramCredentialsResponse]:
        require_on_cluster(authorizer, context, AclOperation.ALTER)
        result = controller.scram.alter_credentials(request)
        return result.with_response(_response(result.response))

    return controller.submit(decide, lambda error: error_response(request, error))


def error_response(request: AlterUserScramCredentialsRequest, error: ApiException) -> AlterUserScramCredentialsResponse:
    users = sorted({*(change.name for change in request.deletions), *(change.name for change in request.upsertions)})
    return _response(dict.fromkeys(users, ApiError.of(error)))


def _response(outcome: Mapping[str, ApiError]) -> AlterUserScramCredentialsResponse:
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=int(error.code), error_message=error.message)
            for user, error in outcome.items()
        ]
    )
