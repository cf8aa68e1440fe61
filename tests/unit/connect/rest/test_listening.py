"""How the bytes of a connection reach the HTTP parser: at once, or in turns when they have many lines."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from barnabas.connect.rest import listening
from barnabas.connect.rest.listening import _Connection
from barnabas.network.fair_work import FairTurns

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
    """The application takes the whole body, and says how long it was."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self._config = uvicorn.Config(
            self._answer,
            interface="asgi3",
            http=_Connection,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
        )
        self._config.load()
        self._state = ServerState()
        self._turns = FairTurns()

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

    def connect(self) -> tuple[_Connection, Transport]:
        connection, transport = _Connection(self._config, self._state, {}), Transport()
        connection.turns = self._turns
        connection.connection_made(transport)
        return connection, transport


def chunked(content: bytes) -> bytes:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in content)
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


@pytest.fixture(autouse=True)
def without_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("barnabas.network.fair_work._PAUSE_S_MAX", 1e-9)


async def until_answered(transport: Transport) -> int:
    """How many turns of the loop went by."""
    for number in range(100_000):
        if transport.is_closed:
            return number
        await asyncio.sleep(0)
    raise AssertionError("there is no answer")


def test_a_body_in_chunks_of_one_byte_is_read_in_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    content = bytes(range(256)) * 4
    read: list[int] = []
    original = listening._Connection._read
    monkeypatch.setattr(
        listening._Connection, "_read", lambda self, data: (read.append(data.count(b"\n")), original(self, data))[1]
    )

    async def story() -> None:
        server = Server()
        connection, transport = server.connect()
        connection.data_received(chunked(content))
        assert (read, transport.is_paused) == ([], True)
        assert await until_answered(transport) >= len(read)
        assert server.bodies == [content]
        assert max(read) <= 100
        assert len(read) >= 2 * len(content) // 100

    asyncio.run(story())


def test_a_usual_request_is_read_at_once() -> None:
    async def story() -> None:
        server = Server()
        connection, transport = server.connect()
        connection.data_received(HEAD + b"Content-Length: 300000\r\n\r\n" + b"x" * 300_000)
        await until_answered(transport)
        assert server.bodies == [b"x" * 300_000]

    asyncio.run(story())


def test_what_comes_while_lines_wait_is_read_behind_them() -> None:
    async def story() -> None:
        server = Server()
        connection, transport = server.connect()
        whole = chunked(b"abcdefgh" * 100)
        connection.data_received(whole[:3000])
        await asyncio.sleep(0)
        connection.data_received(whole[3000:])
        await until_answered(transport)
        assert server.bodies == [b"abcdefgh" * 100]

    asyncio.run(story())


def test_lines_of_a_client_that_has_gone_are_not_read() -> None:
    async def story() -> None:
        server = Server()
        connection, _ = server.connect()
        connection.data_received(chunked(b"a" * 1000))
        reading = connection._reading
        connection.connection_lost(None)
        assert reading is not None
        await asyncio.gather(reading, return_exceptions=True)
        other, transport = server.connect()
        other.data_received(chunked(b"b" * 1000))
        await until_answered(transport)
        assert b"b" * 1000 in server.bodies

    asyncio.run(story())
