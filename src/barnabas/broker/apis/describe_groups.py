"""DescribeGroups: state, protocol, members and assignments of classic groups.

A group that does not exist is reported in state Dead; version 6 reports an error. Version 3 adds the caller's
operations.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.group_descriptions import describe_confirmed
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_groups import DescribedGroup, DescribeGroupsRequest, DescribeGroupsResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Set

    from barnabas.broker.broker import Broker

_AUTHORIZED_OPERATIONS_SINCE = 3
_ERROR_MESSAGE_SINCE = 6


def _error_response(request: DescribeGroupsRequest, error: ApiException) -> DescribeGroupsResponse:
    return DescribeGroupsResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.groups]
    )


@handles(ApiKey.DESCRIBE_GROUPS, acl=(AclRule(ResourceType.GROUP, AclOperation.DESCRIBE),), on_error=_error_response)
def handle_describe_groups(
    broker: Broker, request: DescribeGroupsRequest, access: Access
) -> DescribeGroupsResponse | Awaitable[DescribeGroupsResponse]:
    response = DescribeGroupsResponse()
    return describe_confirmed(
        broker, request.groups, response, partial(_describe, broker, request, access, response.groups)
    )


def _describe(
    broker: Broker, request: DescribeGroupsRequest, access: Access, groups: list[DescribedGroup], unconfirmed: Set[str]
) -> Iterator[None]:
    context = GroupRequestContext.of(access.context)
    wants_operations = (
        request.include_authorized_operations and access.context.api_version >= _AUTHORIZED_OPERATIONS_SINCE
    )
    for group_id in request.groups:
        if not access.allows(ResourceType.GROUP, AclOperation.DESCRIBE, group_id):
            described = _denied(group_id, access)
        elif group_id in unconfirmed:
            described = DescribedGroup(group_id=group_id, error_code=ErrorCode.NOT_COORDINATOR)
        else:
            described = yield from broker.groups.coordinator.describe_group(context, group_id)
            if wants_operations and described.error_code == ErrorCode.NONE:
                described.authorized_operations = access.operations_on(ResourceType.GROUP, group_id)
        groups.append(described)


def _denied(group_id: str, access: Access) -> DescribedGroup:
    described = DescribedGroup(group_id=group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if access.context.api_version >= _ERROR_MESSAGE_SINCE:
        described.error_message = access.denial(AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
    return described
