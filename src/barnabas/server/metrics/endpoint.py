"""Serves Prometheus metrics, /healthz and /readyz over HTTP if ``barnabas.metrics.listener`` names an address.

Names are Kafka's in Prometheus form. The numbers are plain counters kept where the work is done; they are read
when a scraper requests them. The web server and the metrics library are loaded after the node is ready, or before if
its start takes long: an orchestrator then receives /healthz and /readyz while the node reads its logs.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from barnabas.server.node import Node

__all__ = ["MetricsEndpoint"]

log = logging.getLogger(__name__)

_EARLY_S = 1.0
"""Longer than a start that has nothing to recover, so that such a start loads no web server."""


class MetricsEndpoint:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._socket: socket.socket | None = None
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._turn = asyncio.Lock()
        self._early: asyncio.Task[None] | None = None
        self.port = 0

    def bind(self) -> None:
        """Bind the port, before anything else happens. Raise OSError if that fails."""
        endpoint = self._node.config.metrics_endpoint
        if endpoint is None:
            return
        try:
            self._socket = socket.create_server(endpoint, backlog=16)
        except OSError as error:
            reason = f"barnabas.metrics.listener={endpoint[0]}:{endpoint[1]}: {error.strerror or error}"
            raise OSError(error.errno, reason) from error
        self.port = self._socket.getsockname()[1]

    def start_soon(self) -> None:
        """Serve before the node is ready, if that takes long."""
        if self._socket is not None:
            self._early = asyncio.get_running_loop().create_task(self._start_early())

    async def _start_early(self) -> None:
        await asyncio.sleep(_EARLY_S)
        await self.start()

    async def start(self) -> None:
        """Serve, unless this was started before."""
        async with self._turn:
            if self._socket is None or self._server is not None:
                return
            self._server = await asyncio.get_running_loop().run_in_executor(None, self._make_server, self._socket)
            self._thread = threading.Thread(target=self._server.serve_forever, name="metrics", daemon=True)
            self._thread.start()
            log.info("metrics on http://%s:%d/metrics", self._socket.getsockname()[0], self.port)

    async def stop(self) -> None:
        if self._early is not None:
            self._early.cancel()
            await asyncio.gather(self._early, return_exceptions=True)
        if self._server is not None and self._thread is not None:
            await asyncio.get_running_loop().run_in_executor(None, self._server.shutdown)
            self._thread.join()
        if self._socket is not None:
            self._socket.close()

    def _make_server(self, bound: socket.socket) -> object:
        from socketserver import ThreadingMixIn
        from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

        class Quiet(WSGIRequestHandler):
            timeout = 10

            def log_message(self, format: str, *args: object) -> None:
                log.debug(format, *args)

        class Server(ThreadingMixIn, WSGIServer):
            """Serves each client on a thread, so that a silent client does not delay the others."""

            daemon_threads = True
            block_on_close = False

            def handle_error(self, request: object, client_address: object) -> None:
                log.debug("a client of the metrics endpoint disconnected", exc_info=True)

        server = Server(bound.getsockname()[:2], Quiet, bind_and_activate=False)
        server.socket.close()
        server.socket = bound
        server.server_name, server.server_port = bound.getsockname()[:2]
        server.setup_environ()
        server.set_app(self._application())
        return server

    def _application(self) -> Callable[..., Iterable[bytes]]:
        from prometheus_client import CollectorRegistry, make_wsgi_app
        from prometheus_client.gc_collector import GCCollector
        from prometheus_client.process_collector import ProcessCollector

        from barnabas.server.metrics.collector import NodeCollector

        registry = CollectorRegistry()
        registry.register(NodeCollector(self._node))
        ProcessCollector(registry=registry)
        GCCollector(registry=registry)
        metrics = make_wsgi_app(registry)

        def application(environ: dict[str, Any], start_response: Any) -> Iterable[bytes]:
            path = environ.get("PATH_INFO", "/")
            if path == "/metrics" and not self._node.started.is_set():
                return _text(start_response, False, "the node is starting")
            if path == "/metrics":
                answer: Iterable[bytes] = metrics(environ, start_response)
                return answer
            if path == "/healthz":
                healthy = self._node.core.failure is None
                return _text(start_response, healthy, "ok" if healthy else "the metadata log failed")
            if path == "/readyz":
                ready = self._node.is_ready
                return _text(start_response, ready, "ready" if ready else "not ready")
            start_response("404 Not Found", [("Content-Type", "text/plain; charset=utf-8")])
            return [b"There are /metrics, /healthz and /readyz.\n"]

        return application


def _text(start_response: Any, good: bool, text: str) -> Iterable[bytes]:
    start_response("200 OK" if good else "503 Service Unavailable", [("Content-Type", "text/plain; charset=utf-8")])
    return [text.encode() + b"\n"]
