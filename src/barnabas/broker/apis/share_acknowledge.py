"""ShareAcknowledge: a member of a share group acknowledges records that it acquired (KIP-932, KIP-1222).

The request belongs to the member's share session, and has its next epoch. Epoch -1 ends the session, after the
acknowledgements: what the member still has is released.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.share.acknowledgements import Acknowledgements, AllowedTopics
from barnabas.broker.share.share_requests import Leaders, checked_key
from barnabas.broker.share.share_session import FINAL_EPOCH, INITIAL_EPOCH
from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.share_acknowledge import (
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareAcknowledgeTopicResponse,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.broker.share.share_partition_manager import Outcomes
    from barnabas.broker.share.share_session import SessionKey, TopicIdPartition
    from barnabas.common.uuid import Uuid

_RENEWALS_SINCE = 2


@handles(
    ApiKey.SHARE_ACKNOWLEDGE,
    acl=(AclRule(ResourceType.GROUP, AclOperation.READ), AclRule(ResourceType.TOPIC, AclOperation.READ)),
)
def handle_share_acknowledge(
    broker: Broker, request: ShareAcknowledgeRequest, access: Access
) -> ShareAcknowledgeResponse | Awaitable[ShareAcknowledgeResponse]:
    key = checked_key(broker, access, request.group_id, request.member_id)
    _continue_session(broker, key, request.share_session_epoch)
    acknowledgements = Acknowledgements(
        request.topics,
        AllowedTopics(broker, access),
        may_renew=access.context.api_version >= _RENEWALS_SINCE,
        is_renewal=request.is_renew_ack,
    )
    outcomes = broker.share_partitions.acknowledge(*key, acknowledgements.valid)
    if isinstance(outcomes, dict):
        return _answer(broker, request, access, key, {**acknowledgements.errors, **outcomes})
    return _answer_later(broker, request, access, key, acknowledgements.errors, outcomes)


async def _answer_later(
    broker: Broker,
    request: ShareAcknowledgeRequest,
    access: Access,
    key: SessionKey,
    errors: Outcomes,
    outcomes: Awaitable[Outcomes],
) -> ShareAcknowledgeResponse:
    return _answer(broker, request, access, key, {**errors, **await outcomes})


def _continue_session(broker: Broker, key: SessionKey, epoch: int) -> None:
    if epoch == INITIAL_EPOCH:
        raise ApiException(ErrorCode.INVALID_SHARE_SESSION_EPOCH, "Only ShareFetch begins a share session, by epoch 0")
    session = broker.share_partitions.sessions.get(key)
    if epoch != FINAL_EPOCH:
        session.check_epoch(epoch)
        session.advance()


def _answer(
    broker: Broker, request: ShareAcknowledgeRequest, access: Access, key: SessionKey, outcomes: Outcomes
) -> ShareAcknowledgeResponse:
    if request.share_session_epoch == FINAL_EPOCH:
        broker.share_partitions.release_session(key)
    leaders = Leaders(broker, access.context.listener_name)
    topics: dict[Uuid, ShareAcknowledgeTopicResponse] = {}
    for partition, error in outcomes.items():
        topic = topics.get(partition.topic_id)
        if topic is None:
            topic = topics[partition.topic_id] = ShareAcknowledgeTopicResponse(topic_id=partition.topic_id)
        topic.partitions.append(_partition(partition, error, leaders))
    return ShareAcknowledgeResponse(
        acquisition_lock_timeout_ms=broker.share_partitions.configs.of(key.group_id).limits.record_lock_duration_ms,
        responses=list(topics.values()),
        node_endpoints=[
            NodeEndpoint(node_id=node.node_id, host=node.host, port=node.port, rack=node.rack)
            for node in leaders.nodes.values()
        ],
    )


def _partition(partition: TopicIdPartition, error: ApiException | None, leaders: Leaders) -> PartitionData:
    answer = PartitionData(partition_index=partition.partition)
    if error is not None:
        answer.error_code, answer.error_message = error.code, error.message
        leader = leaders.of(partition, error.code)
        if leader is not None:
            answer.current_leader = LeaderIdAndEpoch(leader_id=leader[0], leader_epoch=leader[1])
    return answer
