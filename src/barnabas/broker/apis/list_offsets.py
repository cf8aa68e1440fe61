"""ListOffsets: the first offset at or after a time, or a special offset of a log.

Special timestamps: -1 latest (committed readers: the last stable offset), -2 earliest, -3 largest timestamp (v7),
-4 earliest local (v8), -5 latest tiered (v9), -6 earliest that is pending upload (v11). Without tiered storage
everything is local.

While a leader's high watermark is below the start of its leader epoch, the leader does not know which records its
predecessor had committed. During that time it does not return a latest offset, so that a client never receives a lower
one than before. Other replicas may query offsets up to the log's end.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_partition import TopicPartition
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from barnabas.storage.offset_lookup import (
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    fetch_offset_for_timestamp,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker

_SINCE = {
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL_TIMESTAMP: 8,
    LATEST_TIERED_TIMESTAMP: 9,
    EARLIEST_PENDING_UPLOAD_TIMESTAMP: 11,
}
_READ_COMMITTED = 1
_LEADER_EPOCH_SINCE = 4
_OFFSET_NOT_AVAILABLE_SINCE = 5


def _error_response(request: ListOffsetsRequest, error: ApiException) -> ListOffsetsResponse:
    return ListOffsetsResponse(
        topics=[
            ListOffsetsTopicResponse(
                name=topic.name,
                partitions=[_failed(partition.partition_index, error) for partition in topic.partitions],
            )
            for topic in request.topics
        ]
    )


@handles(ApiKey.LIST_OFFSETS, acl=(AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),), on_error=_error_response)
def handle_list_offsets(broker: Broker, request: ListOffsetsRequest, access: Access) -> ListOffsetsResponse:
    seen = Counter(
        (topic.name, partition.partition_index) for topic in request.topics for partition in topic.partitions
    )
    response = ListOffsetsResponse()
    for topic in request.topics:
        allowed = access.allows(ResourceType.TOPIC, AclOperation.DESCRIBE, topic.name, references=len(topic.partitions))
        answers = []
        for wanted in topic.partitions:
            try:
                if not allowed:
                    raise ApiException(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                if seen[topic.name, wanted.partition_index] > 1:
                    raise ApiException(ErrorCode.INVALID_REQUEST)
                answers.append(_find(broker, topic.name, wanted, request, access.context.api_version))
            except ApiException as error:
                answers.append(_failed(wanted.partition_index, error))
        response.topics.append(ListOffsetsTopicResponse(name=topic.name, partitions=answers))
    return response


def _find(
    broker: Broker, topic: str, wanted: ListOffsetsPartition, request: ListOffsetsRequest, version: int
) -> ListOffsetsPartitionResponse:
    if version < _SINCE.get(wanted.timestamp, 0) or wanted.timestamp < EARLIEST_PENDING_UPLOAD_TIMESTAMP:
        raise ApiException(ErrorCode.UNSUPPORTED_VERSION)
    partition = broker.replicas.leader_of(TopicPartition(topic, wanted.partition_index), wanted.current_leader_epoch)
    log = partition.log
    if request.replica_id >= 0:
        visible = log.log_end_offset
    else:
        visible = log.last_stable_offset if request.isolation_level == _READ_COMMITTED else log.high_watermark
    answer = ListOffsetsPartitionResponse(partition_index=wanted.partition_index)
    leader = partition.leader_replica
    with broker.replicas.answered_disk_errors(partition.topic_partition):
        found = fetch_offset_for_timestamp(log, wanted.timestamp, last_fetchable_offset=visible)
    if leader is not None and request.replica_id < 0 and leader.is_catching_up:
        _check_is_known(wanted.timestamp, found is not None, version)
    if found is not None:
        answer.timestamp, answer.offset, answer.leader_epoch = found
        if version < _LEADER_EPOCH_SINCE:
            answer.leader_epoch = -1
    return answer


def _check_is_known(timestamp: int, is_found: bool, version: int) -> None:
    """While the leader catches up, raise an error unless the offset is certainly committed."""
    if timestamp == LATEST_TIMESTAMP or (not is_found and (timestamp >= 0 or timestamp == MAX_TIMESTAMP)):
        has_code = version >= _OFFSET_NOT_AVAILABLE_SINCE
        raise ApiException(ErrorCode.OFFSET_NOT_AVAILABLE if has_code else ErrorCode.LEADER_NOT_AVAILABLE)


def _failed(index: int, error: ApiException) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(partition_index=index, error_code=error.code)
