"""ShareGroupDescribe (KIP-932): state, members and assignments of share groups. Version 1.

A group whose members read a topic that the caller may not describe is answered with an error.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.group_descriptions import MEMBERS_A_STEP, DescribedKind, describe_confirmed
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.share_group_describe import (
    DescribedGroup,
    ShareGroupDescribeRequest,
    ShareGroupDescribeResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Set

    from barnabas.broker.broker import Broker
    from barnabas.coordinator.group.assignor.group_spec import Steps


def _error_response(request: ShareGroupDescribeRequest, error: ApiException) -> ShareGroupDescribeResponse:
    return ShareGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.group_ids]
    )


@handles(
    ApiKey.SHARE_GROUP_DESCRIBE,
    acl=(
        AclRule(ResourceType.GROUP, AclOperation.DESCRIBE),
        AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),
    ),
    on_error=_error_response,
)
def handle_share_group_describe(
    broker: Broker, request: ShareGroupDescribeRequest, access: Access
) -> ShareGroupDescribeResponse | Awaitable[ShareGroupDescribeResponse]:
    if not broker.groups.serves_share_groups:
        return _error_response(request, ApiException(ErrorCode.UNSUPPORTED_VERSION))
    response = ShareGroupDescribeResponse()
    return describe_confirmed(
        broker, request.group_ids, response, partial(_KIND.steps, broker, request, access, response.groups)
    )


def _topics_of(group: DescribedGroup) -> Steps[Set[str]]:
    topics: set[str] = set()
    for number, member in enumerate(group.members, start=1):
        topics.update(partitions.topic_name for partitions in member.assignment.topic_partitions)
        if number % MEMBERS_A_STEP == 0:
            yield
    return topics


_KIND = DescribedKind(
    DescribedGroup,
    lambda broker, group_id: broker.groups.coordinator.share.describe(group_id),
    _topics_of,
    "The group has described topic(s) that the client is not authorized to describe.",
)
