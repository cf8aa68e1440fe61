"""CreateDelegationToken: CREATE_TOKENS on the owner, if that is not the caller; a token's user is always refused.

A broker has made the same checks before it forwarded the request; a client of a controller's listener has not passed
them yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.controller.controller_result import ControllerResult
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.security.principal import Principal
from barnabas.security.token_requests import (
    check_caller,
    creation_refusal,
    is_same,
    owner_of,
    requester_in,
    time_of_refusal,
)

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL = (AclRule(ResourceType.USER, AclOperation.CREATE_TOKENS),)


def handle(
    controller: QuorumController, context: RequestContext, request: CreateDelegationTokenRequest, authorizer: Authorizer
) -> Deferred[CreateDelegationTokenResponse]:
    requester = context.principal
    token_requester = requester_in(requester, context.api_version)
    owner = owner_of(request, requester)

    def decide() -> ControllerResult[CreateDelegationTokenResponse]:
        check_caller(context)
        if not is_same(owner, requester) and not authorizer.authorize(
            context, AclOperation.CREATE_TOKENS, ResourceType.USER, str(owner)
        ):
            raise ApiException(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        result = controller.delegation_tokens.create_token(
            owner=owner,
            requester=requester,
            renewers=[Principal(renewer.principal_type, renewer.principal_name) for renewer in request.renewers],
            max_lifetime_ms=request.max_lifetime_ms,
            now_ms=controller.wall_clock_ms(),
        )
        record, hmac = result.response
        response = CreateDelegationTokenResponse(
            principal_type=owner.type,
            principal_name=owner.name,
            token_requester_principal_type=token_requester.type,
            token_requester_principal_name=token_requester.name,
            issue_timestamp_ms=record.issue_timestamp,
            expiry_timestamp_ms=record.expiration_timestamp,
            max_timestamp_ms=record.max_timestamp,
            token_id=record.token_id,
            hmac=hmac,
        )
        return result.with_response(response)

    def answer_error(error: ApiException) -> CreateDelegationTokenResponse:
        return creation_refusal(error, context, owner, time_ms=time_of_refusal(error.code))

    return controller.submit(decide, answer_error)
