"""StreamsGroupDescribe (KIP-1071): topology, members and tasks of streams groups.

A group whose topology has a topic that the caller may not describe is answered with an error.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.group_descriptions import DescribedKind, describe_confirmed
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
    from collections.abc import Awaitable, Set

    from barnabas.broker.broker import Broker
    from barnabas.coordinator.group.assignor.group_spec import Steps


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
        broker, request.group_ids, response, partial(_KIND.steps, broker, request, access, response.groups)
    )


def _topics_of(group: DescribedGroup) -> Steps[Set[str]]:
    names: set[str] = set()
    for subtopology in (group.topology.subtopologies if group.topology is not None else None) or ():
        names.update(subtopology.source_topics)
        names.update(subtopology.repartition_sink_topics)
        names.update(topic.name for topic in subtopology.repartition_source_topics)
        names.update(topic.name for topic in subtopology.state_changelog_topics)
        yield
    return names


_KIND = DescribedKind(
    DescribedGroup,
    lambda broker, group_id: broker.groups.coordinator.streams.describe(group_id),
    _topics_of,
    "The described group uses topics that the client is not authorized to describe.",
)
