"""The body of a request: read once, within bounds of size and time, and there again for who is mounted."""

from __future__ import annotations

import asyncio

from starlette.types import Message, Receive

from barnabas.connect.errors import ConnectError
from barnabas.connect.rest.answers import Refused

__all__ = ["RequestBody"]

_BYTES_MAX = 16 * 1024 * 1024
_TIMEOUT_S = 30.0


class _Incomplete(ConnectError):
    http_status = 408


class RequestBody:
    """``content_length`` is what the header says, so that too much is not read at all."""

    def __init__(self, receive: Receive, content_length: str | None = None) -> None:
        self._receive = receive
        self._is_too_long = content_length is not None and content_length.isdigit() and int(content_length) > _BYTES_MAX
        self._body: bytes | None = None
        self._is_replayed = False

    async def read(self) -> bytes:
        """Raises Refused for one that is too long, and a ConnectError for one that does not come."""
        if self._body is None:
            if self._is_too_long:
                raise Refused(413)
            try:
                self._body = await asyncio.wait_for(self._read(), _TIMEOUT_S)
            except TimeoutError:
                raise _Incomplete(f"The body of the request was not complete within {_TIMEOUT_S:g} s.") from None
        return self._body

    async def _read(self) -> bytes:
        data = bytearray()
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise _Incomplete("The connection ended before the body of the request.")
            data += message.get("body", b"")
            if len(data) > _BYTES_MAX:
                raise Refused(413)
            if not message.get("more_body", False):
                return bytes(data)

    async def receive(self) -> Message:
        """As the server's own, from the beginning."""
        if self._body is None or self._is_replayed:
            return await self._receive()
        self._is_replayed = True
        return {"type": "http.request", "body": self._body, "more_body": False}
