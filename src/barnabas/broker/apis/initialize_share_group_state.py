"""InitializeShareGroupState: creates the state of share-partitions, for their group's coordinator. Version 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.share_state_calls import StateResponses, performed
from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.coordinator.share.persister import SharePartitionKey, StateInitialization
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.initialize_share_group_state import (
    InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker


_RESPONSES = StateResponses(InitializeShareGroupStateResponse, InitializeStateResult, PartitionResult)


@handles(
    ApiKey.INITIALIZE_SHARE_GROUP_STATE,
    acl=(AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),),
    on_error=_RESPONSES.failed,
)
def handle_initialize_share_group_state(
    broker: Broker, request: InitializeShareGroupStateRequest, access: Access
) -> InitializeShareGroupStateResponse | Awaitable[InitializeShareGroupStateResponse]:
    access.require_on_cluster(AclOperation.CLUSTER_ACTION)
    if not request.group_id:
        return InitializeShareGroupStateResponse()
    calls = [
        (
            SharePartitionKey(request.group_id, topic.topic_id, partition.partition),
            StateInitialization(partition.state_epoch, partition.start_offset),
        )
        for topic in request.topics
        for partition in topic.partitions
    ]
    return performed(broker.share_state, calls, broker.share_state.initialize, _RESPONSES.of)
