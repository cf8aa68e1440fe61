"""ExpireDelegationToken: see ``token_expiry``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller.token_expiry import change_expiry
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.expire_delegation_token import (
    ExpireDelegationTokenRequest,
    ExpireDelegationTokenResponse,
)

if TYPE_CHECKING:
    from barnabas.controller.controller_result import ControllerResult
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL: tuple[AclRule, ...] = ()


def handle(
    controller: QuorumController, context: RequestContext, request: ExpireDelegationTokenRequest, authorizer: Authorizer
) -> Deferred[ExpireDelegationTokenResponse]:
    def change(now_ms: int) -> ControllerResult[int]:
        return controller.delegation_tokens.expire_token(
            hmac=request.hmac,
            principal=context.principal,
            expiry_period_ms=request.expiry_time_period_ms,
            now_ms=now_ms,
        )

    return change_expiry(controller, context, ExpireDelegationTokenResponse, change)
