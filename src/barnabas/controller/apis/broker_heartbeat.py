"""BrokerHeartbeat: CLUSTER_ACTION. Keeps the session alive, fences and unfences, and completes a shutdown."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_cluster_action
from barnabas.controller.controller_result import ControllerResult
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),)


def handle(
    controller: QuorumController, context: RequestContext, request: BrokerHeartbeatRequest, authorizer: Authorizer
) -> Deferred[BrokerHeartbeatResponse]:
    def decide() -> ControllerResult[BrokerHeartbeatResponse]:
        require_cluster_action(authorizer, context)
        result = controller.replication.process_broker_heartbeat(
            request, now_ms=controller.now_ms(), next_write_offset=controller.next_write_offset
        )
        reply = result.response
        response = BrokerHeartbeatResponse(
            is_caught_up=reply.is_caught_up, is_fenced=reply.is_fenced, should_shut_down=reply.should_shut_down
        )
        return result.with_response(response)

    def answer_error(error: ApiException) -> BrokerHeartbeatResponse:
        return BrokerHeartbeatResponse(error_code=int(error.code))

    only_reads = partial(controller.replication.changes_nothing, request)
    return controller.submit(decide, answer_error, only_reads=only_reads)
