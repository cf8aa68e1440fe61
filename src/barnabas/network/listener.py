"""A listening socket and the connections that it accepted.

Limits are Kafka's: ``connections.max.idle.ms``, ``socket.request.max.bytes``, and those of ``connection_quotas``. Idle
connections are found by a sweep, not by a timer each.

At most a few connections are accepted in one step, whatever the length of the system's queue: all of them take a
descriptor before the first excess one can be refused.

With TLS, the files of keys and certificates are checked every few seconds; new connections use their newest content.
"""

from __future__ import annotations

import asyncio
import os
import socket
from typing import TYPE_CHECKING

from barnabas.network.connection import Connection
from barnabas.network.loop_scheduler import LoopShare
from barnabas.network.refusal_log import RefusalLog
from barnabas.network.request_limits import RequestLimits
from barnabas.network.stop_accepting import stop_accepting
from barnabas.security.principal import ANONYMOUS
from barnabas.security.principal_builder import AuthenticationContext, PrincipalRefused, session_principal

if TYPE_CHECKING:
    from barnabas.network.authentication import ConnectionSecurity
    from barnabas.network.connection import RequestProcessor
    from barnabas.network.connection_quotas import ConnectionQuotas

__all__ = ["ConnectionLimits", "Listener"]

_UNLIMITED = 2147483647
_ACCEPTED_AT_ONCE = 8
_QUEUE_MIN = 128
_TLS_CHECK_S = 3.0


class ConnectionLimits:
    """Limits of one listener, or of several together: ``open_count`` counts the connections of all of them."""

    __slots__ = ("handshake_ms_max", "idle_ms_max", "loop_share", "open_count", "requests", "total_max")

    def __init__(
        self,
        *,
        requests: RequestLimits | None = None,
        idle_ms_max: int = 600000,
        total_max: int = _UNLIMITED,
        handshake_ms_max: int = 30000,
    ) -> None:
        self.requests = requests or RequestLimits()
        self.idle_ms_max = idle_ms_max
        self.total_max = total_max
        self.handshake_ms_max = handshake_ms_max
        self.open_count = 0
        self.loop_share = LoopShare()


