"""AlterUserScramCredentials: decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.forwarding import forward_to_controller
from barnabas.network.api_handler import Access, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.common.errors import ApiException
    from barnabas.protocol.schema import Message


def _error_response(
    request: AlterUserScramCredentialsRequest, error: ApiException
) -> AlterUserScramCredentialsResponse:
    users = sorted({*(change.name for change in request.deletions), *(change.name for change in request.upsertions)})
    return AlterUserScramCredentialsResponse(
        results=[
            AlterUserScramCredentialsResult(user=user, error_code=int(error.code), error_message=error.message)
            for user in users
        ]
    )


@handles(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, on_error=_error_response)
def handle_alter_user_scram_credentials(broker: Broker, request: Message, access: Access) -> Awaitable[Message]:
    return forward_to_controller(broker, request, access)
