"""uvicorn's HTTP/1.1 on one connection, with additional limits.

HTTP is parsed in Python, line by line: a body in chunks of one byte takes a tenth of a millisecond for each byte, and a
client that pipelines requests may deliver thousands of them in one read of the socket. So received data is parsed in
pieces, and a connection that uses much of the loop's time waits for its turn (``loop_sharing``). Data that can't be
parsed yet stays with the sender.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from barnabas.connect.rest.loop_sharing import Account, LoopSharing

__all__ = ["IDLE_S", "HttpConnection"]

IDLE_S = 30
_LINES_AT_ONCE = 100
"""Lines that are parsed without a break: some milliseconds. A typical request has a tenth of that."""
_BYTES_AT_ONCE = 64 * 1024


class HttpConnection(H11Protocol):
    """A connection that knows its client's certificate, and limits the time for the head of a request.

    uvicorn closes a connection without data; this class also closes one whose head never ends.
    """

    def __init__(
        self, config: Config, state: ServerState, app_state: dict[str, object], *, loop_sharing: LoopSharing
    ) -> None:
        super().__init__(config, state, app_state)
        self.account = loop_sharing.newcomers
        self._loop_sharing = loop_sharing
        self._head_timer: asyncio.TimerHandle | None = None
        self._unread = b""
        """The received bytes that uvicorn has not parsed yet."""
        self._is_parsed_further = False
        """Whether uvicorn has another request in its buffer, and the previous answer is complete."""
        self._is_reading = False
        self._is_waiting = False
        """Whether the connection waits for its turn."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.flow = _Flow(transport, self._go_on)
        session = transport.get_extra_info("ssl_object")
        certificate = None if session is None else session.getpeercert(binary_form=True)
        app: Any = self.app
        if certificate is not None:
            app = _with_certificate(app, certificate)
        self.app = self._charged(app)
        self._follow_head()

    def data_received(self, data: bytes) -> None:
        self._unread = self._unread + data if self._unread else data
        self._go_on()

    def handle_events(self) -> None:
        """uvicorn calls it for received data, and when an answer is complete and the next request may be ready."""
        if self._is_reading:
            super().handle_events()
        else:
            self._is_parsed_further = True
            self.loop.call_soon(self._go_on)

    def take_turn(self) -> bool:
        """Take a turn, for ``loop_sharing.Waiting``."""
        self._is_waiting = False
        if self.transport.is_closing():
            self._forget_unread()
            return False
        self._loop_sharing.charged(self.account, self._read)
        self._is_waiting = self._has_more
        if not self._is_waiting:
            self._let_come()
        return self._is_waiting

    def on_response_complete(self) -> None:
        self._stop_head_timer()
        if self.account is self._loop_sharing.newcomers and not self.transport.is_closing():
            self.account = Account()
        super().on_response_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_head_timer()
        self._forget_unread()
        super().connection_lost(exc)

    @property
    def _has_more(self) -> bool:
        return self._is_parsed_further or (bool(self._unread) and not self.flow.read_paused)

    def _account(self) -> Account:
        return self.account

    def _forget_unread(self) -> None:
        self._unread, self._is_parsed_further = b"", False

    def _go_on(self) -> None:
        """Parse the received data, or wait for a turn."""
        while self._has_more and not self._is_waiting and not self._is_reading:
            if self._loop_sharing.must_wait(self.account):
                self._is_waiting = True
                self._loop_sharing.wait(self)
            elif self.transport.is_closing():
                self._forget_unread()
            else:
                self._loop_sharing.charged(self.account, self._read)
        self._let_come()

    def _let_come(self) -> None:
        """Resume reading the socket, unless unparsed data remains."""
        if self._unread or self._is_waiting or self.flow.read_paused:
            self.transport.pause_reading()
        elif not self.transport.is_closing():
            self.transport.resume_reading()

    def _read(self) -> None:
        self._is_reading = True
        try:
            if self._is_parsed_further:
                self._is_parsed_further = False
                super().handle_events()
            else:
                super().data_received(self._next_piece())
        finally:
            self._is_reading = False
        self._follow_head()

    def _next_piece(self) -> bytes:
        piece = self._unread[:_BYTES_AT_ONCE]
        if piece.count(b"\n") > _LINES_AT_ONCE:
            end = 0
            for _ in range(_LINES_AT_ONCE):
                end = piece.find(b"\n", end) + 1
            piece = piece[:end]
        self._unread = self._unread[len(piece) :]
        return piece

    def _charged(self, app: ASGIApp) -> ASGIApp:
        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            await self._loop_sharing.steps_charged(self._account, app(scope, receive, send))

        return serve

    def _follow_head(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._stop_head_timer()
        elif self._head_timer is None:
            self._head_timer = self.loop.call_later(IDLE_S, self._close)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None

    def _close(self) -> None:
        if not self.transport.is_closing():
            self.transport.close()


class _Flow(FlowControl):
    """uvicorn's view of whether a connection is read; the connection combines it with its turns."""

    def __init__(self, transport: asyncio.Transport, go_on: Callable[[], None]) -> None:
        super().__init__(transport)
        self._go_on = go_on

    def resume_reading(self) -> None:
        if self.read_paused:
            self.read_paused = False
            asyncio.get_running_loop().call_soon(self._go_on)


def _with_certificate(app: Any, certificate: bytes) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("extensions", {})["tls"] = {"client_cert_der": certificate}
        await app(scope, receive, send)

    return serve
