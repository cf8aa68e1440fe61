"""SASL on a connection: passes frames to the authenticator until the client has logged in, then checks the session.

- Until then a token may have ``sasl.server.max.receive.size`` bytes and other frames
  ``barnabas.request.max.bytes.before.login``, and there is a deadline for all of it together.
- A failure is answered only after ``connection.failed.authentication.delay.ms``, and then the connection closes:
  guessing passwords is slow. Meanwhile the connection is not read, and no other connection waits.
- A session that has expired ends with the next request that is not a re-authentication (KIP-368).

Failures are counted by mechanism; the listener logs some of them (``network.refusal_log``).
"""

from __future__ import annotations

import logging
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Protocol

from barnabas.network.close_connection import CloseConnection
from barnabas.protocol.api_keys import ApiKey
from barnabas.security.principal_builder import AuthenticationContext, check_principal, session_principal
from barnabas.security.sasl.sasl_authenticator import SaslAuthenticator

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Awaitable

    from barnabas.network.connection import Answer, Connection, ConnectionOwner
    from barnabas.network.promised_answer import PromisedAnswer
    from barnabas.security.principal import Principal
    from barnabas.security.principal_builder import PrincipalBuilder
    from barnabas.security.sasl.sasl_authenticator import Login, Outcome
    from barnabas.security.sasl.sasl_listener import SaslListener
    from barnabas.security.tls import ServerTls

__all__ = ["Authentication", "ConnectionSecurity"]

log = logging.getLogger(__name__)

_REAUTHENTICATION_INTERVAL_S = 1.0
_HANDSHAKE_KEY = ApiKey.SASL_HANDSHAKE.to_bytes(2, "big")


class ConnectionSecurity(Protocol):
    """The security requirements of a listener (implemented in ``server.listeners.security``)."""

    protocol: str
    principal_builder: PrincipalBuilder
    sasl: SaslListener | None
    tls: ServerTls | None


class Authentication:
    """Processes frames between a connection and its listener's processor, before and after the login."""

    __slots__ = (
        "_authenticator",
        "_connection",
        "_deadline",
        "_expires_at",
        "_loop",
        "_next_reauthentication",
        "_owner",
        "_processor",
        "_sasl",
        "_security",
    )

    def __init__(
        self,
        connection: Connection,
        owner: ConnectionOwner,
        security: ConnectionSecurity,
        sasl: SaslListener,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._connection = connection
        self._owner = owner
        self._processor = owner.processor
        self._security = security
        self._sasl = sasl
        self._loop = loop
        self._authenticator = SaslAuthenticator(sasl, self)
        self._expires_at: float | None = None
        self._next_reauthentication = 0.0
        self._deadline: asyncio.TimerHandle | None = None
        if sasl.authentication_timeout_ms > 0:
            self._deadline = loop.call_later(sasl.authentication_timeout_ms / 1000, self._took_too_long)

    @property
    def is_pending(self) -> bool:
        """True until the client has logged in."""
        return self._connection.mechanism is None

    def process(self, connection: Connection, frame: bytearray) -> Answer | PromisedAnswer[Any] | Awaitable[Answer]:
        """Process a frame instead of the listener's processor."""
        if self._authenticator.is_pending:
            return self._advance(bytes(frame))
        if self._expires_at is not None:
            if frame[:2] == _HANDSHAKE_KEY and self._may_reauthenticate():
                return self._advance(bytes(frame))
            if self._loop.time() > self._expires_at:
                self._sasl.stats.expired_connections_killed += 1
                log.debug("closing the connection of %s: its session has expired", connection.peer)
                connection.close()
                return None
        return self._processor.process(connection, frame)

    def closed(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def refuse(self, reason: str) -> None:
        """End an authentication that fails below the level of frames."""
        self._failed(reason, None, "", is_reauthentication=False)

    # --- PeerServices

    def answer_api_versions(self, frame: bytes) -> bytes | None:
        try:
            answer = self._processor.process(self._connection, bytearray(frame))
        except CloseConnection:
            return None
        if isinstance(answer, Coroutine):
            answer.close()  # Work that takes long is not done before a login.
        return b"".join(answer) if isinstance(answer, list) else None

    def principal_of(self, mechanism: str, authorization_id: str, token_owner: Principal | None) -> Principal:
        connection = self._connection
        context = AuthenticationContext(
            listener_name=self._sasl.name,
            security_protocol=self._security.protocol,
            client_host=connection.peer_host,
            peer_certificate_der=connection.peer_certificate_der,
            authorization_id=authorization_id,
            sasl_mechanism=mechanism,
            token_authenticated=token_owner is not None,
        )
        principal = session_principal(self._security.principal_builder, context)
        if token_owner is not None:
            check_principal(token_owner)  # A custom builder may have changed the name.
            return token_owner._replace(token_authenticated=True)
        return principal

    # --- moves

    def _may_reauthenticate(self) -> bool:
        now = self._loop.time()
        if now < self._next_reauthentication:
            return False
        self._next_reauthentication = now + _REAUTHENTICATION_INTERVAL_S
        return True

    def _advance(self, frame: bytes) -> Answer:
        outcome = self._authenticator.receive(frame)
        if outcome.failure is not None:
            self._fail(outcome)
            return None
        if outcome.login is not None:
            self._logged_in(outcome.login)
        elif self._authenticator.takes_raw_tokens:
            self._connection.expect_raw_tokens(self._sasl.receive_bytes_max)
        return None if outcome.answer is None else [outcome.answer]

    def _logged_in(self, login: Login) -> None:
        self.closed()
        stats = self._sasl.stats.of(login.mechanism)
        if login.is_reauthentication:
            stats.reauthentications += 1
        else:
            stats.successful += 1
            stats.successful_without_reauthentication += not login.client_can_reauthenticate
        lifetime_ms = login.session_lifetime_ms
        self._expires_at = None if lifetime_ms is None else self._loop.time() + lifetime_ms / 1000
        connection = self._connection
        log.debug("%s is %s on listener %s by %s", connection.peer, login.principal, self._sasl.name, login.mechanism)
        connection.authenticated(login.principal, login.mechanism, is_for_good=lifetime_ms is None)

    def _fail(self, outcome: Outcome) -> None:
        self._failed(
            outcome.failure or "", outcome.answer, outcome.mechanism, is_reauthentication=outcome.is_reauthentication
        )

    def _failed(self, reason: str, answer: bytes | None, mechanism: str, *, is_reauthentication: bool) -> None:
        self.closed()
        stats = self._sasl.stats.of(mechanism)
        if is_reauthentication:
            stats.failed_reauthentications += 1
        else:
            stats.failed += 1
        self._owner.login_failed(self._connection, f"{mechanism}: {reason}" if mechanism else reason)
        self._connection.end_after(self._sasl.failure_delay_ms / 1000, answer)

    def _took_too_long(self) -> None:
        self._deadline = None
        self._failed(
            f"not logged in within {self._sasl.authentication_timeout_ms} ms (barnabas.authentication.timeout.ms)",
            None,
            "",
            is_reauthentication=False,
        )
