"""DescribeProducers: the producers of partitions, as their leaders know them (KIP-664). Version 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_name import topic_name_problem
from barnabas.common.topic_partition import TopicPartition
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_producers import (
    DescribeProducersRequest,
    DescribeProducersResponse,
    PartitionResponse,
    ProducerState,
    TopicRequest,
    TopicResponse,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_UNKNOWN = "This server does not host this topic-partition."
"""Kafka's text."""


def _error_response(request: DescribeProducersRequest, error: ApiException) -> DescribeProducersResponse:
    return DescribeProducersResponse(topics=[_refused(topic, error) for topic in request.topics])


@handles(
    ApiKey.DESCRIBE_PRODUCERS,
    acl=(AclRule(ResourceType.TOPIC, AclOperation.READ),),
    on_error=_error_response,
)
def handle_describe_producers(
    broker: Broker, request: DescribeProducersRequest, access: Access
) -> DescribeProducersResponse:
    return DescribeProducersResponse(topics=[_topic(broker, topic, access) for topic in request.topics])


def _topic(broker: Broker, topic: TopicRequest, access: Access) -> TopicResponse:
    problem = topic_name_problem(topic.name)
    if problem is not None:
        return _refused(topic, ApiException(ErrorCode.INVALID_TOPIC_EXCEPTION, problem))
    if not access.allows(ResourceType.TOPIC, AclOperation.READ, topic.name, references=len(topic.partition_indexes)):
        return _refused(topic, access.denied(AclOperation.READ, ResourceType.TOPIC, topic.name))
    if broker.metadata.topic(topic.name) is None:
        return _refused(topic, ApiException(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, _UNKNOWN))
    return TopicResponse(
        name=topic.name,
        partitions=[_partition(broker, TopicPartition(topic.name, index)) for index in topic.partition_indexes],
    )


def _partition(broker: Broker, topic_partition: TopicPartition) -> PartitionResponse:
    index = topic_partition.partition
    try:
        replica = broker.replicas.leader_of(topic_partition)
    except ApiException as error:
        return PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
    log = replica.log_or_none
    return PartitionResponse(
        partition_index=index,
        active_producers=[
            ProducerState(
                producer_id=entry.producer_id,
                producer_epoch=entry.epoch,
                last_sequence=entry.last_sequence,
                last_timestamp=entry.last_timestamp,
                coordinator_epoch=entry.coordinator_epoch,
                current_txn_start_offset=entry.current_txn_first_offset,
            )
            for entry in (log.producers if log is not None and log.has_producers else ())
        ],
    )


def _refused(topic: TopicRequest, error: ApiException) -> TopicResponse:
    return TopicResponse(
        name=topic.name,
        partitions=[
            PartitionResponse(partition_index=index, error_code=error.code, error_message=error.message)
            for index in topic.partition_indexes
        ],
    )
