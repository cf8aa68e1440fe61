"""A client with one connection that sends the given request in the given version: without retries, without state."""

from __future__ import annotations

import socket
from itertools import count
from select import select
from struct import Struct
from typing import Any, TypeVar

from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.headers import RequestHeader, ResponseHeader, request_header_version, response_header_version
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.protocol.schema import Message, Request

R = TypeVar("R", bound=Message)

_SIZE = Struct(">i")


class RawClient:
    def __init__(
        self, port: int, *, client_id: str | None = "raw", timeout_s: float = 20, source_host: str | None = None
    ) -> None:
        source = None if source_host is None else (source_host, 0)
        self._socket = socket.create_connection(("127.0.0.1", port), timeout_s, source_address=source)
        self._client_id = client_id
        self._correlation_ids = count(1)
        self._expected: list[tuple[type[Message], ApiKey, int]] = []

    def send(self, request: Request[Message], version: int) -> None:
        """Send without waiting; ``receive`` returns the answers in order."""
        key = ApiKey(request.API_KEY)
        header = RequestHeader(
            request_api_key=key,
            request_api_version=version,
            correlation_id=next(self._correlation_ids),
            client_id=self._client_id,
        )
        frame = header.encode(request_header_version(key, version)) + request.encode(version)
        self._socket.sendall(_SIZE.pack(len(frame)) + frame)
        self._expected.append((request.response_type(), key, version))

    def receive(self) -> Any:
        response_type, key, version = self._expected.pop(0)
        (size,) = _SIZE.unpack(self._read(4))
        frame = self._read(size)
        _, position = ResponseHeader.read(frame, 0, response_header_version(key, version))
        return response_type.decode(frame, version, position)

    def is_readable(self, timeout_s: float) -> bool:
        """Return whether an answer arrives within this time."""
        return bool(select([self._socket], [], [], timeout_s)[0])

    def call(self, request: Request[R], version: int | None = None) -> R:
        self.send(request, API_TABLE[ApiKey(request.API_KEY)].highest if version is None else version)
        response = self.receive()
        assert isinstance(response, request.response_type())
        return response

    def exchange(self, request: Request[Message], version: int) -> bytes:
        """Send, and return the answer's frame undecoded."""
        self.send(request, version)
        self._expected.pop(0)
        (size,) = _SIZE.unpack(self._read(4))
        return self._read(size)

    def forget_expected(self) -> None:
        """The request is never answered (Produce with acks=0)."""
        self._expected.clear()

    def log_in(self, user: str, password: str) -> None:
        """Log in with SASL/PLAIN. Raise PermissionError if the node refuses; some nodes close the connection
        instead."""
        handshake = self.call(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert handshake.error_code == 0, f"PLAIN is not offered, but {handshake.mechanisms}"
        response = self.call(SaslAuthenticateRequest(auth_bytes=f"\0{user}\0{password}".encode()), 2)
        if response.error_code:
            raise PermissionError(response.error_message)

    def close(self) -> None:
        self._socket.close()

    def _read(self, size: int) -> bytes:
        chunks = bytearray()
        while len(chunks) < size:
            chunk = self._socket.recv(size - len(chunks))
            if not chunk:
                raise ConnectionError("the peer closed the connection")
            chunks += chunk
        return bytes(chunks)
