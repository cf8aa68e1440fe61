"""ConsumerGroupDescribe (KIP-848): state, members and assignments of groups of the consumer protocol.

A group whose members read a topic that the caller may not describe is answered with an error. Version 1 adds the
protocol of each member.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.group_descriptions import MEMBERS_A_STEP, describe_confirmed
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
    from collections.abc import Awaitable, Generator, Iterator, Set

    from barnabas.broker.broker import Broker


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
        broker, request.group_ids, response, partial(_describe, broker, request, access, response.groups)
    )


def _describe(
    broker: Broker,
    request: ConsumerGroupDescribeRequest,
    access: Access,
    groups: list[DescribedGroup],
    unconfirmed: Set[str],
) -> Iterator[None]:
    for group_id in request.group_ids:
        if not access.allows(ResourceType.GROUP, AclOperation.DESCRIBE, group_id):
            denial = access.denial(AclOperation.DESCRIBE, ResourceType.GROUP, group_id)
            code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            described = DescribedGroup(group_id=group_id, error_code=code, error_message=denial)
        elif group_id in unconfirmed:
            described = DescribedGroup(group_id=group_id, error_code=ErrorCode.NOT_COORDINATOR)
        else:
            described = yield from broker.groups.coordinator.describe_consumer_group(group_id)
            if request.include_authorized_operations and described.error_code == ErrorCode.NONE:
                described.authorized_operations = access.operations_on(ResourceType.GROUP, group_id)
            described = yield from _without_hidden_topics(described, access)
        groups.append(described)


def _without_hidden_topics(group: DescribedGroup, access: Access) -> Generator[None, None, DescribedGroup]:
    """Return the group, or an error without its members if they have a topic that the caller may not describe."""
    topics: set[str] = set()
    for number, member in enumerate(group.members, start=1):
        topics.update(member.subscribed_topic_names)
        for assignment in (member.assignment, member.target_assignment):
            topics.update(partitions.topic_name for partitions in assignment.topic_partitions)
        if number % MEMBERS_A_STEP == 0:
            yield
    allowed = access.allowed(ResourceType.TOPIC, AclOperation.DESCRIBE, topics)
    if len(allowed) == len(topics):
        return group
    return DescribedGroup(
        group_id=group.group_id,
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        error_message="The group has described topic(s) that the client is not authorized to describe.",
    )
