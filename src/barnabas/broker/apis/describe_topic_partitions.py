"""DescribeTopicPartitions: partitions of topics by name, in pages that a cursor continues."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.auto_topic_creation import INTERNAL_TOPICS
from barnabas.broker.topic_segments import metadata_partitions
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_name import topic_name_problem
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    DescribeTopicPartitionsResponse,
    DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker
    from barnabas.metadata.image.topics import TopicImage

_NEWEST_METADATA_VERSION = 13


def _error_response(request: DescribeTopicPartitionsRequest, error: ApiException) -> DescribeTopicPartitionsResponse:
    return DescribeTopicPartitionsResponse(
        topics=[
            DescribeTopicPartitionsResponseTopic(error_code=error.code, name=topic.name) for topic in request.topics
        ]
    )


@handles(
    ApiKey.DESCRIBE_TOPIC_PARTITIONS,
    acl=(AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),),
    on_error=_error_response,
)
def handle_describe_topic_partitions(
    broker: Broker, request: DescribeTopicPartitionsRequest, access: Access
) -> DescribeTopicPartitionsResponse:
    cursor = request.cursor
    if cursor is not None and cursor.partition_index < 0:
        raise ApiException(
            ErrorCode.INVALID_REQUEST, f"DescribeTopicPartitionsRequest cursor partition must be valid: {cursor}"
        )
    wants_all = not request.topics
    names = sorted(broker.metadata.sorted_topic_names if wants_all else {topic.name for topic in request.topics})
    if cursor is not None:
        names = [name for name in names if name >= cursor.topic_name]
    allowed = (
        set(access.allowed_in_order(ResourceType.TOPIC, AclOperation.DESCRIBE, names, is_listing=True))
        if wants_all
        else access.allowed(ResourceType.TOPIC, AclOperation.DESCRIBE, names)
    )
    left = max(1, min(request.response_partition_limit, broker.settings.max_request_partition_size_limit))
    response = DescribeTopicPartitionsResponse()
    denied = []
    for name in names:
        if name not in allowed:
            if not wants_all:
                denied.append(_denied(name))
            continue
        topic = broker.metadata.topic(name)
        if topic is None:
            response.topics.append(_missing(name, access))
            continue
        start = cursor.partition_index if cursor is not None and cursor.topic_name == name else 0
        if left <= 0:
            response.next_cursor = Cursor(topic_name=name, partition_index=start)
            break
        partitions = _partitions(broker, topic, access.context.listener_name)[start:]
        response.topics.append(_described(topic, partitions[:left], access))
        if len(partitions) > left:
            response.next_cursor = Cursor(topic_name=name, partition_index=start + left)
            break
        left -= len(partitions)
    response.topics.extend(denied)
    return response


def _described(
    topic: TopicImage, partitions: list[DescribeTopicPartitionsResponsePartition], access: Access
) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        name=topic.name,
        topic_id=topic.id,
        is_internal=topic.name in INTERNAL_TOPICS,
        partitions=partitions,
        topic_authorized_operations=access.operations_on(ResourceType.TOPIC, topic.name),
    )


def _missing(name: str, access: Access) -> DescribeTopicPartitionsResponseTopic:
    problem = topic_name_problem(name)
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if problem is None else ErrorCode.INVALID_TOPIC_EXCEPTION,
        name=name,
        is_internal=name in INTERNAL_TOPICS,
        topic_authorized_operations=access.operations_on(ResourceType.TOPIC, name),
    )


def _denied(name: str) -> DescribeTopicPartitionsResponseTopic:
    return DescribeTopicPartitionsResponseTopic(
        error_code=ErrorCode.TOPIC_AUTHORIZATION_FAILED, name=name, is_internal=False
    )


def _partitions(
    broker: Broker, topic: TopicImage, listener_name: str
) -> list[DescribeTopicPartitionsResponsePartition]:
    described = []
    for entry in metadata_partitions(broker.metadata, topic, listener_name, _NEWEST_METADATA_VERSION):
        registration = topic.partitions[entry.partition_index]
        described.append(
            DescribeTopicPartitionsResponsePartition(
                error_code=entry.error_code,
                partition_index=entry.partition_index,
                leader_id=entry.leader_id,
                leader_epoch=entry.leader_epoch,
                replica_nodes=entry.replica_nodes,
                isr_nodes=entry.isr_nodes,
                eligible_leader_replicas=list(registration.elr),
                last_known_elr=list(registration.last_known_elr),
                offline_replicas=entry.offline_replicas,
            )
        )
    return described
