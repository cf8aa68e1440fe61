"""DeleteShareGroupOffsets (KIP-932): removes topics, with all of their offsets, from a share group. Version 0.

The group must have no members.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.delete_share_group_offsets import (
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequestTopic,
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


@handles(
    ApiKey.DELETE_SHARE_GROUP_OFFSETS,
    acl=(
        AclRule(ResourceType.GROUP, AclOperation.DELETE),
        AclRule(ResourceType.TOPIC, AclOperation.READ),
    ),
)
async def handle_delete_share_group_offsets(
    broker: Broker, request: DeleteShareGroupOffsetsRequest, access: Access
) -> DeleteShareGroupOffsetsResponse:
    if not broker.groups.serves_share_groups:
        raise ApiException(ErrorCode.UNSUPPORTED_VERSION)
    if not access.allows(ResourceType.GROUP, AclOperation.DELETE, request.group_id):
        raise access.denied(AclOperation.DELETE, ResourceType.GROUP, request.group_id)
    refused: list[DeleteShareGroupOffsetsResponseTopic] = []
    accepted: list[DeleteShareGroupOffsetsRequestTopic] = []
    for topic in request.topics:
        if access.allows(ResourceType.TOPIC, AclOperation.READ, topic.topic_name):
            accepted.append(topic)
        else:
            error = access.denied(AclOperation.READ, ResourceType.TOPIC, topic.topic_name)
            refused.append(
                DeleteShareGroupOffsetsResponseTopic(
                    topic_name=topic.topic_name, error_code=error.code, error_message=error.message
                )
            )
    response = await broker.share_groups.delete_offsets(
        DeleteShareGroupOffsetsRequest(group_id=request.group_id, topics=accepted)
    )
    if response.error_code == ErrorCode.NONE:
        response.responses[:0] = refused
    return response
