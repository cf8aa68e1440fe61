"""DeleteGroups: removes groups without members, and all of their offsets; of share groups, their states."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.acl import AclOperation
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.resource import ResourceType
from barnabas.network.api_handler import Access, AclRule, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.delete_groups import DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker


def _error_response(request: DeleteGroupsRequest, error: ApiException) -> DeleteGroupsResponse:
    return DeleteGroupsResponse(
        results=[
            DeletableGroupResult(group_id=group_id, error_code=error.code)
            for group_id in dict.fromkeys(request.groups_names)
        ]
    )


@handles(ApiKey.DELETE_GROUPS, acl=(AclRule(ResourceType.GROUP, AclOperation.DELETE),), on_error=_error_response)
def handle_delete_groups(
    broker: Broker, request: DeleteGroupsRequest, access: Access
) -> DeleteGroupsResponse | Awaitable[DeleteGroupsResponse]:
    names = list(dict.fromkeys(request.groups_names))
    allowed = access.allowed(ResourceType.GROUP, AclOperation.DELETE, names)

    def shape(parts: list[list[DeletableGroupResult]]) -> DeleteGroupsResponse:
        outcomes = {result.group_id: result for part in parts for result in part}
        return DeleteGroupsResponse(
            results=[
                outcomes.get(name)
                or DeletableGroupResult(group_id=name, error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
                for name in names
            ]
        )

    async def with_states() -> DeleteGroupsResponse:
        return shape(await broker.share_groups.delete_groups(wanted))

    wanted = [name for name in names if name in allowed]
    groups = broker.groups
    if wanted and groups.coordinator.share.has_any(wanted):
        return with_states()
    return groups.answer(groups.coordinator.delete_groups(wanted, groups.now_ms()).map(shape))
