"""AlterPartitionReassignments: ALTER on the cluster; an answer for each partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiError, ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_on_cluster
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.decision_turns import Turns
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ReassignablePartitionResponse,
    ReassignableTopicResponse,
)

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "error_response", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.ALTER),)


def handle(
    controller: QuorumController,
    context: RequestContext,
    request: AlterPartitionReassignmentsRequest,
    authorizer: Authorizer,
) -> Deferred[AlterPartitionReassignmentsResponse]:
    def decide() -> Turns[AlterPartitionReassignmentsResponse]:
        require_on_cluster(authorizer, context, AclOperation.ALTER)
        if not request.topics:
            return ControllerResult((), AlterPartitionReassignmentsResponse())
        targets = [
            (topic.name, [(partition.partition_index, partition.replicas) for partition in topic.partitions])
            for topic in request.topics
        ]
        may_change_factor = request.allow_replication_factor_change
        result = yield from controller.replication.reassignment.alter(targets, may_change_factor=may_change_factor)
        response = AlterPartitionReassignmentsResponse(
            allow_replication_factor_change=may_change_factor,
            error_message=None,
            responses=[
                ReassignableTopicResponse(name=name, partitions=[_partition(index, error) for index, error in outcome])
                for name, outcome in result.response
            ],
        )
        return result.with_response(response)

    return controller.submit_in_turns(decide(), lambda error: error_response(request, error))


def error_response(
    request: AlterPartitionReassignmentsRequest, error: ApiException
) -> AlterPartitionReassignmentsResponse:
    same = ApiError.of(error)
    return AlterPartitionReassignmentsResponse(
        error_code=int(error.code),
        error_message=error.message,
        responses=[
            ReassignableTopicResponse(
                name=topic.name,
                partitions=[_partition(partition.partition_index, same) for partition in topic.partitions],
            )
            for topic in request.topics
        ],
    )


def _partition(index: int, error: ApiError) -> ReassignablePartitionResponse:
    return ReassignablePartitionResponse(partition_index=index, error_code=int(error.code), error_message=error.message)
