"""DescribeDelegationToken: tokens with their HMACs, from the image.

A principal sees the tokens that it owns, requested or may renew. It also sees a token if it has DESCRIBE on the token,
or DESCRIBE_TOKENS on the token's owner. All other tokens are omitted. Null owners select every token, an empty list
none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenRequest,
    DescribeDelegationTokenResponse,
)
from barnabas.security.delegation_tokens import is_concerned, principal_of
from barnabas.security.principal import Principal
from barnabas.security.token_requests import check_caller, requester_in

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.protocol.records.delegation_token_record import DelegationTokenRecord


@handles(
    ApiKey.DESCRIBE_DELEGATION_TOKEN,
    acl=(
        AclRule(ResourceType.DELEGATION_TOKEN, AclOperation.DESCRIBE),
        AclRule(ResourceType.USER, AclOperation.DESCRIBE_TOKENS),
    ),
)
def handle_describe_delegation_token(
    broker: Broker, request: DescribeDelegationTokenRequest, access: Access
) -> DescribeDelegationTokenResponse:
    check_caller(access.context)
    hmacs = broker.token_hmacs
    if hmacs is None:
        raise ApiException(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    owners = None
    if request.owners is not None:
        owners = [Principal(owner.principal_type, owner.principal_name) for owner in request.owners]
    version = access.context.api_version
    shown = [t for t in broker.metadata.image.delegation_tokens.by_key.values() if _is_shown(t, owners, access)]
    return DescribeDelegationTokenResponse(
        tokens=[_described(token, hmacs.hmac_of(token.token_id), version) for token in shown]
    )


def _is_shown(token: DelegationTokenRecord, owners: list[Principal] | None, access: Access) -> bool:
    if owners is not None and not any(is_concerned(token, owner) for owner in owners):
        return False
    return (
        is_concerned(token, access.context.principal)
        or access.allows(ResourceType.DELEGATION_TOKEN, AclOperation.DESCRIBE, token.token_id)
        or access.allows(ResourceType.USER, AclOperation.DESCRIBE_TOKENS, token.owner)
    )


def _described(token: DelegationTokenRecord, hmac: bytes, api_version: int) -> DescribedDelegationToken:
    owner, requester = principal_of(token.owner), requester_in(principal_of(token.requester), api_version)
    renewers = [principal_of(renewer) for renewer in token.renewers]
    return DescribedDelegationToken(
        principal_type=owner.type,
        principal_name=owner.name,
        token_requester_principal_type=requester.type,
        token_requester_principal_name=requester.name,
        issue_timestamp=token.issue_timestamp,
        expiry_timestamp=token.expiration_timestamp,
        max_timestamp=token.max_timestamp,
        token_id=token.token_id,
        hmac=hmac,
        renewers=[
            DescribedDelegationTokenRenewer(principal_type=renewer.type, principal_name=renewer.name)
            for renewer in renewers
        ],
    )
