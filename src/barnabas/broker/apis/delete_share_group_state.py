"""DeleteShareGroupState: removes the state of share-partitions, for their group's coordinator. Version 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.share_state_calls import StateResponses, performed
from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.coordinator.share.persister import SharePartitionKey
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.delete_share_group_state import (
    DeleteShareGroupStateRequest,
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker


_RESPONSES = StateResponses(DeleteShareGroupStateResponse, DeleteStateResult, PartitionResult)


@handles(
    ApiKey.DELETE_SHARE_GROUP_STATE,
    acl=(AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),),
    on_error=_RESPONSES.failed,
)
def handle_delete_share_group_state(
    broker: Broker, request: DeleteShareGroupStateRequest, access: Access
) -> DeleteShareGroupStateResponse | Awaitable[DeleteShareGroupStateResponse]:
    access.require_on_cluster(AclOperation.CLUSTER_ACTION)
    if not request.group_id or not request.topics or not all(topic.partitions for topic in request.topics):
        return DeleteShareGroupStateResponse()
    calls = [
        (SharePartitionKey(request.group_id, topic.topic_id, partition.partition), None)
        for topic in request.topics
        for partition in topic.partitions
    ]
    return performed(broker.share_state, calls, lambda key, _: broker.share_state.delete(key), _RESPONSES.of)
