"""StreamsGroupDescribe (KIP-1071): topology, members and tasks of streams groups.

A group whose topology has a topic that the caller may not describe is answered with an error.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.group_descriptions import describe_confirmed
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.streams_group_describe import (
    DescribedGroup,
    StreamsGroupDescribeRequest,
    StreamsGroupDescribeResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Iterator, Set

    from barnabas.broker.broker import Broker
    from barnabas.protocol.messages.streams_group_describe import Topology


def _error_response(request: StreamsGroupDescribeRequest, error: ApiException) -> StreamsGroupDescribeResponse:
    return StreamsGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.group_ids]
    )


@handles(
    ApiKey.STREAMS_GROUP_DESCRIBE,
    acl=(
        AclRule(ResourceType.GROUP, AclOperation.DESCRIBE),
        AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),
    ),
    on_error=_error_response,
)
def handle_streams_group_describe(
    broker: Broker, request: StreamsGroupDescribeRequest, access: Access
) -> StreamsGroupDescribeResponse | Awaitable[StreamsGroupDescribeResponse]:
    if not broker.groups.serves_streams_groups:
        return _error_response(request, ApiException(ErrorCode.UNSUPPORTED_VERSION))
    response = StreamsGroupDescribeResponse()
    return describe_confirmed(
        broker, request.group_ids, response, partial(_describe, broker, request, access, response.groups)
    )


def _describe(
    broker: Broker,
    request: StreamsGroupDescribeRequest,
    access: Access,
    groups: list[DescribedGroup],
    unconfirmed: Set[str],
) -> Iterator[None]:
    for group_id in request.group_ids:
        if not access.allows(ResourceType.GROUP, AclOperation.DESCRIBE, group_id):
            groups.append(
                DescribedGroup(
                    group_id=group_id,
                    error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED,
                    error_message=access.denial(AclOperation.DESCRIBE, ResourceType.GROUP, group_id),
                )
            )
            continue
        if group_id in unconfirmed:
            groups.append(DescribedGroup(group_id=group_id, error_code=ErrorCode.NOT_COORDINATOR))
            continue
        described = yield from broker.groups.coordinator.streams.describe(group_id)
        if request.include_authorized_operations and described.error_code == ErrorCode.NONE:
            described.authorized_operations = access.operations_on(ResourceType.GROUP, group_id)
        groups.append(_without_hidden_topics(described, access))


def _without_hidden_topics(group: DescribedGroup, access: Access) -> DescribedGroup:
    """Return the group, or an error if its topology has a topic that the caller may not describe."""
    if group.topology is None:
        return group
    topics = _topics_of(group.topology)
    if len(access.allowed(ResourceType.TOPIC, AclOperation.DESCRIBE, topics)) == len(topics):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The described group uses topics that the client is not authorized to describe.",
    )


def _topics_of(topology: Topology) -> set[str]:
    names: set[str] = set()
    for subtopology in topology.subtopologies or ():
        names.update(subtopology.source_topics)
        names.update(subtopology.repartition_sink_topics)
        names.update(topic.name for topic in subtopology.repartition_source_topics)
        names.update(topic.name for topic in subtopology.state_changelog_topics)
    return names
