"""ListGroups: the groups that this broker coordinates; version 4 filters by state, version 5 by type.

A caller with DESCRIBE on the cluster sees all groups. Other callers see the groups that they may describe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.list_groups import ListGroupsRequest, ListGroupsResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


@handles(
    ApiKey.LIST_GROUPS,
    acl=(
        AclRule(ResourceType.CLUSTER, AclOperation.DESCRIBE),
        AclRule(ResourceType.GROUP, AclOperation.DESCRIBE),
    ),
)
def handle_list_groups(broker: Broker, request: ListGroupsRequest, access: Access) -> ListGroupsResponse:
    response: ListGroupsResponse = broker.groups.coordinator.list_groups(request)
    if not access.allows_on_cluster(AclOperation.DESCRIBE, log_if_denied=False):
        names = [group.group_id for group in response.groups]
        allowed = set(access.allowed_in_order(ResourceType.GROUP, AclOperation.DESCRIBE, names, is_listing=True))
        response.groups = [group for group in response.groups if group.group_id in allowed]
    return response
