"""One listener: its socket, its TLS, and the connections on it.

Key and certificate may change while the listener runs: new connections use the new ones, old ones stay. A
connection without a request is closed after a while, so that idle clients do not occupy a worker's descriptors.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from barnabas.connect.rest.http_connection import IDLE_S, HttpConnection
from barnabas.connect.rest.loop_sharing import LoopSharing
from barnabas.connect.rest.request_log import LineBudget
from barnabas.connect.rest.rest_settings import UnusableRestSetting
from barnabas.connect.settings.listener_urls import Listener
from barnabas.network.stop_accepting import stop_accepting
from barnabas.security.tls import ServerTls

__all__ = ["HttpListener", "bind"]

log = logging.getLogger(__name__)

_BACKLOG = 256
_HEAD_BYTES_MAX = 64 * 1024
_AT_ONCE_MAX = 1000
_GRACE_S = 5.0
_LINES_PER_WINDOW = 20


class HttpListener:
    """``app`` answers requests. ``tls`` is None for http. All listeners of a worker have the same ``loop_sharing``."""

    def __init__(
        self, listener: Listener, sock: socket.socket, app: ASGIApp, tls: ServerTls | None, loop_sharing: LoopSharing
    ) -> None:
        self.listener = listener
        self.tls = tls
        self.port: int = sock.getsockname()[1]
        self._socket = sock
        self._state = ServerState()
        self._loop_sharing = loop_sharing
        self._config = uvicorn.Config(
            app,
            http=HttpConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=IDLE_S,
            h11_max_incomplete_event_size=_HEAD_BYTES_MAX,
            limit_concurrency=_AT_ONCE_MAX,
        )
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        context = None if self.tls is None else self.tls.context
        self._server = await self._serve(self._socket.dup(), context)

    async def reload_tls_if_changed(self) -> bool:
        """Return whether new connections see another certificate or trust from now on."""
        if self.tls is None or self._server is None or not self.tls.has_changed():
            return False
        if not await asyncio.to_thread(self.tls.reload_if_changed):
            return False
        before = self._server
        self._server = await self._serve(self._socket.dup(), self.tls.context)
        await stop_accepting(before)
        return True

    async def close(self) -> None:
        """Close, after giving pending answers a short time."""
        if self._server is not None:
            await stop_accepting(self._server)
        self._socket.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = list(self._state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await asyncio.sleep(0)  # A closed transport closes its socket in the loop's next turn.

    async def _serve(self, sock: socket.socket, context: ssl.SSLContext | None) -> asyncio.Server:
        def connected() -> asyncio.Protocol:
            return HttpConnection(self._config, self._state, {}, loop_sharing=self._loop_sharing)

        loop = asyncio.get_running_loop()
        return await loop.create_server(connected, sock=sock, ssl=context, backlog=_BACKLOG)


class _ServerLines(logging.Filter):
    """Limits uvicorn's lines about connections, such as about bytes that are not HTTP: unknown clients cause them."""

    def __init__(self) -> None:
        super().__init__()
        self._budget = LineBudget(_LINES_PER_WINDOW, time.monotonic)

    def filter(self, record: logging.LogRecord) -> bool:
        if not self._budget.take():
            return False
        record.msg = f"{record.getMessage()}{self._budget.since_last()}"
        record.args = ()
        return True


logging.getLogger("uvicorn.error").addFilter(_ServerLines())


def bind(listener: Listener) -> socket.socket:
    """Return a socket that listens. Raise UnusableRestSetting."""
    try:
        return _without_delay(_opened(listener))
    except OSError as error:
        raise UnusableRestSetting(f"listeners: {listener} can't be opened: {error.strerror or error}") from None


def _opened(listener: Listener) -> socket.socket:
    if not listener.host:
        return _everywhere(listener.port)
    found = socket.getaddrinfo(listener.host, listener.port, type=socket.SOCK_STREAM)
    # Like Java: the first address, IPv4 if possible.
    family, _, _, _, address = min(found, key=lambda info: info[0] != socket.AF_INET)
    return socket.create_server(address, family=family, backlog=_BACKLOG)


def _without_delay(listening: socket.socket) -> socket.socket:
    """Set TCP_NODELAY; connections inherit it. An answer is written in two pieces, and the second one would otherwise
    wait some 40 ms for the acknowledgement of the first. asyncio sets it only if the socket's protocol number is
    TCP's."""
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=_BACKLOG)
