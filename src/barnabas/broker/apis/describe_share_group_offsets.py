"""DescribeShareGroupOffsets (KIP-932): where delivery to a share group begins in each partition.

Version 1 adds the lag: how many records are not delivered completely (KIP-1226). Null topics: all that have an offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.uuid import Uuid
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_share_group_offsets import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
    DescribeShareGroupOffsetsRequestTopic,
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_NO_OFFSET = -1


def _error_response(
    request: DescribeShareGroupOffsetsRequest, error: ApiException
) -> DescribeShareGroupOffsetsResponse:
    return DescribeShareGroupOffsetsResponse(groups=[_failed(group.group_id, error) for group in request.groups])


@handles(
    ApiKey.DESCRIBE_SHARE_GROUP_OFFSETS,
    acl=(
        AclRule(ResourceType.GROUP, AclOperation.DESCRIBE),
        AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),
    ),
    on_error=_error_response,
)
async def handle_describe_share_group_offsets(
    broker: Broker, request: DescribeShareGroupOffsetsRequest, access: Access
) -> DescribeShareGroupOffsetsResponse:
    if not broker.groups.serves_share_groups:
        return _error_response(request, ApiException(ErrorCode.UNSUPPORTED_VERSION))
    response = DescribeShareGroupOffsetsResponse()
    for group in request.groups:
        try:
            response.groups.append(await _described(broker, group, access))
        except ApiException as error:
            response.groups.append(_failed(group.group_id, error))
    return response


async def _described(
    broker: Broker, group: DescribeShareGroupOffsetsRequestGroup, access: Access
) -> DescribeShareGroupOffsetsResponseGroup:
    if not access.allows(ResourceType.GROUP, AclOperation.DESCRIBE, group.group_id):
        raise access.denied(AclOperation.DESCRIBE, ResourceType.GROUP, group.group_id)
    if group.topics is None:
        return await _all_described(broker, group.group_id, access)
    view = broker.groups.coordinator.view
    known: dict[Uuid, list[int]] = {}
    others: list[DescribeShareGroupOffsetsResponseTopic] = []
    for topic in group.topics:
        topic_id = view.id_of(topic.topic_name)
        if not access.allows(ResourceType.TOPIC, AclOperation.DESCRIBE, topic.topic_name):
            others.append(
                _without_offsets(topic, access.denied(AclOperation.DESCRIBE, ResourceType.TOPIC, topic.topic_name))
            )
        elif topic_id is None:
            others.append(_without_offsets(topic))
        elif not topic.partitions or min(topic.partitions) < 0:
            raise ApiException(
                ErrorCode.INVALID_REQUEST, f"Topic {topic.topic_name} is requested without valid partitions."
            )
        else:
            known[topic_id] = topic.partitions
    described = await broker.share_groups.describe_offsets(group.group_id, known)
    return DescribeShareGroupOffsetsResponseGroup(group_id=group.group_id, topics=described + others)


async def _all_described(broker: Broker, group_id: str, access: Access) -> DescribeShareGroupOffsetsResponseGroup:
    """Describe all topics that the caller may describe."""
    view = broker.groups.coordinator.view
    known = broker.share_groups.known_partitions(group_id)
    names = {topic_id: view.name_of(topic_id) or "" for topic_id in known}
    allowed = access.allowed(ResourceType.TOPIC, AclOperation.DESCRIBE, set(names.values()))
    visible = {topic_id: partitions for topic_id, partitions in known.items() if names[topic_id] in allowed}
    topics = await broker.share_groups.describe_offsets(group_id, visible)
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, topics=topics)


def _without_offsets(
    topic: DescribeShareGroupOffsetsRequestTopic, error: ApiException | None = None
) -> DescribeShareGroupOffsetsResponseTopic:
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name,
        partitions=[
            DescribeShareGroupOffsetsResponsePartition(
                partition_index=partition,
                start_offset=_NO_OFFSET,
                error_code=ErrorCode.NONE if error is None else error.code,
                error_message=None if error is None else error.message,
            )
            for partition in topic.partitions
        ],
    )


def _failed(group_id: str, error: ApiException) -> DescribeShareGroupOffsetsResponseGroup:
    return DescribeShareGroupOffsetsResponseGroup(group_id=group_id, error_code=error.code, error_message=error.message)
