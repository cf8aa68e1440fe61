"""ConsumerGroupHeartbeat (KIP-848): a member joins, follows and leaves a group of the consumer protocol.

A member may subscribe only to topics that it may describe. Version 1 adds regular expressions, and clients that choose
their member id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.topic_matcher import TopicMatcher
from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker

_ADVICE = "set group.protocol=classic in the consumer"


@handles(
    ApiKey.CONSUMER_GROUP_HEARTBEAT,
    acl=(
        AclRule(ResourceType.GROUP, AclOperation.READ),
        AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),
    ),
)
def handle_consumer_group_heartbeat(
    broker: Broker, request: ConsumerGroupHeartbeatRequest, access: Access
) -> ConsumerGroupHeartbeatResponse | Awaitable[ConsumerGroupHeartbeatResponse]:
    groups = broker.groups
    if not groups.serves_consumer_groups:
        raise broker.missing_features.refusal("groups of the consumer protocol", _ADVICE, access.context)
    if not access.allows(ResourceType.GROUP, AclOperation.READ, request.group_id):
        raise access.denied(AclOperation.READ, ResourceType.GROUP, request.group_id)
    names = set(request.subscribed_topic_names or ())
    hidden = names - access.allowed(ResourceType.TOPIC, AclOperation.DESCRIBE, names)
    if hidden:
        raise access.denied(AclOperation.DESCRIBE, ResourceType.TOPIC, min(hidden))
    context = GroupRequestContext.of(access.context)
    matcher = TopicMatcher(groups, access)
    return groups.answer(groups.coordinator.consumer_group_heartbeat(context, request, matcher, groups.now_ms()))
