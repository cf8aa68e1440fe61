"""ExpireDelegationToken: no right is asked for, but the caller must own the token or be a renewer of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException
from barnabas.controller.controller_result import ControllerResult
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)
from barnabas.security.token_requests import check_caller, time_of_refusal

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL: tuple[AclRule, ...] = ()


def handle(
    controller: QuorumController, context: RequestContext, request: ExpireDelegationTokenRequest, authorizer: Authorizer
) -> Deferred[ExpireDelegationTokenResponse]:
    def decide() -> ControllerResult[ExpireDelegationTokenResponse]:
        check_caller(context)
        result = controller.delegation_tokens.expire_token(
            hmac=request.hmac,
            principal=context.principal,
            expiry_period_ms=request.expiry_time_period_ms,
            now_ms=controller.wall_clock_ms(),
        )
        return result.with_response(ExpireDelegationTokenResponse(expiry_timestamp_ms=result.response))

    def answer_error(error: ApiException) -> ExpireDelegationTokenResponse:
        return ExpireDelegationTokenResponse(
            error_code=int(error.code), expiry_timestamp_ms=time_of_refusal(error.code)
        )

    return controller.submit(decide, answer_error)
