"""A broker in a separate process: the common part of ours and Kafka's."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path

from barnabas.testing.ports import HeldPort
from tests.peers.java_programs import JavaProgram

__all__ = ["NodeProcess", "free_ports"]

_PORT_MIN = 10_240
_FIRST_OUTGOING_PORT = 32_768  # The default of Linux.


def free_ports(count: int) -> list[int]:
    """Return ports that were free a moment ago. All are held together, so that they differ. They are below the ports
    that the system assigns to outgoing connections: otherwise any client on the machine could take the port of a node
    that starts or restarts. Parallel test workers have separate ranges.
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
    """A process with its own ports and folder; ``stop`` and ``start`` restart it. ``log_path`` is the file with its
    complete output.

    It holds its two ports as long as the object exists, so that no other process can take one before a start.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._held = HeldPort(), HeldPort()
        for port in self._held:
            port.give_to_server()  # Now and not in ``start``, because tests also run ``command`` themselves.
        self.port, self.controller_port = (port.number for port in self._held)
        self.log_path = folder / "node.log"
        self._settings: dict[str, str] = {}
        self._process: subprocess.Popen[bytes] | JavaProgram | None = None

    def change_settings(self, settings: Mapping[str, str]) -> None:
        """Change the settings before the first start: for settings that name the node's ports."""
        self._settings.update(settings)

    @abstractmethod
    def command(self) -> list[str]:
        """Return the command that starts the node."""

    @abstractmethod
    def is_ready(self, printed: str) -> bool:
        """Return whether it serves; ``printed`` is its output since this start."""

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        assert self._process is not None, "the node is not running"
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Return whether it was started and has not ended since."""
        return self._process is not None and self._process.poll() is None

    def printed(self, since: int = 0) -> str:
        return self.log_path.read_bytes()[since:].decode(errors="replace") if self.log_path.exists() else ""

    def start(self, *, timeout_s: float = 60, on_spawned: Callable[[int], None] | None = None) -> None:
        """Start the node. Return when it serves. ``on_spawned`` receives its process id before it can connect to any
        peer."""
        self.folder.mkdir(parents=True, exist_ok=True)
        printed_before = self.log_path.stat().st_size if self.log_path.exists() else 0
        self._process = self._launched()
        if on_spawned is not None:
            on_spawned(self._process.pid)
        deadline = time.monotonic() + timeout_s
        while not self.is_ready(self.printed(printed_before)):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.end()
                raise AssertionError(f"not up after {timeout_s} s:\n{self.printed(printed_before)[-4000:]}")
            time.sleep(0.02)

    def _launched(self) -> subprocess.Popen[bytes] | JavaProgram:
        with self.log_path.open("ab") as log:
            return subprocess.Popen(
                self.command(), stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, cwd=self.folder
            )

    def stop(self, *, timeout_s: float = 30) -> int:
        """Send SIGTERM and return the exit status. A node that does not end is a failure."""
        if self._process is None:
            return 0
        process, self._process = self._process, None
        process.terminate()
        try:
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            if isinstance(process, subprocess.Popen):
                process.kill()
                process.wait()
            raise AssertionError(f"did not end after SIGTERM:\n{self.printed()[-4000:]}") from None

    def kill(self) -> None:
        """Send SIGKILL: the node flushes nothing and closes no session."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def freeze(self) -> None:
        """Send SIGSTOP, and return when all threads have stopped: the node keeps its connections and sends nothing."""
        os.kill(self.pid, signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def thaw(self) -> None:
        if self.is_running:
            os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        """End the node in the quickest way. What it leaves does not matter."""
        self.kill()
