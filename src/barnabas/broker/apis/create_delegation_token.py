"""CreateDelegationToken: checked by the broker, which knows the client's own channel, and decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.forwarding import forward_to_controller
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from barnabas.security.token_requests import NO_TIME, check_caller, creation_refusal, is_same, owner_of

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.protocol.schema import Message

_USER = "User"


def _error_response(request: CreateDelegationTokenRequest, error: ApiException) -> CreateDelegationTokenResponse:
    """Return the answer for an unreachable controller or a failed request. It does not name a principal."""
    return CreateDelegationTokenResponse(
        error_code=int(error.code), issue_timestamp_ms=NO_TIME, expiry_timestamp_ms=NO_TIME, max_timestamp_ms=NO_TIME
    )


@handles(
    ApiKey.CREATE_DELEGATION_TOKEN,
    acl=(AclRule(ResourceType.USER, AclOperation.CREATE_TOKENS),),
    on_error=_error_response,
)
def handle_create_delegation_token(
    broker: Broker, request: CreateDelegationTokenRequest, access: Access
) -> Awaitable[Message] | CreateDelegationTokenResponse:
    requester = access.context.principal
    owner = owner_of(request, requester)
    try:
        check_caller(access.context)
        # The controller checks the permission again, and logs the result.
        if not is_same(owner, requester) and not access.allows(
            ResourceType.USER, AclOperation.CREATE_TOKENS, str(owner), log_if_allowed=False
        ):
            raise ApiException(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
        if any(renewer.principal_type != _USER for renewer in request.renewers):
            raise ApiException(ErrorCode.INVALID_PRINCIPAL_TYPE)
    except ApiException as refusal:
        return creation_refusal(refusal, access.context, owner)
    return forward_to_controller(broker, request, access)
