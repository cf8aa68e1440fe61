"""One listener: its socket, its TLS, and uvicorn's HTTP/1.1 on its connections.

HTTP is read line by line, in Python: a body in chunks of one byte took a tenth of a millisecond for each byte, and kept
a worker from its heartbeats until it fell out of its group. So what comes with many lines is read in turns, one
connection at a time, with pauses between them.

What TLS is made of may change while the listener runs: new connections then see the new certificate, old ones stay. A
connection on which no request comes is closed after a while, so that nobody holds a worker's descriptors for nothing.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
import time
from time import perf_counter
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from barnabas.connect.rest.listener_urls import Listener
from barnabas.connect.rest.request_log import LineBudget
from barnabas.connect.rest.rest_settings import UnusableRestSetting
from barnabas.network.fair_work import FairTurns
from barnabas.security.tls import ServerTls

__all__ = ["Listening", "bind"]

log = logging.getLogger(__name__)

_BACKLOG = 256
_IDLE_S = 30
_HEAD_BYTES_MAX = 64 * 1024
_AT_ONCE_MAX = 1000
_GRACE_S = 5.0
_LINES_PER_WINDOW = 20
_LINES_AT_ONCE = 100
"""Lines that are read without a break: some milliseconds. A request of a usual client has a tenth of that."""


class Listening:
    """``app`` answers what comes here. ``tls`` is None for http."""

    def __init__(self, listener: Listener, sock: socket.socket, app: ASGIApp, tls: ServerTls | None) -> None:
        self.listener = listener
        self.tls = tls
        self.port: int = sock.getsockname()[1]
        self._socket = sock
        self._state = ServerState()
        self._turns = FairTurns()
        self._config = uvicorn.Config(
            app,
            http=_Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=_IDLE_S,
            h11_max_incomplete_event_size=_HEAD_BYTES_MAX,
            limit_concurrency=_AT_ONCE_MAX,
        )
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        context = None if self.tls is None else self.tls.context
        self._server = await self._serve(self._socket.dup(), context)

    async def reload_tls_if_changed(self) -> bool:
        """Whether new connections see another certificate or trust from now on."""
        if self.tls is None or self._server is None or not self.tls.has_changed():
            return False
        if not await asyncio.to_thread(self.tls.reload_if_changed):
            return False
        before = self._server
        self._server = await self._serve(self._socket.dup(), self.tls.context)
        before.close()
        return True

    async def close(self) -> None:
        """Let answers under way go out, for a short while."""
        if self._server is not None:
            self._server.close()
        self._socket.close()
        for connection in list(self._state.connections):
            connection.shutdown()
        tasks = list(self._state.tasks)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=_GRACE_S)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)

    async def _serve(self, sock: socket.socket, context: ssl.SSLContext | None) -> asyncio.Server:
        def connected() -> asyncio.Protocol:
            connection = _Connection(self._config, self._state, {})
            connection.turns = self._turns
            return connection

        loop = asyncio.get_running_loop()
        return await loop.create_server(connected, sock=sock, ssl=context, backlog=_BACKLOG)


class _ServerLines(logging.Filter):
    """What uvicorn says of connections, such as of bytes that are not HTTP, comes from strangers: a few lines of it."""

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


class _Connection(H11Protocol):
    """A connection that knows its client's certificate, and does not wait for ever for the head of a request.

    What uvicorn closes is a connection on which nothing comes; here it is also one on which a head never ends.
    """

    turns: FairTurns
    """Shared with the other connections of the listener."""
    _head_timer: asyncio.TimerHandle | None = None
    _unread = b""
    """What has come and waits for its turn."""
    _reading: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        session = transport.get_extra_info("ssl_object")
        certificate = None if session is None else session.getpeercert(binary_form=True)
        if certificate is not None:
            self.app: Any = _with_certificate(self.app, certificate)
        self._follow_head()

    def data_received(self, data: bytes) -> None:
        if self._reading is not None:
            self._unread += data
        elif data.count(b"\n") <= _LINES_AT_ONCE:
            self._read(data)
        else:
            self._unread = data
            self.transport.pause_reading()
            self._reading = self.loop.create_task(self._read_in_turns())

    def _read(self, data: bytes) -> None:
        super().data_received(data)
        self._follow_head()

    async def _read_in_turns(self) -> None:
        owner = self.client[0] if self.client else ""
        while self._unread and not self.transport.is_closing():
            async with self.turns.turn(owner) as turn:
                began = perf_counter()
                self._read(self._next_lines())
                turn.held_since(began)
        self._reading = None
        if not self.transport.is_closing() and not self.flow.read_paused:
            self.transport.resume_reading()

    def _next_lines(self) -> bytes:
        end = 0
        for _ in range(_LINES_AT_ONCE):
            end = self._unread.find(b"\n", end) + 1
            if not end:
                end = len(self._unread)
                break
        lines, self._unread = self._unread[:end], self._unread[end:]
        return lines

    def on_response_complete(self) -> None:
        self._stop_head_timer()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._unread = b""
        if self._reading is not None:
            self._reading.cancel()
        super().connection_lost(exc)

    def _follow_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_head_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(_IDLE_S, self._close)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


def _with_certificate(app: Any, certificate: bytes) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("extensions", {})["tls"] = {"client_cert_der": certificate}
        await app(scope, receive, send)

    return serve


def bind(listener: Listener) -> socket.socket:
    """A socket that listens. Raises UnusableRestSetting."""
    try:
        return _without_delay(_opened(listener))
    except OSError as error:
        raise UnusableRestSetting(f"listeners: {listener} can't be opened: {error.strerror or error}") from None


def _opened(listener: Listener) -> socket.socket:
    if not listener.host:
        return _everywhere(listener.port)
    found = socket.getaddrinfo(listener.host, listener.port, type=socket.SOCK_STREAM)
    # As Java does: the first address, of IPv4 if there is one.
    family, _, _, _, address = min(found, key=lambda each: each[0] != socket.AF_INET)
    return socket.create_server(address, family=family, backlog=_BACKLOG)


def _without_delay(listening: socket.socket) -> socket.socket:
    """Connections take it over. An answer is written in two pieces, and the second one would wait some 40 ms for the
    peer's word about the first; asyncio sees to it only where a socket says by number that it is TCP's."""
    listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listening


def _everywhere(port: int) -> socket.socket:
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)
    return socket.create_server(("", port), backlog=_BACKLOG)
