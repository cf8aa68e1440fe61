"""JoinGroup: joins a classic group or its next generation. The answer is sent when the rebalance completes.

Version 1 adds the rebalance timeout. From 4 on, new members must rejoin with the id that they receive. 5 adds static
members, 7 the protocol type and a nullable protocol name in the answer, 8 the reason, 9 skipping the assignment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker

_NULLABLE_PROTOCOL_NAME_SINCE = 7


@handles(ApiKey.JOIN_GROUP, acl=(AclRule(ResourceType.GROUP, AclOperation.READ),))
def handle_join_group(
    broker: Broker, request: JoinGroupRequest, access: Access
) -> JoinGroupResponse | Awaitable[JoinGroupResponse]:
    version = access.context.api_version

    def shape(response: JoinGroupResponse) -> JoinGroupResponse:
        """Set a missing protocol name, also with an error: it is empty before version 7 and null from then on."""
        if not response.protocol_name:
            response.protocol_name = "" if version < _NULLABLE_PROTOCOL_NAME_SINCE else None
        return response

    if not access.allows(ResourceType.GROUP, AclOperation.READ, request.group_id):
        return shape(JoinGroupResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED))
    groups = broker.groups
    answer = groups.coordinator.join_group(GroupRequestContext.of(access.context), request, groups.now_ms())
    return groups.answer(answer.map(shape))
