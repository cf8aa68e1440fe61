"""ReadShareGroupState: the state of share-partitions, for the broker that begins to lead them. Version 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.share_state_calls import StateResponses, performed
from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.coordinator.share.persister import SharePartitionKey, SharePartitionState
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.read_share_group_state import (
    PartitionResult,
    ReadShareGroupStateRequest,
    ReadShareGroupStateResponse,
    ReadStateResult,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker


_RESPONSES = StateResponses(ReadShareGroupStateResponse, ReadStateResult, PartitionResult)


@handles(
    ApiKey.READ_SHARE_GROUP_STATE,
    acl=(AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),),
    on_error=_RESPONSES.failed,
)
def handle_read_share_group_state(
    broker: Broker, request: ReadShareGroupStateRequest, access: Access
) -> ReadShareGroupStateResponse | Awaitable[ReadShareGroupStateResponse]:
    access.require_on_cluster(AclOperation.CLUSTER_ACTION)
    if not request.group_id or not request.topics or not all(topic.partitions for topic in request.topics):
        return ReadShareGroupStateResponse()
    calls = [
        (SharePartitionKey(request.group_id, topic.topic_id, partition.partition), partition.leader_epoch)
        for topic in request.topics
        for partition in topic.partitions
    ]
    service = broker.share_state
    return performed(service, calls, service.read, _RESPONSES.of, unconfirmed=SharePartitionState.failed)
