"""DeleteAcls on the controller: ALTER on the cluster. Each filter reports what it found; one batch is written."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.answer import require_on_cluster
from barnabas.controller.controller_result import ControllerResult
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from barnabas.security.authorizer.acl_requests import check_delete_acls as check_request
from barnabas.security.authorizer.acl_requests import filter_of, require_acls

if TYPE_CHECKING:
    from barnabas.common.acl import AclBinding
    from barnabas.controller.acl_control_manager import AclDeletion
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "check_request", "error_response", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.ALTER),)


def handle(
    controller: QuorumController, context: RequestContext, request: DeleteAclsRequest, authorizer: Authorizer
) -> Deferred[DeleteAclsResponse]:
    def decide() -> ControllerResult[DeleteAclsResponse]:
        require_on_cluster(authorizer, context, AclOperation.ALTER)
        require_acls(authorizer, "No Authorizer is configured.")
        result = controller.acls.delete_acls([filter_of(each) for each in request.filters])
        return result.with_response(DeleteAclsResponse(filter_results=[_result(each) for each in result.response]))

    return controller.submit(decide, lambda error: error_response(request, error))


def error_response(request: DeleteAclsRequest, error: ApiException) -> DeleteAclsResponse:
    failed = DeleteAclsFilterResult(error_code=int(error.code), error_message=error.message)
    return DeleteAclsResponse(filter_results=[failed for _ in request.filters])


def _result(deletion: AclDeletion) -> DeleteAclsFilterResult:
    return DeleteAclsFilterResult(
        error_code=int(deletion.error.code),
        error_message=deletion.error.message,
        matching_acls=[_matching(binding) for binding in deletion.deleted],
    )


def _matching(binding: AclBinding) -> DeleteAclsMatchingAcl:
    return DeleteAclsMatchingAcl(
        error_message=None,
        resource_type=binding.resource_type,
        resource_name=binding.name,
        pattern_type=binding.pattern_type,
        principal=binding.principal,
        host=binding.host,
        operation=binding.operation,
        permission_type=binding.permission,
    )
