"""ListPartitionReassignments: DESCRIBE on the cluster; the committed state, without pending decisions.

Many are found in steps, in their state at the time of the request.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import may_be_allowed_on_cluster, require_on_cluster
from barnabas.controller.controller_result import ControllerResult
from barnabas.controller.prepared_decision import PreparedDecision
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
)

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.controller.reassignment_listing import ReassignmentListing
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
) -> Deferred[ListPartitionReassignmentsResponse] | PreparedDecision[ListPartitionReassignmentsResponse]:
    wanted = None if request.topics is None else [(topic.name, topic.partition_indexes) for topic in request.topics]
    reassignment = controller.replication.reassignment

    def submit(prepared: ReassignmentListing | None) -> Deferred[ListPartitionReassignmentsResponse]:
        def decide() -> ControllerResult[ListPartitionReassignmentsResponse]:
            require_on_cluster(authorizer, context, AclOperation.DESCRIBE)
            topics = (prepared or reassignment.listed(wanted)).topics
            return ControllerResult((), ListPartitionReassignmentsResponse(error_message=None, topics=topics))

        return controller.submit(decide, answer_error, only_reads=lambda: True)

    def answer_error(error: ApiException) -> ListPartitionReassignmentsResponse:
        return ListPartitionReassignmentsResponse(error_code=int(error.code), error_message=error.message)

    is_worth_it = controller.is_active and may_be_allowed_on_cluster(authorizer, context, AclOperation.DESCRIBE)
    listing = reassignment.long_listing(wanted) if is_worth_it else None
    return submit(None) if listing is None else PreparedDecision(listing, partial(submit, listing))
