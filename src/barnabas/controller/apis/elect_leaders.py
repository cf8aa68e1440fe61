"""ElectLeaders: ALTER on the cluster; an answer for each named partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiError, ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_on_cluster
from barnabas.controller.decision_turns import Turns
from barnabas.controller.leader_election import ElectionType, partition_result
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "error_response", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.ALTER),)


def handle(
    controller: QuorumController, context: RequestContext, request: ElectLeadersRequest, authorizer: Authorizer
) -> Deferred[ElectLeadersResponse]:
    def decide() -> Turns[ElectLeadersResponse]:
        require_on_cluster(authorizer, context, AclOperation.ALTER)
        wanted = request.topic_partitions
        pairs = None if wanted is None else [(topic.topic, topic.partitions) for topic in wanted]
        kind = ElectionType.of(request.election_type)
        result = yield from controller.replication.leader_election.elect_leaders(kind, pairs)
        return result.with_response(ElectLeadersResponse(replica_election_results=result.response))

    return controller.submit_in_turns(decide(), lambda error: _refusal(request, error, context.api_version))


def _refusal(request: ElectLeadersRequest, error: ApiException, version: int) -> ElectLeadersResponse:
    response = error_response(request, error)
    if version == 0:
        response.error_code = 0  # The response has no top-level error.
    return response


def error_response(request: ElectLeadersRequest, error: ApiException) -> ElectLeadersResponse:
    same = ApiError.of(error)
    results = [
        ReplicaElectionResult(
            topic=topic.topic, partition_result=[partition_result(index, same) for index in topic.partitions]
        )
        for topic in request.topic_partitions or ()
    ]
    return ElectLeadersResponse(error_code=int(error.code), replica_election_results=results)
