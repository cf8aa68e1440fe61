"""ReadShareGroupState: the state of share-partitions, for the broker that begins to lead them. Version 0."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.share_state_calls import performed
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
    StateBatch,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.broker.share_state_calls import ByTopic
    from barnabas.common.errors import ApiException


def _error_response(request: ReadShareGroupStateRequest, error: ApiException) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(
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
    ApiKey.READ_SHARE_GROUP_STATE,
    acl=(AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),),
    on_error=_error_response,
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
    return performed(service, calls, service.read, _response, unconfirmed=SharePartitionState.failed)


def _response(found: ByTopic[SharePartitionState]) -> ReadShareGroupStateResponse:
    return ReadShareGroupStateResponse(
        results=[
            ReadStateResult(
                topic_id=topic_id,
                partitions=[
                    PartitionResult(
                        partition=partition,
                        error_code=state.error_code,
                        error_message=state.error_message,
                        state_epoch=state.state_epoch,
                        start_offset=state.start_offset,
                        state_batches=[
                            StateBatch(
                                first_offset=first, last_offset=last, delivery_state=delivery, delivery_count=count
                            )
                            for first, last, delivery, count in state.batches
                        ],
                    )
                    for partition, state in partitions.items()
                ],
            )
            for topic_id, partitions in found.items()
        ]
    )
