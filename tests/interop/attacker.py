"""An attacker with sockets: many concurrent connections, raw frames, and the latency of other clients."""

from __future__ import annotations

import selectors
import socket
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.headers import RequestHeader, request_header_version
from barnabas.protocol.messages.metadata import MetadataRequest
from barnabas.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
from barnabas.protocol.messages.sasl_handshake import SaslHandshakeRequest
from barnabas.protocol.schema import Message, Request
from tests.interop.raw_client import RawClient

__all__ = [
    "all_closed",
    "authenticate",
    "framed",
    "handshake",
    "in_waves",
    "is_closed",
    "latencies",
    "memory_bytes",
    "opened",
    "read_frame",
    "request",
    "wait_until",
]


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


def request(message: Message, version: int, *, correlation_id: int = 7, client_id: str = "attacker") -> bytes:
    key = ApiKey(message.API_KEY)
    header = RequestHeader(
        request_api_key=key, request_api_version=version, correlation_id=correlation_id, client_id=client_id
    )
    return framed(header.encode(request_header_version(key, version)) + message.encode(version))


def handshake(mechanism: str = "PLAIN", version: int = 1) -> bytes:
    return request(SaslHandshakeRequest(mechanism=mechanism), version)


def authenticate(token: bytes) -> bytes:
    return request(SaslAuthenticateRequest(auth_bytes=token), 2)


def read_frame(connection: socket.socket) -> bytes:
    """Read one frame. Raise ConnectionError if the peer closes instead."""

    def read(size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = connection.recv(size - len(data))
            if not part:
                raise ConnectionError("the peer closed the connection")
            data += part
        return data

    return read(int.from_bytes(read(4), "big"))


@contextmanager
def opened(port: int, count: int) -> Iterator[list[socket.socket]]:
    """Yield this many open connections."""
    held: list[socket.socket] = []
    try:
        held.extend(socket.create_connection(("127.0.0.1", port), 10) for _ in range(count))
        yield held
    finally:
        for connection in held:
            connection.close()


def is_closed(connection: socket.socket) -> bool:
    """Return whether the peer closed the connection; data before the end is read and dropped."""
    connection.setblocking(False)
    try:
        while connection.recv(65536):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def in_waves(port: int, count: int, data: Callable[[int], bytes], *, at_once: int = 250) -> list[bytes]:
    """Open ``count`` connections in waves, send each its data and read until the node closes it. Return what each
    received."""
    received = [b""] * count
    numbers = iter(range(count))
    with selectors.DefaultSelector() as waiting:

        def begin() -> None:
            number = next(numbers, None)
            if number is not None:
                connection = socket.create_connection(("127.0.0.1", port), 20)
                connection.sendall(data(number))
                connection.setblocking(False)
                waiting.register(connection, selectors.EVENT_READ, number)

        for _ in range(at_once):
            begin()
        while waiting.get_map():
            ready = waiting.select(20)
            assert ready, f"{len(waiting.get_map())} connections are not closed"
            for key, _ in ready:
                part = b""
                with suppress(ConnectionError):
                    part = key.fileobj.recv(65536)  # type: ignore[union-attr]
                if part:
                    received[key.data] += part
                else:
                    waiting.unregister(key.fileobj)
                    key.fileobj.close()  # type: ignore[union-attr]
                    begin()
    return received


def latencies(victim: RawClient, count: int, message: Request[Message] | None = None) -> list[float]:
    """Return the durations in seconds of this many requests, sorted."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        victim.call(MetadataRequest(topics=[]) if message is None else message, 12)
        times.append(time.perf_counter() - began)
    return sorted(times)


def memory_bytes(process: Any) -> int:
    status = Path(f"/proc/{process._process.pid}/status").read_text()
    return 1024 * int(status.split("VmRSS:")[1].split()[0])


def wait_until(holds: Callable[[], bool], seconds: float = 20) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it does not happen"
        time.sleep(0.1)


def all_closed(connections: Iterable[socket.socket]) -> bool:
    return all(map(is_closed, connections))
