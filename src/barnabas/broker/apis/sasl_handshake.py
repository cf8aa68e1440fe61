"""SaslHandshake on a connection that does not need authentication or is authenticated already.

The handshake itself is part of the authentication, before requests are dispatched (``network.authentication``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from barnabas.common.errors import ErrorCode
from barnabas.network.api_handler import Access, handles
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

if TYPE_CHECKING:
    from barnabas.broker.broker import Broker


@handles(ApiKey.SASL_HANDSHAKE)
def handle_sasl_handshake(broker: Broker, request: SaslHandshakeRequest, access: Access) -> SaslHandshakeResponse:
    return SaslHandshakeResponse(error_code=ErrorCode.ILLEGAL_SASL_STATE)
