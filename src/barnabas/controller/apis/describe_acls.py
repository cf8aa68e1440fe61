"""DescribeAcls on the controller: DESCRIBE on the cluster, answered from the authorizer as a broker does.

A long answer is returned unfinished: its caller completes it in steps.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException
from barnabas.common.resource import ResourceType
from barnabas.controller.apis.request_checks import require_on_cluster
from barnabas.coordinator.deferred import Deferred
from barnabas.network.api_handler import AclRule
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.security.authorizer.acl_listing import listed
from barnabas.security.authorizer.acl_requests import check_describe_acls as check_request
from barnabas.security.authorizer.acl_requests import filter_of, require_acls

if TYPE_CHECKING:
    from barnabas.controller.quorum_controller import QuorumController
    from barnabas.security.authorizer.acl_listing import AclListing
    from barnabas.security.authorizer.authorizer import Authorizer
    from barnabas.security.request_context import RequestContext

__all__ = ["ACL", "check_request", "handle"]

ACL = (AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE),)


def handle(
    controller: QuorumController, context: RequestContext, request: DescribeAclsRequest, authorizer: Authorizer
) -> Deferred[DescribeAclsResponse | AclListing]:
    try:
        require_on_cluster(authorizer, context, AclOperation.DESCRIBE)
        acls = require_acls(authorizer, "No Authorizer is configured on the controller")
    except ApiException as error:
        return Deferred.completed(DescribeAclsResponse(error_code=int(error.code), error_message=error.message))
    return Deferred.completed(listed(acls.acl_slices(filter_of(request)), context.api_version))
