"""SaslAuthenticate on a connection that does not need authentication or is authenticated already.

The exchange itself takes place before requests are dispatched (``network.authentication``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.errors import ErrorCode
from barnabas.network.api_handler import Access, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


@handles(ApiKey.SASL_AUTHENTICATE)
def handle_sasl_authenticate(
    broker: Broker, request: SaslAuthenticateRequest, access: Access
) -> SaslAuthenticateResponse:
    return SaslAuthenticateResponse(
        error_code=ErrorCode.ILLEGAL_SASL_STATE,
        error_message="SaslAuthenticate request received after successful authentication",
    )
