"""RenewDelegationToken: see ``token_expiry``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.controller.token_expiry import change_expiry
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse

if TYPE_CHECKING:
    from barnabas.controller.controller_result import ControllerResult
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL: tuple[AclRule, ...] = ()


def handle(
    controller: QuorumController, context: RequestContext, request: RenewDelegationTokenRequest, authorizer: Authorizer
) -> Deferred[RenewDelegationTokenResponse]:
    def change(now_ms: int) -> ControllerResult[int]:
        return controller.delegation_tokens.renew_token(
            hmac=request.hmac, principal=context.principal, renew_period_ms=request.renew_period_ms, now_ms=now_ms
        )

    return change_expiry(controller, context, RenewDelegationTokenResponse, change)
