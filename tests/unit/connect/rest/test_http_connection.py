"""Bytes of a connection reach the HTTP parser immediately, or in turns if the connection uses much time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from barnabas.connect.rest.http_connection import HttpConnection
from barnabas.connect.rest.loop_sharing import Account, LoopSharing

HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_paused = self.is_closed = False

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return {"peername": ("10.0.0.1", 5), "sockname": ("127.0.0.1", 8083)}.get(name, default)

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        self.is_paused = True

    def resume_reading(self) -> None:
        self.is_paused = False

    def is_closing(self) -> bool:
        return self.is_closed

    def close(self) -> None:
        self.is_closed = True


class Server:
    """A server whose application reads the whole body and answers with its length."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            http=HttpConnection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
        )
        self._config.load()
        self._state = ServerState()
        self._now_s = 1000.0
        self.loop_sharing = LoopSharing(lambda: self._now_s, lambda: 0.0, self._wait)

    def _wait(self, seconds: float, then: Callable[[], None]) -> None:
        self._now_s += max(seconds, 0.0)
        asyncio.get_running_loop().call_soon(then)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        self.bodies.append(body)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"%d" % len(body)})

    def connect(self) -> tuple[HttpConnection, Transport]:
        connection = HttpConnection(self._config, self._state, {}, loop_sharing=self.loop_sharing)
        transport = Transport()
        connection.connection_made(transport)
        return connection, transport


def chunked(content: bytes) -> bytes:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in content)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


async def until_answered(transport: Transport) -> int:
    """Wait for the answer, and return the number of loop turns."""
    for number in range(100_000):
        if transport.is_closed:
            return number
        await asyncio.sleep(0)
    raise AssertionError("no answer arrived")


@pytest.fixture
def pieces(monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """The bytes passed to the parser."""
    given: list[bytes] = []
    original = H11Protocol.data_received

    def data_received(connection: H11Protocol, data: bytes) -> None:
        given.append(data)
        original(connection, data)

    monkeypatch.setattr(H11Protocol, "data_received", data_received)
    return given


def busy(server: Server) -> None:
    """Use up the share of new connections while another connection is active."""
    server.loop_sharing.charge(Account(), 0.001)
    server.loop_sharing.charge(server.loop_sharing.newcomers, 0.1)
    server.loop_sharing.charge(server.loop_sharing.newcomers, 0.001)


def test_a_body_in_chunks_of_one_byte_is_parsed_in_turns(pieces: list[bytes]) -> None:
    content = bytes(range(256)) * 4

    async def scenario() -> None:
        server = Server()
        busy(server)
        connection, transport = server.connect()
        connection.data_received(chunked(content))
        assert (pieces, transport.is_paused) == ([], True)
        await until_answered(transport)
        assert server.bodies == [content]
        assert max(piece.count(b"\n") for piece in pieces) <= 100
        assert len(pieces) >= 2 * len(content) // 100

    asyncio.run(scenario())


def test_a_usual_request_is_parsed_immediately() -> None:
    async def scenario() -> None:
        server = Server()
        connection, transport = server.connect()
        connection.data_received(HEAD + b"Content-Length: 300000\r\n\r\n" + b"x" * 300_000)
        await until_answered(transport)
        assert server.bodies == [b"x" * 300_000]

    asyncio.run(scenario())


def test_data_received_while_lines_wait_is_parsed_after_them() -> None:
    async def scenario() -> None:
        server = Server()
        busy(server)
        connection, transport = server.connect()
        whole = chunked(b"abcdefgh" * 100)
        connection.data_received(whole[:3000])
        await asyncio.sleep(0)
        connection.data_received(whole[3000:])
        await until_answered(transport)
        assert server.bodies == [b"abcdefgh" * 100]

    asyncio.run(scenario())


def test_lines_of_a_disconnected_client_are_not_parsed(pieces: list[bytes]) -> None:
    async def scenario() -> None:
        server = Server()
        busy(server)
        connection, gone = server.connect()
        connection.data_received(chunked(b"a" * 1000))
        gone.is_closed = True
        connection.connection_lost(None)
        other, transport = server.connect()
        other.data_received(chunked(b"b" * 1000))
        await until_answered(transport)
        assert server.bodies == [b"b" * 1000]
        assert not any(b"\na\r" in piece for piece in pieces)

    asyncio.run(scenario())


def test_pipelined_requests_are_answered_in_order_with_backpressure() -> None:
    async def scenario() -> None:
        server = Server()
        connection, transport = server.connect()
        sent = b"".join(
            b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n%05d" % number for number in range(2000)
        )
        connection.data_received(sent)
        ahead = [transport.is_paused]
        for _ in range(100_000):
            await asyncio.sleep(0)
            if len(server.bodies) == 2000:
                break
            if len(server.bodies) < 1000:
                ahead.append(transport.is_paused)
        assert all(ahead)
        assert server.bodies == [b"%05d" % number for number in range(2000)]
        for _ in range(5):
            await asyncio.sleep(0)
        assert not transport.is_paused

    asyncio.run(scenario())


def test_a_connection_has_its_own_account_after_its_first_answer() -> None:
    async def scenario() -> None:
        server = Server()
        connection, _ = server.connect()
        assert connection.account is server.loop_sharing.newcomers
        connection.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(5):
            await asyncio.sleep(0)
        assert connection.account is not server.loop_sharing.newcomers
        busy(server)
        connection.data_received(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for _ in range(3):
            await asyncio.sleep(0)
        assert len(server.bodies) == 2

    asyncio.run(scenario())
