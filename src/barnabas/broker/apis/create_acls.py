"""CreateAcls: decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.forwarding import forward_to_controller
from barnabas.network.api_handler import Access, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.create_acls import AclCreationResult, CreateAclsRequest, CreateAclsResponse
from barnabas.security.authorizer.acl_requests import check_create_acls

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.common.errors import ApiException
    from barnabas.protocol.schema import Message


def _error_response(request: CreateAclsRequest, error: ApiException) -> CreateAclsResponse:
    failed = AclCreationResult(error_code=error.code, error_message=error.message)
    return CreateAclsResponse(results=[failed for _ in request.creations])


@handles(ApiKey.CREATE_ACLS, on_error=_error_response, check=check_create_acls)
def handle_create_acls(broker: Broker, request: Message, access: Access) -> Awaitable[Message]:
    return forward_to_controller(broker, request, access)
