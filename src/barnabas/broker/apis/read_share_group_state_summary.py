"""ReadShareGroupStateSummary: the start offsets of share-partitions, to describe their group. Versions 0 to 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.share_state_calls import StateResponses, performed
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


_RESPONSES = StateResponses(ReadShareGroupStateSummaryResponse, ReadStateSummaryResult, PartitionResult)


@handles(
    ApiKey.READ_SHARE_GROUP_STATE_SUMMARY,
    acl=(AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),),
    on_error=_RESPONSES.failed,
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
        _RESPONSES.of,
        unconfirmed=SharePartitionSummary.failed,
    )
