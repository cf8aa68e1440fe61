"""BrokerRegistration: CLUSTER_ACTION; the answer is the epoch of the broker's new incarnation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_cluster_action
from barnabas.controller.decision_turns import Turns
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),)


def handle(
    controller: QuorumController, context: RequestContext, request: BrokerRegistrationRequest, authorizer: Authorizer
) -> Deferred[BrokerRegistrationResponse]:
    def decide() -> Turns[BrokerRegistrationResponse]:
        require_cluster_action(authorizer, context)
        result = yield from controller.replication.register_broker(
            request, new_epoch=lambda: controller.next_write_offset, now_ms=controller.now_ms
        )
        return result.with_response(BrokerRegistrationResponse(broker_epoch=result.response))

    def answer_error(error: ApiException) -> BrokerRegistrationResponse:
        return BrokerRegistrationResponse(error_code=int(error.code))

    return controller.submit_in_turns(decide(), answer_error)
