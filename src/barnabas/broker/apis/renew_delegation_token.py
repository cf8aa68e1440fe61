"""RenewDelegationToken: this broker checks the client's channel; the controller decides."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.forwarding import forward_to_controller
from barnabas.network.api_handler import Access, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.renew_delegation_token import (
    RenewDelegationTokenRequest,
    RenewDelegationTokenResponse,
)
from barnabas.security.token_requests import check_caller, time_of_refusal

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.common.errors import ApiException
    from barnabas.protocol.schema import Message


def _error_response(request: RenewDelegationTokenRequest, error: ApiException) -> RenewDelegationTokenResponse:
    return RenewDelegationTokenResponse(error_code=int(error.code), expiry_timestamp_ms=time_of_refusal(error.code))


@handles(ApiKey.RENEW_DELEGATION_TOKEN, on_error=_error_response)
def handle_renew_delegation_token(broker: Broker, request: Message, access: Access) -> Awaitable[Message]:
    check_caller(access.context)
    return forward_to_controller(broker, request, access)
