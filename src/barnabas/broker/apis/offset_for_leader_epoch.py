"""OffsetForLeaderEpoch: returns where a leader epoch ends in this leader's log, so that a reader finds a divergence.

The leader's own epoch ends at its log end, even if the leader has not written in that epoch. Followers of this version
do not send this request: Fetch reports the divergence (from version 12 on, which all brokers of a KRaft cluster
support). Consumers send it after each change of the leader (KIP-320).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.common.topic_partition import TopicPartition
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


def _error_response(request: OffsetForLeaderEpochRequest, error: ApiException) -> OffsetForLeaderEpochResponse:
    return OffsetForLeaderEpochResponse(
        topics=[
            OffsetForLeaderTopicResult(
                topic=topic.topic,
                partitions=[EpochEndOffset(error_code=error.code, partition=p.partition) for p in topic.partitions],
            )
            for topic in request.topics
        ]
    )


@handles(
    ApiKey.OFFSET_FOR_LEADER_EPOCH,
    acl=(
        AclRule(ResourceType.TOPIC, AclOperation.DESCRIBE),
        AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),
    ),
    on_error=_error_response,
)
def handle_offset_for_leader_epoch(
    broker: Broker, request: OffsetForLeaderEpochRequest, access: Access
) -> OffsetForLeaderEpochResponse:
    is_broker = access.allows_on_cluster(AclOperation.CLUSTER_ACTION, log_if_denied=False)
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        allowed = is_broker or access.allows(
            ResourceType.TOPIC, AclOperation.DESCRIBE, topic.topic, references=len(topic.partitions)
        )
        result = OffsetForLeaderTopicResult(topic=topic.topic)
        for wanted in topic.partitions:
            answer = EpochEndOffset(partition=wanted.partition)
            try:
                if not allowed:
                    raise ApiException(ErrorCode.TOPIC_AUTHORIZATION_FAILED)
                partition = broker.replicas.leader_of(
                    TopicPartition(topic.topic, wanted.partition), wanted.current_leader_epoch
                )
                log = partition.log
                if log.latest_epoch < partition.leader_epoch:
                    log.assign_epoch_start(
                        partition.leader_epoch
                    )  # The epoch has no records yet: it begins at the log end.
                answer.leader_epoch, answer.end_offset = log.end_offset_for_epoch(wanted.leader_epoch)
            except ApiException as error:
                answer.error_code = error.code
            result.partitions.append(answer)
        response.topics.append(result)
    return response
