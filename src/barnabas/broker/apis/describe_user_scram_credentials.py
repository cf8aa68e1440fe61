"""DescribeUserScramCredentials: the mechanisms and iterations of users, but never a salt or a key.

A null or empty list of users means all users.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.scram_mechanism import ScramMechanism
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.metadata.image.scram import ScramImage

_MECHANISMS = (ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512)


def _error_response(
    request: DescribeUserScramCredentialsRequest, error: ApiException
) -> DescribeUserScramCredentialsResponse:
    code, message = int(error.code), error.message
    results = [DescribeUserScramCredentialsResult(error_code=code, error_message=message) for _ in request.users or ()]
    return DescribeUserScramCredentialsResponse(error_code=code, error_message=message, results=results)


@handles(
    ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
    acl=(AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE),),
    on_error=_error_response,
)
def handle_describe_user_scram_credentials(
    broker: Broker, request: DescribeUserScramCredentialsRequest, access: Access
) -> DescribeUserScramCredentialsResponse:
    access.require_on_cluster(AclOperation.DESCRIBE)
    scram = broker.metadata.image.scram
    if request.users:
        counts = Counter(user.name for user in request.users)
    else:
        counts = Counter({user for _, user in scram.by_key})
    results = [_described(scram, user) if times == 1 else _twice(user) for user, times in counts.items()]
    return DescribeUserScramCredentialsResponse(results=results)


def _described(scram: ScramImage, user: str) -> DescribeUserScramCredentialsResult:
    found = [(mechanism, scram.by_key.get((int(mechanism), user))) for mechanism in _MECHANISMS]
    infos = [
        CredentialInfo(mechanism=int(mechanism), iterations=record.iterations)
        for mechanism, record in found
        if record is not None
    ]
    if infos:
        return DescribeUserScramCredentialsResult(user=user, credential_infos=infos)
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=int(ErrorCode.RESOURCE_NOT_FOUND),
        error_message=f"Attempt to describe a user credential that does not exist: {user}",
    )


def _twice(user: str) -> DescribeUserScramCredentialsResult:
    return DescribeUserScramCredentialsResult(
        user=user,
        error_code=int(ErrorCode.DUPLICATE_RESOURCE),
        error_message=f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}",
    )
