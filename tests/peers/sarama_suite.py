"""sarama's own functional tests, on the brokers of a test instead of those that it starts with Docker.

It knows the addresses of brokers from a Toxiproxy. A service here answers in place of that, and of the command
``docker`` where a test stops a broker and starts it again. Tests that disturb connections need a real Toxiproxy.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from barnabas.testing import Cluster, ClusterNode
from tests.peers import KAFKA_VERSION
from tests.peers.go import Change, Outcomes, go_suite, run_suite

__all__ = ["SaramaSuite"]

_AT_THE_ADDRESSES_OF_THE_PROXIES = Change(
    "functional_test.go", 'fmt.Sprintf("127.0.0.1:%d", 29090+i))', "proxy.ListenAddr)"
)
_DOCKER = f"""#!{sys.executable}
import os, sys, urllib.request
verb, service = sys.argv[-2:]
urllib.request.urlopen(urllib.request.Request(os.environ["TOXIPROXY_ADDR"] + "/" + service + "/" + verb, b""))
"""
_PROXIES = range(1, 6)
_VERBS = {"stop": ClusterNode.stop, "start": ClusterNode.start}


class SaramaSuite:
    """Skip the test without Go."""

    def __init__(self, folder: Path) -> None:
        change = _AT_THE_ADDRESSES_OF_THE_PROXIES
        self._program = go_suite("sarama", "github.com/IBM/sarama", tag="functional", change=change)
        self._folder = folder

    def run(self, cluster: Cluster, tests: str, *, timeout_s: int) -> Outcomes:
        """Run the tests whose names match an expression. The cluster has the brokers 1, 2 and 3."""
        docker = self._folder / "docker"
        docker.write_text(_DOCKER)
        docker.chmod(0o755)
        with _stage(cluster) as url:
            environment = {
                "TOXIPROXY_ADDR": url,
                "KAFKA_VERSION": KAFKA_VERSION,
                "PATH": f"{self._folder}:{os.environ['PATH']}",
            }
            return run_suite(self._program, tests, environment, timeout_s=timeout_s)


@contextmanager
def _stage(cluster: Cluster) -> Iterator[str]:
    """Answer ``GET /proxies/NAME``, ``POST /reset``, and ``POST /kafka-ID/stop`` or ``start``. Yield the address."""
    addresses = [broker.address for broker in cluster.brokers]
    proxies = {f"/proxies/kafka{number}": addresses[number % len(addresses)] for number in _PROXIES}
    changes = {f"/kafka-{broker.node_id}/{verb}": (broker, verb) for broker in cluster.brokers for verb in _VERBS}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            address = proxies[self.path]
            self._answer(200, {"name": self.path.rpartition("/")[2], "listen": address, "upstream": address})

        def do_POST(self) -> None:
            if self.path != "/reset":
                broker, verb = changes[self.path]
                _VERBS[verb](broker)
            self._answer(204)

        def _answer(self, status: int, document: object = None) -> None:
            body = b"" if document is None else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Print nothing."""

    with _served(Handler) as url:
        yield url


@contextmanager
def _served(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()
