"""ConsumerGroupDescribe (KIP-848): state, members and assignments of groups of the consumer protocol.

A group whose members read a topic that the caller may not describe is answered with an error. Version 1 adds the
protocol of each member.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.group_descriptions import MEMBERS_A_STEP, DescribedKind, describe_confirmed
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.consumer_group_describe import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    DescribedGroup,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Set

    from barnabas.broker.broker import Broker
    from barnabas.coordinator.group.assignor.group_spec import Steps


def _error_response(request: ConsumerGroupDescribeRequest, error: ApiException) -> ConsumerGroupDescribeResponse:
    return ConsumerGroupDescribeResponse(
        groups=[DescribedGroup(group_id=group_id, error_code=error.code) for group_id in request.group_ids]
    )


@handles(
    ApiKey.CONSUMER_GROUP_DESCRIBE,
    acl=(
        AclRule(ResourceType.GROUP, AclOperation.DESCRIBE),
        AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),
    ),
    on_error=_error_response,
)
def handle_consumer_group_describe(
    broker: Broker, request: ConsumerGroupDescribeRequest, access: Access
) -> ConsumerGroupDescribeResponse | Awaitable[ConsumerGroupDescribeResponse]:
    if not broker.groups.serves_consumer_groups:
        return _error_response(request, ApiException(ErrorCode.UNSUPPORTED_VERSION))
    response = ConsumerGroupDescribeResponse()
    return describe_confirmed(
        broker, request.group_ids, response, partial(_KIND.steps, broker, request, access, response.groups)
    )


def _topics_of(group: DescribedGroup) -> Steps[Set[str]]:
    topics: set[str] = set()
    for number, member in enumerate(group.members, start=1):
        topics.update(member.subscribed_topic_names)
        for assignment in (member.assignment, member.target_assignment):
            topics.update(partitions.topic_name for partitions in assignment.topic_partitions)
        if number % MEMBERS_A_STEP == 0:
            yield
    return topics


_KIND = DescribedKind(
    DescribedGroup,
    lambda broker, group_id: broker.groups.coordinator.describe_consumer_group(group_id),
    _topics_of,
    "The group has described topic(s) that the client is not authorized to describe.",
)
