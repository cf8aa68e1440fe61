"""LeaveGroup: removes members from a group, by member id or, for static members, by instance id alone.

Up to version 2 a request names one member. From 3 on it is a batch with a result for each. Version 5 adds reasons.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker


@handles(ApiKey.LEAVE_GROUP, acl=(AclRule(ResourceType.GROUP, AclOperation.READ),))
def handle_leave_group(
    broker: Broker, request: LeaveGroupRequest, access: Access
) -> LeaveGroupResponse | Awaitable[LeaveGroupResponse]:
    if not access.allows(ResourceType.GROUP, AclOperation.READ, request.group_id):
        raise ApiException(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = broker.groups
    answer = groups.coordinator.leave_group(GroupRequestContext.of(access.context), request, groups.now_ms())
    return groups.answer(answer)
