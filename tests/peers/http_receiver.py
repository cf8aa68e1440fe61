"""A web server that takes records: it honours idempotency keys, counts requests, and misbehaves on demand."""

from __future__ import annotations

import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

__all__ = ["LOST_AFTER", "LOST_BEFORE", "HttpReceiver", "ReceivedRequest", "running_receiver"]

LOST_BEFORE, LOST_AFTER = -1, -2
"""Instead of a status: the connection closes without an answer, before or after the records were taken."""


@dataclass(frozen=True)
class ReceivedRequest:
    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def key(self) -> str:
        return self.headers.get("Idempotency-Key", "")


@dataclass
class HttpReceiver:
    url: str = ""
    decide: Callable[[ReceivedRequest], int | tuple[int, str]] = lambda request: 200
    """Return the status, or status and body."""
    requests: list[ReceivedRequest] = field(default_factory=list)
    """All requests, repeated ones too."""
    taken: dict[str, bytes] = field(default_factory=dict)
    """What a server that honours keys has taken, by key."""
    in_flight_max: int = 0
    _in_flight: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def records(self) -> list[Any]:
        """All records that were taken, from bodies that are arrays."""
        return [record for body in list(self.taken.values()) for record in json.loads(body)]

    def handle(self, request: ReceivedRequest) -> tuple[int, str]:
        with self._lock:
            self._in_flight += 1
            self.in_flight_max = max(self.in_flight_max, self._in_flight)
        try:
            decided = self.decide(request)
        finally:
            with self._lock:
                self._in_flight -= 1
        status, text = decided if isinstance(decided, tuple) else (decided, "")
        with self._lock:
            self.requests.append(request)
            if 200 <= status < 300 or status == LOST_AFTER:
                assert self.taken.setdefault(request.key, request.body) == request.body, "one key, two bodies"
        return status, text


@contextmanager
def running_receiver(tls: ssl.SSLContext | None = None) -> Iterator[HttpReceiver]:
    receiver = HttpReceiver()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, text = receiver.handle(ReceivedRequest(self.path, dict(self.headers), body))
            if status < 0:
                self.close_connection = True
                return
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        do_PUT = do_POST

        def log_message(self, *args: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    if tls is not None:
        server.socket = tls.wrap_socket(server.socket, server_side=True)
    receiver.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{server.server_port}/in"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield receiver
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
