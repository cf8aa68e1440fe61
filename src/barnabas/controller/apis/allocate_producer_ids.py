"""AllocateProducerIds: CLUSTER_ACTION. The block is committed before it is returned."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_cluster_action
from barnabas.controller.controller_result import ControllerResult
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),)


def handle(
    controller: QuorumController, context: RequestContext, request: AllocateProducerIdsRequest, authorizer: Authorizer
) -> Deferred[AllocateProducerIdsResponse]:
    def decide() -> ControllerResult[AllocateProducerIdsResponse]:
        require_cluster_action(authorizer, context)
        result = controller.producer_ids.generate_next_producer_ids(request.broker_id, request.broker_epoch)
        block = result.response
        response = AllocateProducerIdsResponse(producer_id_start=block.first, producer_id_len=block.size)
        return result.with_response(response)

    def answer_error(error: ApiException) -> AllocateProducerIdsResponse:
        return AllocateProducerIdsResponse(error_code=int(error.code))

    return controller.submit(decide, answer_error)
