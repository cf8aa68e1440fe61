"""A listening socket and the connections that it accepted.

Limits are Kafka's: ``max.connections``, ``max.connections.per.ip``, ``connections.max.idle.ms``,
``socket.request.max.bytes``. Idle connections are found by a sweep, not by a timer each.

At most a few connections are accepted in one go, whatever the length of the system's queue: all of them take a
descriptor before the first one that is too many can be refused.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import TYPE_CHECKING

from barnabas.network.connection import Connection

if TYPE_CHECKING:
    from barnabas.network.authentication import ConnectionSecurity
    from barnabas.network.connection import RequestProcessor

__all__ = ["ConnectionLimits", "Listener"]

log = logging.getLogger(__name__)

_UNLIMITED = 2147483647
_ACCEPTED_AT_ONCE = 8
_QUEUE_MIN = 128


class ConnectionLimits:
    """Limits of one listener, or of several together: ``open_count`` is the number of connections of all of them."""

    __slots__ = ("idle_ms_max", "open_count", "per_ip_max", "request_bytes_max", "total_max")

    def __init__(
        self,
        *,
        request_bytes_max: int = 104857600,
        idle_ms_max: int = 600000,
        total_max: int = _UNLIMITED,
        per_ip_max: int = _UNLIMITED,
    ) -> None:
        self.request_bytes_max = request_bytes_max
        self.idle_ms_max = idle_ms_max
        self.total_max = total_max
        self.per_ip_max = per_ip_max
        self.open_count = 0


class Listener:
    """Accepts connections for one named listener and hands their requests to ``processor``."""

    def __init__(
        self,
        name: str,
        processor: RequestProcessor,
        limits: ConnectionLimits,
        security: ConnectionSecurity | None = None,
    ) -> None:
        self.name = name
        self.security = security
        self.processor = processor
        self.request_bytes_max = limits.request_bytes_max
        self.connections: set[Connection] = set()
        self.connections_created = 0
        self._limits = limits
        self._per_ip: dict[str, int] = {}
        self._server: asyncio.Server | None = None
        self._sweep: asyncio.TimerHandle | None = None
        self._queue_length = _QUEUE_MIN
        self.host = ""
        self.port = 0

    async def bind(self, host: str, port: int, backlog: int = 50) -> None:
        """Open the socket without accepting yet; port 0 takes a free one. Raises OSError."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: self._connection(loop), host or None, port, backlog=_ACCEPTED_AT_ONCE, start_serving=False
        )
        self._queue_length = max(backlog, _QUEUE_MIN)
        address = self._server.sockets[0].getsockname()
        self.host, self.port = host, address[1]

    async def start(self) -> None:
        if self._server is None:
            raise RuntimeError("bind() comes before start()")
        await self._server.start_serving()
        for served in self._server.sockets:
            # What asyncio takes for the length of the queue is also how many it accepts before anything else runs.
            with socket.socket(fileno=os.dup(served.fileno())) as same:
                same.listen(self._queue_length)
        self._schedule_sweep()

    async def close(self) -> None:
        if self._sweep is not None:
            self._sweep.cancel()
        if self._server is not None:
            self._server.close()
        for connection in list(self.connections):
            connection.close()
        await asyncio.sleep(0)
        for connection in list(self.connections):
            connection.abort()

    def _connection(self, loop: asyncio.AbstractEventLoop) -> Connection:
        self.connections_created += 1
        return Connection(self, loop, f"{self.name}-{self.connections_created}")

    # --- ConnectionOwner

    def opened(self, connection: Connection) -> bool:
        host = connection.peer_host
        count = self._per_ip.get(host, 0)
        self.connections.add(connection)
        self._limits.open_count += 1
        self._per_ip[host] = count + 1
        if self._limits.open_count > self._limits.total_max:
            log.warning("refusing %s: %d connections are open, no more are possible", host, self._limits.total_max)
            return False
        if count >= self._limits.per_ip_max:
            log.warning("refusing %s: it has max.connections.per.ip=%d connections", host, self._limits.per_ip_max)
            return False
        return True

    def closed(self, connection: Connection) -> None:
        self.connections.discard(connection)
        self._limits.open_count -= 1
        host = connection.peer_host
        left = self._per_ip.get(host, 1) - 1
        if left:
            self._per_ip[host] = left
        else:
            self._per_ip.pop(host, None)

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
                connection.close()
        self._schedule_sweep()
