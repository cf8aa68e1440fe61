"""WriteShareGroupState: stores changes to the state of share-partitions, for their leaders. Versions 0 to 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.share_state_calls import StateResponses, performed
from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.coordinator.share.persister import SharePartitionKey, StateBatch, StateWrite
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.write_share_group_state import (
    PartitionData,
    PartitionResult,
    WriteShareGroupStateRequest,
    WriteShareGroupStateResponse,
    WriteStateResult,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker


_RESPONSES = StateResponses(WriteShareGroupStateResponse, WriteStateResult, PartitionResult)


@handles(
    ApiKey.WRITE_SHARE_GROUP_STATE,
    acl=(AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),),
    on_error=_RESPONSES.failed,
)
def handle_write_share_group_state(
    broker: Broker, request: WriteShareGroupStateRequest, access: Access
) -> WriteShareGroupStateResponse | Awaitable[WriteShareGroupStateResponse]:
    access.require_on_cluster(AclOperation.CLUSTER_ACTION)
    if not request.group_id or not request.topics or not all(topic.partitions for topic in request.topics):
        return WriteShareGroupStateResponse()
    calls = [
        (SharePartitionKey(request.group_id, topic.topic_id, partition.partition), _write(partition))
        for topic in request.topics
        for partition in topic.partitions
    ]
    return performed(broker.share_state, calls, broker.share_state.write, _RESPONSES.of)


def _write(partition: PartitionData) -> StateWrite:
    return StateWrite(
        partition.state_epoch,
        partition.leader_epoch,
        partition.start_offset,
        partition.delivery_complete_count,
        tuple(
            StateBatch(batch.first_offset, batch.last_offset, batch.delivery_state, batch.delivery_count)
            for batch in partition.state_batches
        ),
    )
