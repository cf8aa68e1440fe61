"""A broker in a process of its own: what ours and Kafka's have in common."""

from __future__ import annotations

import os
import random
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path

__all__ = ["NodeProcess", "free_ports"]

_PORT_MIN = 10_240
_FIRST_OUTGOING_PORT = 32_768  # Linux' default.


def free_ports(count: int) -> list[int]:
    """Ports that were free a moment ago. All are held at once, so that they differ.

    They lie below those that the system gives to outgoing connections: otherwise any client on the machine may take
    the port of a node that is being started, or started again. Workers that run side by side have ranges of their own.
    """
    ports = _own_ports()
    chosen = random.SystemRandom()
    held: list[socket.socket] = []
    try:
        while len(held) < count:
            probe = socket.socket()
            held.append(probe)
            try:
                probe.bind(("127.0.0.1", chosen.choice(ports)))
            except OSError:
                held.pop().close()
        return [int(probe.getsockname()[1]) for probe in held]
    finally:
        for probe in held:
            probe.close()


def _own_ports() -> range:
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    workers = max(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")), worker + 1)
    ports = range(_PORT_MIN, _first_outgoing_port())
    return ports[len(ports) * worker // workers : len(ports) * (worker + 1) // workers]


def _first_outgoing_port() -> int:
    setting = Path("/proc/sys/net/ipv4/ip_local_port_range")
    first = int(setting.read_text().split()[0]) if setting.exists() else _FIRST_OUTGOING_PORT
    return first if first > 2 * _PORT_MIN else _FIRST_OUTGOING_PORT


class NodeProcess(ABC):
    """A combined node on ports of its own, in a folder of its own; ``stop`` and ``start`` make a restart.

    ``log`` is the file of everything that it printed.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.controller_port = free_ports(2)
        self.log = folder / "node.log"
        self._settings: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | None = None

    def change_settings(self, settings: Mapping[str, str]) -> None:
        """Before the first start: for settings that name the node's ports."""
        self._settings.update(settings)

    @abstractmethod
    def command(self) -> list[str]:
        """What starts it."""

    @abstractmethod
    def is_ready(self, printed: str) -> bool:
        """Whether it serves; ``printed`` is what it said since this start."""

    @property
    def bootstrap(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it was started, and has not ended since, by itself or otherwise."""
        return self._process is not None and self._process.poll() is None

    def printed(self, since: int = 0) -> str:
        return self.log.read_bytes()[since:].decode(errors="replace") if self.log.exists() else ""

    def start(self, *, timeout_s: float = 60, on_spawned: Callable[[int], None] | None = None) -> None:
        """Returns when the node serves. ``on_spawned`` gets its process id before it can have connected to anybody."""
        self.folder.mkdir(parents=True, exist_ok=True)
        printed_before = self.log.stat().st_size if self.log.exists() else 0
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder
            )
        if on_spawned is not None:
            on_spawned(self._process.pid)
        deadline = time.monotonic() + timeout_s
        while not self.is_ready(self.printed(printed_before)):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.kill()
                raise AssertionError(f"not up after {timeout_s} s:\n{self.printed(printed_before)[-4000:]}")
            time.sleep(0.02)

    def stop(self, *, timeout_s: float = 30) -> int:
        """SIGTERM, and its exit status. A node that does not end by itself is a failure."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.terminate()
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"did not end after SIGTERM:\n{self.printed()[-4000:]}") from None

    def kill(self) -> None:
        """SIGKILL: nothing is flushed or said goodbye to."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None
