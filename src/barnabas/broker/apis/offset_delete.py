"""OffsetDelete: deletes committed offsets of topics that the group does not subscribe to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker


@handles(
    ApiKey.OFFSET_DELETE,
    acl=(AclRule(ResourceType.GROUP, AclOperation.DELETE), AclRule(ResourceType.TOPIC, AclOperation.READ)),
)
def handle_offset_delete(
    broker: Broker, request: OffsetDeleteRequest, access: Access
) -> OffsetDeleteResponse | Awaitable[OffsetDeleteResponse]:
    if not access.allows(ResourceType.GROUP, AclOperation.DELETE, request.group_id):
        raise ApiException(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused: dict[str, list[OffsetDeleteResponsePartition]] = {}
    accepted: list[OffsetDeleteRequestTopic] = []
    for topic in request.topics:
        partitions, code = _existing(broker, topic, access)
        if partitions:
            accepted.append(OffsetDeleteRequestTopic(name=topic.name, partitions=partitions))
        known = {partition.partition_index for partition in partitions}
        missing = [item.partition_index for item in topic.partitions if item.partition_index not in known]
        if missing:
            refused[topic.name] = [
                OffsetDeleteResponsePartition(partition_index=index, error_code=code) for index in missing
            ]
    request.topics = accepted
    groups = broker.groups
    answer = groups.coordinator.delete_offsets(request, groups.now_ms())
    return groups.answer(answer.map(lambda response: _merge(response, refused)))


def _existing(
    broker: Broker, topic: OffsetDeleteRequestTopic, access: Access
) -> tuple[list[OffsetDeleteRequestPartition], ErrorCode]:
    references = len(topic.partitions)
    if not access.allows(ResourceType.TOPIC, AclOperation.READ, topic.name, references=references):
        return [], ErrorCode.TOPIC_AUTHORIZATION_FAILED
    image = broker.metadata.topic(topic.name)
    existing = {} if image is None else image.partitions
    known = [partition for partition in topic.partitions if partition.partition_index in existing]
    return known, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _merge(
    response: OffsetDeleteResponse, refused: dict[str, list[OffsetDeleteResponsePartition]]
) -> OffsetDeleteResponse:
    """Add refused partitions to the entries of their topics, unless the whole request failed."""
    if response.error_code:
        return response
    topics = {topic.name: topic for topic in response.topics}
    for name, partitions in refused.items():
        topic = topics.get(name)
        if topic is None:
            response.topics.append(OffsetDeleteResponseTopic(name=name, partitions=partitions))
        else:
            topic.partitions += partitions
    return response
