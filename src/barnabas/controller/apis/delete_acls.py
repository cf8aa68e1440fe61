"""DeleteAcls on the controller: ALTER on the cluster. Each filter reports what it found; one batch is written."""

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
    from barnabas.controller.acl_search import AclSearch
    from barnabas.controller.decision_steps import Steps
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.coordinator.deferred import Deferred
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "check_request", "error_response", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.ALTER),)


def handle(
    controller: QuorumController, context: RequestContext, request: DeleteAclsRequest, authorizer: Authorizer
) -> Deferred[DeleteAclsResponse] | PreparedDecision[DeleteAclsResponse]:
    filters = [filter_of(acl_filter) for acl_filter in request.filters]

    def decide(search: AclSearch | None) -> Steps[ControllerResult[DeleteAclsResponse]]:
        require_on_cluster(authorizer, context, AclOperation.ALTER)
        require_acls(authorizer, "No Authorizer is configured.")
        result = yield from controller.acls.delete_acls(filters, search)
        return result.with_response(
            DeleteAclsResponse(filter_results=[_result(filter_result) for filter_result in result.response])
        )

    def submit(search: AclSearch | None) -> Deferred[DeleteAclsResponse]:
        return controller.submit_in_steps(decide(search), lambda error: error_response(request, error))

    search = None
    if controller.is_active and authorizer.acl_authorizer is not None:
        if may_be_allowed_on_cluster(authorizer, context, AclOperation.ALTER):
            search = controller.acls.long_search(filters)
    return submit(None) if search is None else PreparedDecision(search, partial(submit, search))


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
