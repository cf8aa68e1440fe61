"""DeleteRecords: move a partition's log start offset forward; -1 means the high watermark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.auto_topic_creation import INTERNAL_TOPICS
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_partition import TopicPartition
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.delete_records import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteRecordsTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_HIGH_WATERMARK = -1
_NO_LOW_WATERMARK = -1


def _error_response(request: DeleteRecordsRequest, error: ApiException) -> DeleteRecordsResponse:
    return DeleteRecordsResponse(
        topics=[
            DeleteRecordsTopicResult(
                name=topic.name, partitions=[_failed(p.partition_index, error) for p in topic.partitions]
            )
            for topic in request.topics
        ]
    )


@handles(ApiKey.DELETE_RECORDS, acl=(AclRule(ResourceType.TOPIC, AclOperation.DELETE),), on_error=_error_response)
def handle_delete_records(broker: Broker, request: DeleteRecordsRequest, access: Access) -> DeleteRecordsResponse:
    response = DeleteRecordsResponse()
    for topic in request.topics:
        allowed = access.allows(ResourceType.TOPIC, AclOperation.DELETE, topic.name, references=len(topic.partitions))
        result = DeleteRecordsTopicResult(name=topic.name)
        for wanted in topic.partitions:
            try:
                if not allowed:
                    raise ApiException(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                low = _delete(broker, TopicPartition(topic.name, wanted.partition_index), wanted.offset)
                answer = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=low)
            except ApiException as error:
                answer = _failed(wanted.partition_index, error)
            result.partitions.append(answer)
        response.topics.append(result)
    return response


def _delete(broker: Broker, topic_partition: TopicPartition, offset: int) -> int:
    if topic_partition.topic in INTERNAL_TOPICS:
        raise ApiException(
            ErrorCode.INVALID_TOPIC_EXCEPTION, f"Cannot delete records of internal topic {topic_partition.topic}"
        )
    partition = broker.replicas.leader_of(topic_partition)
    log = partition.log
    if not log.config.delete:
        raise ApiException(
            ErrorCode.POLICY_VIOLATION,
            f"Records of partition {topic_partition} can not be deleted due to the configured policy",
        )
    if offset == _HIGH_WATERMARK:
        offset = log.high_watermark
    if offset < 0 or offset > log.high_watermark:
        raise ApiException(
            ErrorCode.OFFSET_OUT_OF_RANGE,
            f"Cannot increment the log start offset to {offset} of partition {topic_partition} "
            f"since it is larger than the high watermark {log.high_watermark}",
        )
    return log.delete_records_before(offset, now_ms=broker.clock.now_ms())


def _failed(index: int, error: ApiException) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=_NO_LOW_WATERMARK, error_code=error.code)
