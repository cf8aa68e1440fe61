"""A barnabas node as a child process, with its data in the run's folder.

The node is in a session of its own: Ctrl-C reaches us alone, and we stop the node after those who use it. It is told
to end when we die, however we die, unless it shall be kept. A node that a former run kept, or left, is used again.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.run_directory import RunDirectory, write_durably

__all__ = ["LocalNode", "NodeRecord", "free_ports"]

_HOST = "127.0.0.1"
_READY = re.compile(r"\bis ready in\b")
_READY_TIMEOUT_SECONDS = 60.0
_STOP_TIMEOUT_SECONDS = 20.0
_LOG_BYTES_MAX = 10 * 1024 * 1024
_LOG_LINES_SHOWN = 5
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What a later run must know of a node that is still up."""

    process_id: int
    """0 when it was stopped."""
    port: int
    controller_port: int
    kept: bool
    """It was left up on purpose, and will not be stopped by a run that only finds it."""


class LocalNode:
    def __init__(self, directory: RunDirectory, *, port: int | None, keep: bool) -> None:
        self._directory = directory
        self._port = port
        self._keep = keep
        self._process: subprocess.Popen[bytes] | None = None
        self._record: NodeRecord | None = None
        self._log_start = 0

    @property
    def bootstrap_server(self) -> str:
        return f"{_HOST}:{self._running.port}"

    @property
    def process_id(self) -> int:
        return self._running.process_id

    @property
    def is_kept(self) -> bool:
        return self._running.kept

    def start(self) -> str:
        """Start the node, or take over the one that a former run left; says which. Does not wait until it is ready."""
        former = _read_record(self._directory.node_record)
        if former is not None and _is_node(former.process_id, self._directory.node):
            return self._take_over(former)
        ports = self._choose_ports(former)
        executable = Path(sys.executable).parent / "barnabas"
        if not executable.exists():
            raise PipelineError(f"the command {executable} is missing: install barnabas there (`make env`).")
        with _log_for_appending(self._directory.node_log) as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [str(executable), "node", *_overrides(self._directory.node, *ports)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self._directory.path,
                start_new_session=True,
                preexec_fn=None if self._keep else _end_with_parent(),
            )
        self._remember(NodeRecord(self._process.pid, *ports, kept=False))
        return f"starting a node with its data in {self._directory.node}"

    def await_ready(self) -> None:
        if self._process is None:
            return
        deadline = time.monotonic() + _READY_TIMEOUT_SECONDS
        while not _READY.search(self._log_tail()):
            self.check_alive()
            if time.monotonic() > deadline:
                raise PipelineError(
                    f"the node was not ready after {_READY_TIMEOUT_SECONDS:.0f} s. Its log: {self._directory.node_log}"
                )
            time.sleep(0.02)

    def check_alive(self) -> None:
        """Raise, with the node's last words, if it ended on its own."""
        if self._process is None:
            if _is_node(self._running.process_id, self._directory.node):
                return
            raise PipelineError("the node ended. Started again, the run goes on where it was.")
        status = self._process.poll()
        if status is not None:
            words = "\n".join(self._log_tail().strip().splitlines()[-_LOG_LINES_SHOWN:])
            raise PipelineError(
                f"the node ended with status {status}. Its log, {self._directory.node_log}, ends:\n{words}"
            )

    def leave_up(self) -> None:
        """From here on the node is the person's: neither this run nor a later one stops it."""
        self._remember(replace(self._running, kept=True))

    def stop(self) -> None:
        """End the node unless it was left up on purpose; safe to call at any time."""
        record = self._record
        if record is None or record.kept:
            return
        if self._process is not None:
            _stop_child(self._process)
        else:
            _stop_other(record.process_id, self._directory.node)
        self._remember(replace(record, process_id=0))  # Its ports are wanted again the next time.
        self._record = None

    def _remember(self, record: NodeRecord) -> None:
        write_durably(self._directory.node_record, json.dumps(asdict(record)) + "\n")
        self._record = record

    def _take_over(self, former: NodeRecord) -> str:
        if self._port not in (None, former.port):
            raise PipelineError(
                f"a node of an earlier run is still up on port {former.port} (process {former.process_id}), "
                f"so --port {self._port} can't be had. Stop it first: kill {former.process_id}"
            )
        self._record = former
        return f"using the node that an earlier run left up (process {former.process_id})"

    def _choose_ports(self, former: NodeRecord | None) -> tuple[int, int]:
        """The ports of the last time if they are free, so that what was configured for a node goes on working."""
        if self._port is not None and not _is_free(self._port):
            raise PipelineError(
                f"port {self._port} of {_HOST} is taken. Choose another with --port, or leave it away for a free one."
            )
        port, controller_port = free_ports(2)
        if former is not None:
            port = former.port if _is_free(former.port) else port
            controller_port = former.controller_port if _is_free(former.controller_port) else controller_port
        return self._port or port, controller_port

    def _log_tail(self) -> str:
        with self._directory.node_log.open("rb") as log:
            log.seek(self._log_start)
            return log.read(1_000_000).decode(errors="replace")

    @property
    def _running(self) -> NodeRecord:
        if self._record is None:
            raise PipelineError("the node is not running")
        return self._record


def free_ports(count: int) -> tuple[int, ...]:
    """Ports that were free a moment ago. All are held until all are known, so that they differ."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((_HOST, 0))
        return tuple(each.getsockname()[1] for each in sockets)


def _overrides(data: Path, port: int, controller_port: int) -> list[str]:
    settings = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "listeners": f"PLAINTEXT://{_HOST}:{port},CONTROLLER://{_HOST}:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://{_HOST}:{port},CONTROLLER://{_HOST}:{controller_port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "controller.quorum.bootstrap.servers": f"{_HOST}:{controller_port}",
        "log.dirs": str(data),
    }
    return [argument for name, value in settings.items() for argument in ("--override", f"{name}={value}")]


def _log_for_appending(path: Path) -> BinaryIO:
    if path.exists() and path.stat().st_size > _LOG_BYTES_MAX:
        os.replace(path, path.with_suffix(".log.1"))
    return path.open("ab")


def _read_record(path: Path) -> NodeRecord | None:
    try:
        return NodeRecord(**json.loads(path.read_text()))
    except (OSError, ValueError, TypeError):
        return None


def _is_node(process_id: int, data: Path) -> bool:
    """Whether this process is a node on these data. Process ids are given out again, so the command line decides."""
    return f"log.dirs={data}" in _arguments(process_id)


def _arguments(process_id: int) -> list[str]:
    """What the process was started with; empty if it is gone, or dead and not yet reaped."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{process_id}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            return []
    command = ["ps", "-ww", "-o", "args=", "-p", str(process_id)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    return [argument.strip() for argument in answer.split("--override")]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((_HOST, port))
        except OSError:
            return False
        return True


def _stop_child(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _stop_other(process_id: int, data: Path) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, number)
        deadline = time.monotonic() + _STOP_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            if not _is_node(process_id, data):
                return
            time.sleep(0.1)


def _end_with_parent() -> Callable[[], None] | None:
    """For the child to call before it becomes the node: Linux then sends it SIGTERM when this process dies."""
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl  # Loaded here: between fork and exec there must be no imports.

    def ask() -> None:
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

    return ask
