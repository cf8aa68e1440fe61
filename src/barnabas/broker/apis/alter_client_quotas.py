"""AlterClientQuotas: decided by the controller."""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.broker.forwarding import forward_to_controller
from barnabas.network.api_handler import Access, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterClientQuotasResponseEntryData,
    EntityData,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from barnabas.broker.broker import Broker
    from barnabas.common.errors import ApiException
    from barnabas.protocol.schema import Message


def _error_response(request: AlterClientQuotasRequest, error: ApiException) -> AlterClientQuotasResponse:
    return AlterClientQuotasResponse(
        entries=[
            AlterClientQuotasResponseEntryData(
                error_code=int(error.code),
                error_message=error.message,
                entity=[
                    EntityData(entity_type=component.entity_type, entity_name=component.entity_name)
                    for component in entry.entity
                ],
            )
            for entry in request.entries
        ]
    )


@handles(ApiKey.ALTER_CLIENT_QUOTAS, on_error=_error_response)
def handle_alter_client_quotas(broker: Broker, request: Message, access: Access) -> Awaitable[Message]:
    return forward_to_controller(broker, request, access)
