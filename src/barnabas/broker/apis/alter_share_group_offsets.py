"""AlterShareGroupOffsets (KIP-932): sets where delivery to a share group without members begins. Version 0.

A group that does not exist is created with these offsets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.share.share_group_offsets import UNKNOWN_PARTITION
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


@handles(
    ApiKey.ALTER_SHARE_GROUP_OFFSETS,
    acl=(
        AclRule(ResourceType.GROUP, AclOperation.READ),
        AclRule(ResourceType.TOPIC, AclOperation.READ),
    ),
)
async def handle_alter_share_group_offsets(
    broker: Broker, request: AlterShareGroupOffsetsRequest, access: Access
) -> AlterShareGroupOffsetsResponse:
    if not broker.groups.serves_share_groups:
        raise ApiException(ErrorCode.UNSUPPORTED_VERSION)
    if not access.allows(ResourceType.GROUP, AclOperation.READ, request.group_id):
        raise access.denied(AclOperation.READ, ResourceType.GROUP, request.group_id)
    refused: list[AlterShareGroupOffsetsResponseTopic] = []
    accepted: list[AlterShareGroupOffsetsRequestTopic] = []
    for topic in request.topics:
        topic_id = broker.groups.coordinator.view.id_of(topic.topic_name)
        if not access.allows(ResourceType.TOPIC, AclOperation.READ, topic.topic_name):
            refused.append(
                _refused(topic, topic_id, access.denied(AclOperation.READ, ResourceType.TOPIC, topic.topic_name))
            )
        elif topic_id is None:
            error = ApiException(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, UNKNOWN_PARTITION)
            refused.append(_refused(topic, topic_id, error))
        else:
            accepted.append(topic)
    response = await broker.share_groups.alter_offsets(
        AlterShareGroupOffsetsRequest(group_id=request.group_id, topics=accepted)
    )
    if response.error_code == ErrorCode.NONE:
        response.responses[:0] = refused
    return response


def _refused(
    topic: AlterShareGroupOffsetsRequestTopic, topic_id: Uuid | None, error: ApiException
) -> AlterShareGroupOffsetsResponseTopic:
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        topic_id=topic_id or Uuid.ZERO,
        partitions=[
            AlterShareGroupOffsetsResponsePartition(
                partition_index=partition.partition_index, error_code=error.code, error_message=error.message
            )
            for partition in topic.partitions
        ],
    )
