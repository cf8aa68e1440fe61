"""DeleteRecords: moves a partition's log start offset forward; -1 means the high watermark.

The answer waits until the log of every live replica starts there, up to the request's time-out.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.broker.auto_topic_creation import INTERNAL_TOPICS
from barnabas.broker.delayed_produce import wait_for_replicas
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
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.broker.partition import Partition
    from barnabas.broker.replication.leader_replica import LeaderReplica

    _Waiting = tuple[DeleteRecordsPartitionResult, LeaderReplica, int]

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
def handle_delete_records(
    broker: Broker, request: DeleteRecordsRequest, access: Access
) -> DeleteRecordsResponse | Awaitable[DeleteRecordsResponse]:
    response = DeleteRecordsResponse()
    waiting: list[_Waiting] = []
    for topic in request.topics:
        allowed = access.allows(ResourceType.TOPIC, AclOperation.DELETE, topic.name, references=len(topic.partitions))
        result = DeleteRecordsTopicResult(name=topic.name)
        for wanted in topic.partitions:
            try:
                if not allowed:
                    raise ApiException(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                partition, start = _delete(broker, TopicPartition(topic.name, wanted.partition_index), wanted.offset)
                answer = DeleteRecordsPartitionResult(partition_index=wanted.partition_index, low_watermark=start)
                leader = partition.leader_replica
                if leader is not None and leader.low_watermark < start:
                    answer.low_watermark = leader.low_watermark
                    waiting.append((answer, leader, start))
            except ApiException as error:
                answer = _failed(wanted.partition_index, error)
            result.partitions.append(answer)
        response.topics.append(result)
    return _wait_for_replicas(response, waiting, request.timeout_ms) if waiting else response


async def _wait_for_replicas(
    response: DeleteRecordsResponse, waiting: list[_Waiting], timeout_ms: int
) -> DeleteRecordsResponse:
    waits = [partial(leader.wait_for_low_watermark, offset) for _, leader, offset in waiting]
    errors = await wait_for_replicas(waits, timeout_ms)
    for (answer, leader, _), error in zip(waiting, errors, strict=True):
        answer.error_code = error
        if error is ErrorCode.NONE:
            answer.low_watermark = leader.low_watermark
    return response


def _delete(broker: Broker, topic_partition: TopicPartition, offset: int) -> tuple[Partition, int]:
    """Return the partition and its new lowest log start offset."""
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
    with broker.replicas.answered_disk_errors(topic_partition):
        log.delete_records_before(offset, now_ms=broker.clock.now_ms())
    return partition, offset if partition.leader_replica is not None else log.log_start_offset


def _failed(index: int, error: ApiException) -> DeleteRecordsPartitionResult:
    return DeleteRecordsPartitionResult(partition_index=index, low_watermark=_NO_LOW_WATERMARK, error_code=error.code)
