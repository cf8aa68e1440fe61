"""Our own node as a process of its own, started as a user starts it."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.peers import free_ports

__all__ = ["BarnabasNode", "running_barnabas"]


class BarnabasNode:
    """A combined node on ports of its own, in a folder of its own; ``stop`` and ``start`` make a restart.

    ``settings`` are given as ``--override``. Without ``server.properties`` the node formats its folder itself.
    """

    def __init__(
        self, folder: Path, *, settings: Mapping[str, str] | None = None, properties: Path | None = None
    ) -> None:
        self.folder = folder
        self.port, self.controller_port = free_ports(2)
        self.log = folder / "node.log"
        self._properties = properties
        self._settings = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port},CONTROLLER://127.0.0.1:{self.controller_port}",
            "log.dirs": str(folder / "data"),
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "4",
            **(settings or {}),
        }
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    def command(self) -> list[str]:
        overrides = [part for key, value in self._settings.items() for part in ("--override", f"{key}={value}")]
        file = [str(self._properties)] if self._properties else []
        return [str(Path(sys.executable).parent / "barnabas"), "node", *file, *overrides]

    def start(self, *, timeout_s: float = 20) -> None:
        """Returns when the node accepts connections on its broker listener."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder
            )
        deadline = time.monotonic() + timeout_s
        while not self._accepts():
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"the node was not up after {timeout_s} s:\n{self.printed()[-4000:]}")
            time.sleep(0.02)

    def _accepts(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def printed(self) -> str:
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def stop(self, *, timeout_s: float = 20) -> int:
        """SIGTERM, and its exit status. A node that does not end by itself is a failure."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the node did not end after SIGTERM:\n{self.printed()[-4000:]}") from None

    def kill(self) -> None:
        """SIGKILL: nothing is flushed or said goodbye to."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


@contextmanager
def running_barnabas(folder: Path, *, settings: Mapping[str, str] | None = None) -> Iterator[BarnabasNode]:
    """Our node for the length of a ``with`` block."""
    node = BarnabasNode(folder, settings=settings)
    node.start()
    try:
        yield node
    finally:
        node.stop()
