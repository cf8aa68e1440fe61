"""ShareGroupHeartbeat (KIP-932): a member joins, follows and leaves a share group. Version 1.

A member may subscribe only to topics that it may describe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker

_ADVICE = "use a consumer group"
_MEMBER_ID_LENGTH_MAX = 36
"""That of a UUID in its usual form: clients choose their ids."""


@handles(
    ApiKey.SHARE_GROUP_HEARTBEAT,
    acl=(
        AclRule(ResourceType.GROUP, AclOperation.READ),
        AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),
    ),
)
def handle_share_group_heartbeat(
    broker: Broker, request: ShareGroupHeartbeatRequest, access: Access
) -> ShareGroupHeartbeatResponse | Awaitable[ShareGroupHeartbeatResponse]:
    if not broker.groups.serves_share_groups:
        raise broker.missing_features.refusal("share groups", _ADVICE, access.context)
    if not access.allows(ResourceType.GROUP, AclOperation.READ, request.group_id):
        raise access.denied(AclOperation.READ, ResourceType.GROUP, request.group_id)
    if not 0 < len(request.member_id) <= _MEMBER_ID_LENGTH_MAX:
        raise ApiException(ErrorCode.INVALID_REQUEST, f"A member id has 1 to {_MEMBER_ID_LENGTH_MAX} characters.")
    names = set(request.subscribed_topic_names or ())
    hidden = names - access.allowed(ResourceType.TOPIC, AclOperation.DESCRIBE, names)
    if hidden:
        raise access.denied(AclOperation.DESCRIBE, ResourceType.TOPIC, min(hidden))
    return broker.share_groups.heartbeat(GroupRequestContext.of(access.context), request)
