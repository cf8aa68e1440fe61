"""ControllerRegistration: CLUSTER_ACTION. A controller registers its listeners and features."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_cluster_action
from barnabas.controller.controller_result import ControllerResult
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.controller_registration import (
    ControllerRegistrationRequest,
    ControllerRegistrationResponse,
)

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.CLUSTER_ACTION),)


def handle(
    controller: QuorumController,
    context: RequestContext,
    request: ControllerRegistrationRequest,
    authorizer: Authorizer,
) -> Deferred[ControllerRegistrationResponse]:
    def decide() -> ControllerResult[ControllerRegistrationResponse]:
        require_cluster_action(authorizer, context)
        result = controller.cluster.register_controller(request)
        return result.with_response(ControllerRegistrationResponse(error_message=""))

    def answer_error(error: ApiException) -> ControllerRegistrationResponse:
        return ControllerRegistrationResponse(error_code=int(error.code), error_message=error.message)

    return controller.submit(decide, answer_error)