class Listener:
    """Accepts connections for one named listener and passes their requests to ``processor``."""

    def __init__(
        self,
        name: str,
        processor: RequestProcessor,
        limits: ConnectionLimits,
        security: ConnectionSecurity | None = None,
        quotas: ConnectionQuotas | None = None,
    ) -> None:
        """``quotas`` may be shared with other listeners; ``limits`` reserve descriptors for other purposes."""
        self.name = name
        self.security = security
        self.processor = processor
        self.refusals = RefusalLog(name)
        self._faults = RefusalLog(name, "closing the connection of")
        self.authentications_succeeded = 0
        self.authentications_failed = 0
        self.handshake_s_max = limits.handshake_ms_max / 1000
        self.request_limits = limits.requests
        self.loop_share = limits.loop_share
        self.connections: set[Connection] = set()
        self.connections_created = 0
        self._limits = limits
        self._quotas = quotas
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._tls_check: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._queue_length = _QUEUE_MIN
        self.host = ""
        self.port = 0

    async def bind(self, host: str, port: int, backlog: int = 50) -> None:
        """Open the socket without accepting yet; port 0 selects a free port. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: self._connection(loop), host or None, port, backlog=_ACCEPTED_AT_ONCE, start_serving=False
        )
        self._queue_length = max(backlog, _QUEUE_MIN)
        address = self._server.sockets[0].getsockname()
        self.host, self.port = host, address[1]

    async def start(self) -> None:
        if self._server is None:
            raise RuntimeError("bind() must be called before start()")
        await self._server.start_serving()
        for served in self._server.sockets:
            # asyncio uses the queue length also as the number of connections to accept in one step.
            with socket.socket(fileno=os.dup(served.fileno())) as same:
                same.listen(self._queue_length)
        self._schedule_sweep()
        self._schedule_tls_check()

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        self._is_closed = True
        if self._tls_check is not None:
            self._tls_check.cancel()
        if self._server is not None:
            await stop_accepting(self._server)
        for connection in list(self.connections):
            connection.close()
        await asyncio.sleep(0)
        for connection in list(self.connections):
            connection.abort()
        await asyncio.sleep(0)
        if self.security is not None and self.security.sasl is not None:
            self.security.sasl.close()

    def _connection(self, loop: asyncio.AbstractEventLoop) -> asyncio.BaseProtocol:
        self.connections_created += 1
        connection = Connection(self, loop, f"{self.name}-{self.connections_created}")
        tls = None if self.security is None else self.security.tls
        if tls is None:
            return connection
        from barnabas.network.tls_layer import TlsLayer  # A node without TLS never loads OpenSSL.

        return TlsLayer(connection, lambda: tls.context, self, loop)

    # --- ConnectionOwner

    def opened(self, connection: Connection) -> bool:
        self.connections.add(connection)
        self._limits.open_count += 1
        if self._limits.open_count > self._limits.total_max:
            self._refuse(connection, f"{self._limits.total_max} connections are open, which is the limit")
            return False
        refusal = None if self._quotas is None else self._quotas.opened(self.name, connection)
        if refusal is not None:
            self._refuse(connection, refusal)
            return False
        if self.security is not None and self.security.protocol == "PLAINTEXT":
            return self._is_let_in(connection)
        return True

    def closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._limits.open_count -= 1
        if self._quotas is not None:
            self._quotas.closed(self.name, connection)

    # --- authentication

    def handshake_done(self, connection: Connection, peer_certificate_der: bytes | None) -> str | None:
        """Part of TlsOwner: with SSL the certificate (or none) identifies the client; with SASL_SSL, SASL does."""
        connection.peer_certificate_der = peer_certificate_der
        if self.security is None or self.security.protocol != "SSL":
            return None
        reason = self._authenticate(connection)
        if reason is None:
            self.authentications_succeeded += 1
        return reason

    def handshake_failed(self, connection: Connection, reason: str) -> None:
        self.authentication_failed(connection, reason)

    def authentication_failed(self, connection: Connection, reason: str) -> None:
        """Count the failure and log it, within bounds."""
        self.authentications_failed += 1
        self._refuse(connection, reason)

    def login_failed(self, connection: Connection, reason: str) -> None:
        """Log the failure; SASL counts its logins itself."""
        self._refuse(connection, reason)

    def _refuse(self, connection: Connection, reason: str) -> None:
        self.refusals.refused(connection.peer_host, connection.peer_port, reason, asyncio.get_running_loop().time())

    def broke_protocol(self, connection: Connection, reason: str) -> None:
        if connection.principal != ANONYMOUS:
            reason = f"{connection.principal}: {reason}"
        self._faults.refused(connection.peer_host, connection.peer_port, reason, asyncio.get_running_loop().time())

    def _is_let_in(self, connection: Connection) -> bool:
        reason = self._authenticate(connection)
        if reason is not None:
            self.authentication_failed(connection, reason)
        return reason is None

    def _authenticate(self, connection: Connection) -> str | None:
        """Set the connection's principal; return the reason if the principal builder refuses."""
        if self.security is None:
            return None
        context = AuthenticationContext(
            listener_name=self.name,
            security_protocol=self.security.protocol,
            client_host=connection.peer_host,
            peer_certificate_der=connection.peer_certificate_der,
        )
        try:
            connection.principal = session_principal(self.security.principal_builder, context)
        except PrincipalRefused as error:
            return str(error)
        return None

    # --- certificates

    def _schedule_tls_check(self) -> None:
        if self._is_closed:
            return
        if self.security is not None and self.security.tls is not None and self.security.tls.settings.files:
            if self._tls_check is not None:
                self._tls_check.cancel()
            self._tls_check = asyncio.get_running_loop().call_later(_TLS_CHECK_S, self._check_tls)

    def _check_tls(self) -> None:
        if self.security is None or self.security.tls is None:
            return
        if not self.security.tls.has_changed():
            self._schedule_tls_check()
            return
        reloading = asyncio.get_running_loop().run_in_executor(None, self.security.tls.reload_if_changed)
        reloading.add_done_callback(lambda _: self._schedule_tls_check())

    # --- idle connections

    def _schedule_sweep(self) -> None:
        if self._limits.idle_ms_max <= 0:
            return
        loop = asyncio.get_running_loop()
        self._sweep = loop.call_later(max(self._limits.idle_ms_max / 4000, 0.05), self._close_idle)

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._limits.idle_ms_max / 1000
        for connection in list(self.connections):
            if connection.last_active < oldest and not connection.is_waiting:
                if connection.is_closing:
                    connection.abort()  # It still doesn't read its responses.
                connection.close()
        self._schedule_sweep()
