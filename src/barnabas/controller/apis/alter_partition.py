"""AlterPartition: CLUSTER_ACTION. A leader changes its partition's ISR; the answer is the state after it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_cluster_action
from barnabas.controller.decision_turns import Turns
from barnabas.controller.partition_alteration import ANY_EPOCH, IsrChange, PartitionState
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),)

_FIRST_VERSION_WITH_EPOCHS = 3


def handle(
    controller: QuorumController, context: RequestContext, request: AlterPartitionRequest, authorizer: Authorizer
) -> Deferred[AlterPartitionResponse]:
    def decide() -> Turns[AlterPartitionResponse]:
        require_cluster_action(authorizer, context)
        changes = list(_changes(request, context.api_version))
        result = yield from controller.replication.alteration.alter_partitions(
            request.broker_id, request.broker_epoch, changes
        )
        return result.with_response(_response(changes, result.response))

    def answer_error(error: ApiException) -> AlterPartitionResponse:
        return AlterPartitionResponse(error_code=int(error.code))

    return controller.submit_in_turns(decide(), answer_error)


def _changes(request: AlterPartitionRequest, api_version: int) -> Iterator[IsrChange]:
    for topic in request.topics:
        for partition in topic.partitions:
            yield IsrChange(
                topic_id=topic.topic_id,
                partition_id=partition.partition_index,
                leader_epoch=partition.leader_epoch,
                partition_epoch=partition.partition_epoch,
                isr=_isr(partition, api_version),
                leader_recovery_state=partition.leader_recovery_state,
            )


def _isr(partition: AlterPartitionRequestPartitionData, api_version: int) -> list[tuple[int, int]]:
    if api_version < _FIRST_VERSION_WITH_EPOCHS:
        return [(replica, ANY_EPOCH) for replica in partition.new_isr]
    return [(broker.broker_id, broker.broker_epoch) for broker in partition.new_isr_with_epochs]


def _response(changes: Sequence[IsrChange], states: Sequence[PartitionState]) -> AlterPartitionResponse:
    response = AlterPartitionResponse()
    for change, (error, partition) in zip(changes, states, strict=True):
        if not response.topics or response.topics[-1].topic_id != change.topic_id:
            response.topics.append(AlterPartitionResponseTopicData(topic_id=change.topic_id))
        answer = AlterPartitionResponsePartitionData(partition_index=change.partition_id, error_code=int(error))
        if partition is not None:
            answer.leader_id = partition.leader
            answer.leader_epoch = partition.leader_epoch
            answer.isr = list(partition.isr)
            answer.leader_recovery_state = partition.leader_recovery_state
            answer.partition_epoch = partition.partition_epoch
        response.topics[-1].partitions.append(answer)
    return response
