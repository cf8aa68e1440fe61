"""Rules for requests for delegation tokens and their refusals: the same on brokers and controllers (KIP-48).

A token must not be used to create more tokens, and must not be sent where others can read it. So callers that logged in
with a token are refused, and callers over PLAINTEXT, or over TLS without their own certificate.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenResponse
from barnabas.security.principal import ANONYMOUS, Principal

if TYPE_CHECKING:
    from barnabas.protocol.messages.create_delegation_token import CreateDelegationTokenRequest
    from barnabas.security.request_context import RequestContext

__all__ = ["NO_TIME", "check_caller", "creation_refusal", "is_same", "owner_of", "requester_in", "time_of_refusal"]

NO_TIME = -1
_FIRST_VERSION_WITH_REQUESTER = 3
_NO_PRINCIPAL = Principal("", "")
_REFUSALS_BEFORE_DECIDING = frozenset(
    {
        ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED,
        ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    }
)


def check_caller(context: RequestContext) -> None:
    """Raise DELEGATION_TOKEN_REQUEST_NOT_ALLOWED for a caller that may not request tokens.

    For a request in an Envelope, the channel is the forwarding broker's, which has checked the client's channel.
    """
    principal = context.principal
    is_forwarded = context.forwarding_principal is not None
    if principal.token_authenticated or not (is_forwarded or _is_safe(context.security_protocol, principal)):
        raise ApiException(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _is_safe(security_protocol: str, principal: Principal) -> bool:
    if security_protocol == "SSL":
        return not is_same(principal, ANONYMOUS)
    return security_protocol != "PLAINTEXT"


def is_same(principal: Principal, other: Principal) -> bool:
    """Return whether type and name are equal; the kind of login is ignored."""
    return principal[:2] == other[:2]


def owner_of(request: CreateDelegationTokenRequest, requester: Principal) -> Principal:
    """Return the owner of the new token: the requester, unless the request names an owner."""
    if request.owner_principal_name:
        return Principal(request.owner_principal_type or "", request.owner_principal_name)
    return requester


def time_of_refusal(code: ErrorCode) -> int:
    """Return the time in a refusal: as in Kafka, -1 if the caller may not make the request, 0 if it is denied."""
    return NO_TIME if code in _REFUSALS_BEFORE_DECIDING else 0


def requester_in(requester: Principal, api_version: int) -> Principal:
    """Return the token's requester for a response: empty in versions without the field."""
    return requester if api_version >= _FIRST_VERSION_WITH_REQUESTER else _NO_PRINCIPAL


def creation_refusal(
    error: ApiException, context: RequestContext, owner: Principal, *, time_ms: int = NO_TIME
) -> CreateDelegationTokenResponse:
    requester = requester_in(context.principal, context.api_version)
    return CreateDelegationTokenResponse(
        error_code=int(error.code),
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp_ms=time_ms,
        expiry_timestamp_ms=time_ms,
        max_timestamp_ms=time_ms,
    )
