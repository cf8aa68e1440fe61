"""ListPartitionReassignments: DESCRIBE on the cluster; what is committed, nothing of what is being decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.answer import require_on_cluster
from barnabas.controller.controller_result import ControllerResult
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    OngoingTopicReassignment,
)

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE),)


def handle(
    controller: QuorumController,
    context: RequestContext,
    request: ListPartitionReassignmentsRequest,
    authorizer: Authorizer,
) -> Deferred[ListPartitionReassignmentsResponse]:
    def decide() -> ControllerResult[ListPartitionReassignmentsResponse]:
        require_on_cluster(authorizer, context, AclOperation.DESCRIBE)
        wanted = None if request.topics is None else [(each.name, each.partition_indexes) for each in request.topics]
        topics = [
            OngoingTopicReassignment(
                name=name,
                partitions=[
                    OngoingPartitionReassignment(
                        partition_index=index,
                        replicas=list(partition.replicas),
                        adding_replicas=list(partition.adding_replicas),
                        removing_replicas=list(partition.removing_replicas),
                    )
                    for index, partition in partitions
                ],
            )
            for name, partitions in controller.replication.reassignment.ongoing(wanted)
        ]
        return ControllerResult((), ListPartitionReassignmentsResponse(error_message=None, topics=topics))

    def answer_error(error: ApiException) -> ListPartitionReassignmentsResponse:
        return ListPartitionReassignmentsResponse(error_code=int(error.code), error_message=error.message)

    return controller.submit(decide, answer_error, only_reads=lambda: True)
