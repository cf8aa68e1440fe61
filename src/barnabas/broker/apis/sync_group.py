"""SyncGroup: the group leader sends the assignments of a generation, and every member receives its own.

Version 3 adds static members. From version 5 on a member names the protocol that it expects in the generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker

_PROTOCOL_REQUIRED_SINCE = 5


@handles(ApiKey.SYNC_GROUP, acl=(AclRule(ResourceType.GROUP, AclOperation.READ),))
def handle_sync_group(
    broker: Broker, request: SyncGroupRequest, access: Access
) -> SyncGroupResponse | Awaitable[SyncGroupResponse]:
    if access.context.api_version >= _PROTOCOL_REQUIRED_SINCE and (
        request.protocol_type is None or request.protocol_name is None
    ):
        raise ApiException(ErrorCode.INCONSISTENT_GROUP_PROTOCOL)
    if not access.allows(ResourceType.GROUP, AclOperation.READ, request.group_id):
        raise ApiException(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = broker.groups
    answer = groups.coordinator.sync_group(request, groups.now_ms())
    return groups.answer(answer)
