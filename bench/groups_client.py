"""Connections of many clients in one event loop: requests are sent at once, and their answers come in order.

The cost of the load must not hide that of a node: a client encodes, sends and decodes, and nothing else.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Coroutine
from itertools import count
from struct import Struct
from typing import Any, TypeVar, cast

import uvloop

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from barnabas.protocol.schema import Message, Request

__all__ = ["Connection", "run_load"]

R = TypeVar("R", bound=Message)
T = TypeVar("T")

_SIZE = Struct(">i")
_CLIENT_ID = "bench"


class _Expected:
    __slots__ = ("answer", "header_version", "response_type", "version")

    def __init__(self, request: Request[Any], key: ApiKey, version: int, answer: asyncio.Future[Any]) -> None:
        self.response_type = request.response_type()
        self.header_version = response_header_version(key, version)
        self.version = version
        self.answer = answer


class Connection(asyncio.Protocol):
    """Answers that nobody waits for any more are dropped."""

    def __init__(self) -> None:
        self._received = bytearray()
        self._expected: deque[_Expected] = deque()
        self._correlation_ids = count(1)
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(cls, port: int) -> Connection:
        _, connection = await asyncio.get_running_loop().create_connection(cls, "127.0.0.1", port)
        return connection

    async def call(self, request: Request[R], version: int) -> R:
        """Raise ConnectionError if the node closes the connection."""
        answer: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._send(request, version, answer)
        return await answer

    def _send(self, request: Request[Any], version: int, answer: asyncio.Future[Any]) -> None:
        key = ApiKey(request.API_KEY)
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=next(self._correlation_ids),
            client_id=_CLIENT_ID,
        )
        frame = header.encode(request_header_version(key, version)) + request.encode(version)
        self._expected.append(_Expected(request, key, version, answer))
        if self._transport is None:
            raise ConnectionError("the connection is closed")
        self._transport.write(_SIZE.pack(len(frame)) + frame)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is not an instance.

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        while self._expected:
            answer = self._expected.popleft().answer
            if not answer.done():
                answer.set_exception(ConnectionError("the node closed the connection"))

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= _SIZE.size:
            end = _SIZE.size + _SIZE.unpack_from(self._received)[0]
            if len(self._received) < end:
                return
            frame = bytes(memoryview(self._received)[_SIZE.size : end])
            del self._received[:end]
            self._take(frame)

    def _take(self, frame: bytes) -> None:
        expected = self._expected.popleft()
        if expected.answer.done():
            return
        _, position = ResponseHeader.read(frame, 0, expected.header_version)
        expected.answer.set_result(expected.response_type.decode(frame, expected.version, position))


def run_load(work: Coroutine[Any, Any, T]) -> T:
    """Run it in a loop of its own."""
    return uvloop.run(work)
