"""DescribeAcls: returns the ACLs by which this broker's own authorizer decides. Requires DESCRIBE on the cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.network.stepped_responses import worked_out
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from barnabas.security.authorizer.acl_listing import AclListing, listed
from barnabas.security.authorizer.acl_requests import check_describe_acls, filter_of, require_acls

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker


@handles(ApiKey.DESCRIBE_ACLS, acl=(AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE),), check=check_describe_acls)
def handle_describe_acls(
    broker: Broker, request: DescribeAclsRequest, access: Access
) -> DescribeAclsResponse | Awaitable[AclListing]:
    access.require_on_cluster(AclOperation.DESCRIBE)
    acls = require_acls(access.authorizer, "No Authorizer is configured on the broker")
    answer = listed(acls.acl_slices(filter_of(request)), access.context.api_version)
    return worked_out(answer) if isinstance(answer, AclListing) else answer
