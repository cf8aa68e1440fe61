"""Heartbeat: keeps a member alive, and reports whether its group is rebalancing. Version 3 adds static members."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker


@handles(ApiKey.HEARTBEAT, acl=(AclRule(ResourceType.GROUP, AclOperation.READ),))
def handle_heartbeat(
    broker: Broker, request: HeartbeatRequest, access: Access
) -> HeartbeatResponse | Awaitable[HeartbeatResponse]:
    if not access.allows(ResourceType.GROUP, AclOperation.READ, request.group_id):
        raise ApiException(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    groups = broker.groups
    return groups.answer(groups.coordinator.heartbeat(request, groups.now_ms()))
