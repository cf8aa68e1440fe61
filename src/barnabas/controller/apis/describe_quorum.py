"""DescribeQuorum: DESCRIBE on the cluster; answered by the replica of the metadata log that leads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_on_cluster
from barnabas.coordinator.deferred import Deferred
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE),)


def handle(
    controller: QuorumController, context: RequestContext, request: DescribeQuorumRequest, authorizer: Authorizer
) -> Deferred[DescribeQuorumResponse]:
    answer: Deferred[DescribeQuorumResponse] = Deferred()
    try:
        require_on_cluster(authorizer, context, AclOperation.DESCRIBE)
        answer.complete(controller.describe_quorum(request, context.api_version))
    except ApiException as error:
        answer.complete(DescribeQuorumResponse(error_code=int(error.code), error_message=error.message))
    return answer
