"""Start the processes of a local cluster, watch them, and stop them in order.

Each process has its own session, so Ctrl-C reaches only the supervisor, which stops brokers before controllers. On
Linux, the kernel terminates the nodes when the supervisor ends for any reason.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from barnabas.cli.cluster.local_layout import LocalCluster, LocalNode

__all__ = ["NodeFailed", "NodeLog", "NodeProcess", "Supervisor"]

_POLL_S = 0.05
_STOP_TIMEOUT_S = 30.0
_LINES_SHOWN = 8
_READY = re.compile(r" is ready in ")
_ACTIVE = re.compile(r"this node is the active controller, in epoch (\d+)")


class NodeProcess(Protocol):
    """The part of ``subprocess.Popen`` that the supervisor uses."""

    @property
    def pid(self) -> int: ...

    def poll(self) -> int | None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...

    def wait(self) -> int: ...


class NodeFailed(Exception):
    """A node did not become ready. ``lines`` are the last lines of its log."""

    def __init__(self, node: LocalNode, why: str, lines: Sequence[str]) -> None:
        super().__init__(f"{node.name} {why}")
        self.node = node
        self.lines = lines


class NodeLog:
    """The output of a node since this start. The file ``path`` also contains the output of earlier starts."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = path.stat().st_size if path.exists() else 0
        self._begun = b""

    def new_lines(self) -> list[str]:
        """Return complete lines that were not returned before."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._offset)
                found = file.read()
        except FileNotFoundError:
            return []
        self._offset += len(found)
        *lines, self._begun = (self._begun + found).split(b"\n")
        return [line.decode(errors="replace") for line in lines]


@dataclass(slots=True)
class _Running:
    node: LocalNode
    process: NodeProcess
    log: NodeLog
    is_ready: bool = False
    last_lines: list[str] = field(default_factory=list)


class Supervisor:
    """Starts, watches and stops nodes. ``launch`` starts a node with its output in a file.

    ``say`` receives one line for each event. ``wants_end`` returns the number of stop requests of the user: after one
    the supervisor stops in order, after two immediately.
    """

    def __init__(
        self,
        cluster: LocalCluster,
        folder: Path,
        *,
        launch: Callable[[LocalNode, Path], NodeProcess],
        say: Callable[[str], None],
        wants_end: Callable[[], int],
        sleep: Callable[[float], None] = time.sleep,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._cluster = cluster
        self._folder = folder
        self._launch = launch
        self._say = say
        self._wants_end = wants_end
        self._sleep = sleep
        self._monotonic = monotonic
        self._running: dict[str, _Running] = {}

    def log_of(self, node: LocalNode) -> Path:
        return self._folder / node.name / "node.log"

    def pid_of(self, node: LocalNode) -> int:
        return self._running[node.name].process.pid

    def start(self, timeout_s: float) -> bool:
        """Start all nodes. Return True when all are ready, False after a stop request. Raise NodeFailed or OSError."""
        for node in self._cluster.nodes:
            log = NodeLog(self.log_of(node))
            self._running[node.name] = _Running(node, self._launch(node, log.path), log)
        deadline = self._monotonic() + timeout_s
        while not all(running.is_ready for running in self._running.values()):
            if self._wants_end():
                return False
            for running in self._running.values():
                status = running.process.poll()
                self._read(running)
                if status is not None:
                    raise NodeFailed(running.node, f"did not start: it {_ended(status)}", running.last_lines)
                if not running.is_ready and self._monotonic() > deadline:
                    raise NodeFailed(running.node, f"was not ready after {timeout_s:g} s", running.last_lines)
            self._sleep(_POLL_S)
        return True

    def watch(self) -> bool:
        """Return True when the user requests a stop, or False when all nodes have ended."""
        while not self._wants_end():
            for name, running in list(self._running.items()):
                status = running.process.poll()
                self._read(running)
                if status is not None:
                    del self._running[name]
                    self._say(f"{name} {_ended(status)}; its log: {running.log.path}")
            if not self._running:
                return False
            self._sleep(_POLL_S)
        return True

    def stop(self) -> bool:
        """Stop all running nodes. Return whether all ended without an error."""
        is_clean = True
        for stage in self._cluster.stages_of_stop():
            running = [started for node in stage if (started := self._running.get(node.name)) is not None]
            for started in running:
                started.process.terminate()
            deadline = self._monotonic() + _STOP_TIMEOUT_S
            for started in running:
                is_clean &= self._stopped(started, deadline)
        return is_clean

    def kill(self) -> None:
        """Kill all remaining nodes."""
        for running in self._running.values():
            if running.process.poll() is None:
                running.process.kill()
                running.process.wait()
        self._running.clear()

    def _stopped(self, running: _Running, deadline: float) -> bool:
        while (status := running.process.poll()) is None:
            if self._wants_end() > 1 or self._monotonic() > deadline:
                self._say(f"{running.node.name} was killed: it did not stop in time")
                running.process.kill()
                running.process.wait()
                return False
            self._sleep(_POLL_S)
        if status:
            self._say(f"{running.node.name} {_ended(status)}; its log: {running.log.path}")
        return status == 0

    def _read(self, running: _Running) -> None:
        for line in running.log.new_lines():
            running.is_ready = running.is_ready or _READY.search(line) is not None
            running.last_lines = [*running.last_lines[1 - _LINES_SHOWN :], line]
            if active := _ACTIVE.search(line):
                self._say(f"{running.node.name} is the active controller, in epoch {active[1]}")


def _ended(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"
