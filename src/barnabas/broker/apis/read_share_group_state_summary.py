"""ReadShareGroupStateSummary: the start offsets of share-partitions, to describe their group. Versions 0 to 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.share_state_calls import performed
from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.coordinator.share.persister import SharePartitionKey, SharePartitionSummary
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.read_share_group_state_summary import (
    PartitionResult,
    ReadShareGroupStateSummaryRequest,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.broker.share_state_calls import ByTopic
    from barnabas.common.errors import ApiException


def _error_response(
    request: ReadShareGroupStateSummaryRequest, error: ApiException
) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(
                topic_id=topic.topic_id,
                partitions=[
                    PartitionResult(partition=partition.partition, error_code=error.code, error_message=error.message)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


@handles(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    acl=(AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),),
    on_error=_error_response,
)
def handle_read_share_group_state_summary(
    broker: Broker, request: ReadShareGroupStateSummaryRequest, access: Access
) -> ReadShareGroupStateSummaryResponse | Awaitable[ReadShareGroupStateSummaryResponse]:
    access.require_on_cluster(AclOperation.CLUSTER_ACTION)
    if not request.group_id or not request.topics or not all(topic.partitions for topic in request.topics):
        return ReadShareGroupStateSummaryResponse()
    calls = [
        (SharePartitionKey(request.group_id, topic.topic_id, partition.partition), None)
        for topic in request.topics
        for partition in topic.partitions
    ]
    service = broker.share_state
    return performed(
        service,
        calls,
        lambda key, _: service.read_summary(key),
        _response,
        unconfirmed=SharePartitionSummary.failed,
    )


def _response(found: ByTopic[SharePartitionSummary]) -> ReadShareGroupStateSummaryResponse:
    return ReadShareGroupStateSummaryResponse(
        results=[
            ReadStateSummaryResult(
                topic_id=topic_id,
                partitions=[
                    PartitionResult(
                        partition=partition,
                        error_code=summary.error_code,
                        error_message=summary.error_message,
                        state_epoch=summary.state_epoch,
                        leader_epoch=summary.leader_epoch,
                        start_offset=summary.start_offset,
                        delivery_complete_count=summary.delivery_complete_count,
                    )
                    for partition, summary in partitions.items()
                ],
            )
            for topic_id, partitions in found.items()
        ]
    )
