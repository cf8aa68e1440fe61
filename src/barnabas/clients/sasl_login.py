"""Logs a connection in over SASL, and again before its session ends (KIP-368)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from barnabas.clients.errors import AuthenticationFailed, InvalidClientConfig, UnsupportedVersion
from barnabas.common.error_code import ErrorCode
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest

if TYPE_CHECKING:
    from barnabas.clients.client_config import ClientConfig
    from barnabas.clients.node_connection import NodeConnection

__all__ = ["SaslLogin"]

_EARLIEST_RENEWAL, _LATEST_RENEWAL = 0.85, 0.95
"""The part of a session after which it is renewed: at random, so that many clients don't come together."""


class SaslLogin:
    def __init__(self, connection: NodeConnection, config: ClientConfig) -> None:
        self._connection = connection
        self._config = config

    async def log_in(self) -> None:
        """Raises AuthenticationFailed with what the node says about it."""
        connection = self._connection
        mechanism = self._config.sasl_mechanism
        client: Any = self._client()
        await self._shake_hands(mechanism)
        token = client.first_message()
        lifetime_ms = 0
        while token is not None:
            response = await connection.exchange(SaslAuthenticateRequest(auth_bytes=token))
            if response.error_code:
                raise AuthenticationFailed(
                    f"{connection.address} refused the login over {mechanism}: "
                    f"{response.error_message or ErrorCode(response.error_code).name}"
                )
            lifetime_ms = response.session_lifetime_ms
            token = self._answer(client, response.auth_bytes)
        if lifetime_ms > 0:
            part = random.uniform(_EARLIEST_RENEWAL, _LATEST_RENEWAL)
            connection.set_session(self.log_in, lifetime_ms / 1000 * part)
        else:
            connection.set_session(None)

    async def _shake_hands(self, mechanism: str) -> None:
        connection = self._connection
        if connection.version_of(ApiKey.SASL_HANDSHAKE) < 1:
            raise UnsupportedVersion(f"the node at {connection.address} is older than Kafka 1.0")
        response = await connection.exchange(SaslHandshakeRequest(mechanism=mechanism))
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = ", ".join(response.mechanisms) or "no mechanism"
            raise AuthenticationFailed(
                f"{connection.address} does not offer sasl.mechanism {mechanism}; it offers {offered}"
            )
        if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            plain = "SSL" if self._config.uses_tls else "PLAINTEXT"
            raise AuthenticationFailed(f"{connection.address} knows no logging in -> set security.protocol to {plain}")
        if response.error_code:
            raise AuthenticationFailed(
                f"{connection.address} refused the SASL handshake: {ErrorCode(response.error_code).name}"
            )

    def _client(self) -> Any:
        raise InvalidClientConfig([f"{self._config.security_protocol}: this client can't log in yet"])

    def _answer(self, client: Any, challenge: bytes) -> bytes | None:
        raise InvalidClientConfig([f"{self._config.security_protocol}: this client can't log in yet"])
