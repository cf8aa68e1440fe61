"""OffsetFetch: the committed offsets of groups. Versions 1 to 10; from 8 on several groups, from 10 on topics by id.

A null list of topics (version 2 and later) requests all committed offsets of the group. In version 7 a client may
require an error, rather than an older offset, if an open transaction could still change the offset.

A coordinator that may have been replaced verifies its role before it answers, and returns NOT_COORDINATOR if it cannot
confirm the role.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Set

    from barnabas.broker.broker import Broker

_TOP_LEVEL_ERROR_SINCE = 2
_GROUPS_SINCE = 8
_TOPIC_IDS_SINCE = 10
_INVALID_OFFSET = -1


def _error_response(request: OffsetFetchRequest, error: ApiException) -> OffsetFetchResponse:
    """Return the error in the fields of every version; each version encodes its own."""
    return OffsetFetchResponse(
        error_code=error.code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=index, committed_offset=_INVALID_OFFSET, metadata="", error_code=error.code
                    )
                    for index in topic.partition_indexes
                ],
            )
            for topic in request.topics or ()
        ],
        groups=[OffsetFetchResponseGroup(group_id=group.group_id, error_code=error.code) for group in request.groups],
    )


@handles(
    ApiKey.OFFSET_FETCH,
    acl=(AclRule(ResourceType.GROUP, AclOperation.DESCRIBE), AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE)),
    on_error=_error_response,
)
def handle_offset_fetch(
    broker: Broker, request: OffsetFetchRequest, access: Access
) -> OffsetFetchResponse | Awaitable[OffsetFetchResponse]:
    has_groups = access.context.api_version >= _GROUPS_SINCE
    confirming = broker.groups.confirm(
        [group.group_id for group in request.groups] if has_groups else (request.group_id,)
    )
    if confirming is not None:
        return _answer_confirmed(broker, request, access, confirming)
    return _answer(broker, request, access)


async def _answer_confirmed(
    broker: Broker, request: OffsetFetchRequest, access: Access, confirming: Awaitable[Set[str]]
) -> OffsetFetchResponse:
    return _answer(broker, request, access, await confirming)


def _answer(
    broker: Broker, request: OffsetFetchRequest, access: Access, unconfirmed: Set[str] = frozenset()
) -> OffsetFetchResponse:
    """``unconfirmed``: groups that this broker may no longer coordinate."""
    version = access.context.api_version
    if version >= _GROUPS_SINCE:
        return OffsetFetchResponse(
            groups=[
                _fetch_group(broker, group, request.require_stable, access, unconfirmed) for group in request.groups
            ]
        )
    topics = request.topics
    group = OffsetFetchRequestGroup(
        group_id=request.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes) for topic in topics],
    )
    fetched = _fetch_group(broker, group, request.require_stable, access, unconfirmed)
    if fetched.error_code and version < _TOP_LEVEL_ERROR_SINCE:
        return _error_response(request, ApiException(ErrorCode(fetched.error_code)))
    return OffsetFetchResponse(
        error_code=fetched.error_code,
        topics=[
            OffsetFetchResponseTopic(
                name=topic.name,
                partitions=[
                    OffsetFetchResponsePartition(
                        partition_index=partition.partition_index,
                        committed_offset=partition.committed_offset,
                        committed_leader_epoch=partition.committed_leader_epoch,
                        metadata=partition.metadata,
                        error_code=partition.error_code,
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in fetched.topics
        ],
    )


def _fetch_group(
    broker: Broker, group: OffsetFetchRequestGroup, require_stable: bool, access: Access, unconfirmed: Set[str]
) -> OffsetFetchResponseGroup:
    if not access.allows(ResourceType.GROUP, AclOperation.DESCRIBE, group.group_id):
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
    if group.group_id in unconfirmed:
        return OffsetFetchResponseGroup(group_id=group.group_id, error_code=ErrorCode.NOT_COORDINATOR)
    by_id = access.context.api_version >= _TOPIC_IDS_SINCE
    if group.topics is None:
        return _fetch_all(broker, group, require_stable, access, by_id)
    refused: list[OffsetFetchResponseTopics] = []
    accepted: list[OffsetFetchRequestTopics] = []
    for topic in group.topics:
        code = _topic_error(broker, topic, access, by_id)
        if code is ErrorCode.NONE:
            accepted.append(topic)
        else:
            refused.append(_refused(topic, code))
    group.topics = accepted
    fetched: OffsetFetchResponseGroup = broker.groups.coordinator.fetch_offsets(group, require_stable=require_stable)
    if not fetched.error_code:
        fetched.topics += refused
    return fetched


def _fetch_all(
    broker: Broker, group: OffsetFetchRequestGroup, require_stable: bool, access: Access, by_id: bool
) -> OffsetFetchResponseGroup:
    """Omit topics that the caller may not describe and, if named by id, topics that were deleted."""
    fetched: OffsetFetchResponseGroup = broker.groups.coordinator.fetch_offsets(group, require_stable=require_stable)
    names = [topic.name for topic in fetched.topics]
    allowed = access.allowed(ResourceType.TOPIC, AclOperation.DESCRIBE, names)
    visible: list[OffsetFetchResponseTopics] = []
    for topic in fetched.topics:
        if topic.name not in allowed:
            continue
        if by_id:
            image = broker.metadata.topic(topic.name)
            if image is None:
                continue
            topic.topic_id = image.id
        visible.append(topic)
    fetched.topics = visible
    return fetched


def _topic_error(broker: Broker, topic: OffsetFetchRequestTopics, access: Access, by_id: bool) -> ErrorCode:
    if by_id:
        image = broker.metadata.topic_by_id(topic.topic_id)
        if image is None:
            return ErrorCode.UNKNOWN_TOPIC_ID
        topic.name = image.name
    if not access.allows(ResourceType.TOPIC, AclOperation.DESCRIBE, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED
    return ErrorCode.NONE


def _refused(topic: OffsetFetchRequestTopics, code: ErrorCode) -> OffsetFetchResponseTopics:
    return OffsetFetchResponseTopics(
        name=topic.name,
        topic_id=topic.topic_id,
        partitions=[
            OffsetFetchResponsePartitions(
                partition_index=index, committed_offset=_INVALID_OFFSET, metadata="", error_code=code
            )
            for index in topic.partition_indexes
        ],
    )
