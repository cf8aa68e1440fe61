"""UnregisterBroker: ALTER on the cluster. Fails with BROKER_ID_NOT_REGISTERED for an unknown broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_on_cluster
from barnabas.controller.decision_turns import Turns
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.ALTER),)


def handle(
    controller: QuorumController, context: RequestContext, request: UnregisterBrokerRequest, authorizer: Authorizer
) -> Deferred[UnregisterBrokerResponse]:
    def decide() -> Turns[UnregisterBrokerResponse]:
        require_on_cluster(authorizer, context, AclOperation.ALTER)
        result = yield from controller.replication.unregister_broker(request.broker_id)
        return result.with_response(UnregisterBrokerResponse(error_message=""))

    def answer_error(error: ApiException) -> UnregisterBrokerResponse:
        return UnregisterBrokerResponse(error_code=int(error.code), error_message=error.message)

    return controller.submit_in_turns(decide(), answer_error)
