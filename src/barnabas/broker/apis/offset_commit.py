"""OffsetCommit: stores the offsets that a group has consumed. Versions 2 to 10; from 10 on topics are named by id.

Versions 2 to 4 may have a retention time. A committed offset keeps the id of its topic, whether the request named the
topic by name or by id.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.coordinator.group.group_coordinator import commit_error
from barnabas.coordinator.group.group_request_context import GroupRequestContext
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker

_TOPIC_IDS_SINCE = 10


def _error_response(request: OffsetCommitRequest, error: ApiException) -> OffsetCommitResponse:
    return commit_error(request, error.code)


@handles(
    ApiKey.OFFSET_COMMIT,
    acl=(AclRule(ResourceType.GROUP, AclOperation.READ), AclRule(ResourceType.TOPIC, AclOperation.READ)),
    on_error=_error_response,
)
def handle_offset_commit(
    broker: Broker, request: OffsetCommitRequest, access: Access
) -> OffsetCommitResponse | Awaitable[OffsetCommitResponse]:
    if not access.allows(ResourceType.GROUP, AclOperation.READ, request.group_id):
        raise ApiException(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    refused: list[OffsetCommitResponseTopic] = []
    accepted: list[OffsetCommitRequestTopic] = []
    by_id = access.context.api_version >= _TOPIC_IDS_SINCE
    for topic in request.topics:
        partitions, code = _existing(broker, topic, access, by_id)
        if partitions:
            accepted.append(topic)
        if len(partitions) < len(topic.partitions):
            known = {partition.partition_index for partition in partitions}
            unknown = [item for item in topic.partitions if item.partition_index not in known]
            refused.append(_refused(topic, unknown, code))
            topic.partitions = partitions
    if not accepted:
        return OffsetCommitResponse(topics=refused)
    request.topics = accepted
    groups = broker.groups
    answer = groups.coordinator.commit_offsets(GroupRequestContext.of(access.context), request, groups.now_ms())

    if not refused:
        return groups.promise(answer)
    return groups.promise(answer.map(lambda response: _merged(refused, response)))


def _existing(
    broker: Broker, topic: OffsetCommitRequestTopic, access: Access, by_id: bool
) -> tuple[list[OffsetCommitRequestPartition], ErrorCode]:
    """Return the partitions that exist and may be read, and errors for the others. Fill in the topic's name and id."""
    if by_id:
        image = broker.metadata.topic_by_id(topic.topic_id)
        if image is None:
            return [], ErrorCode.UNKNOWN_TOPIC_ID
        topic.name = image.name
    else:
        image = broker.metadata.topic(topic.name)
    references = len(topic.partitions)
    if not access.allows(ResourceType.TOPIC, AclOperation.READ, topic.name, references=references):
        return [], ErrorCode.TOPIC_AUTHORIZATION_FAILED
    if image is None:
        return [], ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    topic.topic_id = image.id
    partitions = image.partitions
    for partition in topic.partitions:
        if partition.partition_index not in partitions:
            known = [item for item in topic.partitions if item.partition_index in partitions]
            return known, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return topic.partitions, ErrorCode.NONE


def _refused(
    topic: OffsetCommitRequestTopic, partitions: list[OffsetCommitRequestPartition], code: ErrorCode
) -> OffsetCommitResponseTopic:
    return OffsetCommitResponseTopic(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
            for partition in partitions
        ],
    )


def _merged(refused: list[OffsetCommitResponseTopic], response: OffsetCommitResponse) -> OffsetCommitResponse:
    """Return one entry per topic, refused partitions first."""
    topics = {(topic.name, topic.topic_id): topic for topic in refused}
    for topic in response.topics:
        known = topics.setdefault((topic.name, topic.topic_id), topic)
        if known is not topic:
            known.partitions += topic.partitions
    response.topics = list(topics.values())
    return response
