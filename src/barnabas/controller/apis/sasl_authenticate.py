"""SaslAuthenticate on a controller's listener, once requests are served: the broker's answer, ILLEGAL_SASL_STATE."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.deferred import Deferred
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL: tuple[AclRule, ...] = ()


def handle(
    controller: QuorumController, context: RequestContext, request: SaslAuthenticateRequest, authorizer: Authorizer
) -> Deferred[SaslAuthenticateResponse]:
    return Deferred.completed(
        SaslAuthenticateResponse(
            error_code=ErrorCode.ILLEGAL_SASL_STATE,
            error_message="SaslAuthenticate request received after successful authentication",
        )
    )
