"""A barnabas command as a child process in the run's folder: a node, or a worker.

The child has a session of its own: Ctrl-C reaches only this process, which stops the child after its users. The child
receives a signal when this process dies, however it dies, unless the child is to be kept. A child that an earlier run
kept or left behind is used again.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import BinaryIO

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.run_directory import write_durably

__all__ = ["HOST", "ChildProcess", "ProcessRecord", "free_ports", "is_free"]

HOST = "127.0.0.1"
_STOP_TIMEOUT_SECONDS = 20.0
_LOG_BYTES_MAX = 10 * 1024 * 1024
_LOG_LINES_SHOWN = 5
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """What a later run must know about a process that is still running."""

    process_id: int
    """0 after the process was stopped."""
    port: int
    controller_port: int = 0
    """The controller port of a node; 0 for a worker."""
    kept: bool = False
    """The process was left running on purpose. A run that only finds it does not stop it."""


class ChildProcess:
    """``kind`` names the process in messages. ``argument`` is one of its arguments, which no other process has."""

    def __init__(self, kind: str, *, argument: str, record: Path, log: Path, keep: bool) -> None:
        self.kind = kind
        self.log = log
        self._argument = argument
        self._record_path = record
        self._keep = keep
        self._process: subprocess.Popen[bytes] | None = None
        self._record: ProcessRecord | None = None
        self._log_start = 0

    @property
    def record(self) -> ProcessRecord:
        if self._record is None:
            raise PipelineError(f"the {self.kind} is not running")
        return self._record

    @property
    def is_ours(self) -> bool:
        """Whether this run started the process, rather than taking it over."""
        return self._process is not None

    @property
    def is_running_now(self) -> bool:
        return self._record is not None and self.is_running(self._record)

    def former(self) -> ProcessRecord | None:
        """Return the record of an earlier run, whether or not its process still runs."""
        try:
            return ProcessRecord(**json.loads(self._record_path.read_text()))
        except (OSError, ValueError, TypeError):
            return None

    def is_running(self, record: ProcessRecord) -> bool:
        return _is_ours(record.process_id, self._argument)

    def start(self, arguments: Sequence[str], record: ProcessRecord, *, end_by: signal.Signals) -> None:
        """Start the process. It receives the signal ``end_by`` when this process dies; ``record`` has its ports."""
        executable = Path(sys.executable).parent / "barnabas"
        if not executable.exists():
            raise PipelineError(f"the command {executable} is missing: install barnabas there (`make env`).")
        with _log_for_appending(self.log) as log:
            self._log_start = log.tell()
            self._process = subprocess.Popen(
                [str(executable), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.log.parent,
                start_new_session=True,
                preexec_fn=None if self._keep else _end_with_parent(end_by),
            )
        self._remember(replace(record, process_id=self._process.pid))

    def take_over(self, former: ProcessRecord) -> str:
        """Use the process that already runs. Return a line that says so."""
        self._record = former
        return f"using the {self.kind} that an earlier run left running (process {former.process_id})"

    def check_alive(self) -> None:
        """Raise PipelineError, with the last lines of the log, if the process has ended."""
        if self._process is None:
            if self.is_running(self.record):
                return
            raise PipelineError(f"the {self.kind} ended. Start again to resume the run.")
        status = self._process.poll()
        if status is not None:
            words = "\n".join(self.log_tail().strip().splitlines()[-_LOG_LINES_SHOWN:])
            raise PipelineError(f"the {self.kind} ended with status {status}. Its log, {self.log}, ends:\n{words}")

    def await_ready(self, is_ready: Callable[[], bool], *, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not is_ready():
            self.check_alive()
            if time.monotonic() > deadline:
                raise PipelineError(f"the {self.kind} was not ready after {seconds:.0f} s. Its log: {self.log}")
            time.sleep(0.02)

    def log_tail(self) -> str:
        """Return what the process has written since it was started."""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read(1_000_000).decode(errors="replace")

    def leave_up(self) -> None:
        """Leave the process running: neither this run nor a later one stops it."""
        self._remember(replace(self.record, kept=True))

    def stop(self) -> None:
        """Stop the process unless it was left running on purpose. Safe to call at any time."""
        record = self._record
        if record is None or record.kept:
            return
        if self._process is not None:
            _stop_child(self._process)
        else:
            _stop_other(record.process_id, self._argument)
        self._remember(replace(record, process_id=0))  # The next run uses the same ports.
        self._record = None

    def _remember(self, record: ProcessRecord) -> None:
        write_durably(self._record_path, json.dumps(asdict(record)) + "\n")
        self._record = record


def free_ports(count: int, *, without: int | None = None) -> tuple[int, ...]:
    """Return ports that were free a moment ago, none of them ``without``.

    All are held until all are known, so that they differ.
    """
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count + 1)]
        for listener in sockets:
            listener.bind((HOST, 0))
        found = (listener.getsockname()[1] for listener in sockets)
        return tuple(port for port in found if port != without)[:count]


def is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except OSError:
            return False
        return True


def _log_for_appending(path: Path) -> BinaryIO:
    if path.exists() and path.stat().st_size > _LOG_BYTES_MAX:
        os.replace(path, path.with_suffix(".log.1"))
    return path.open("ab")


def _is_ours(process_id: int, argument: str) -> bool:
    """Check the command line, because the system assigns process ids again."""
    return argument in _arguments(process_id)


def _arguments(process_id: int) -> list[str]:
    """Return the arguments of the process; empty if it does not exist, or is dead and not yet reaped."""
    if Path("/proc/self/cmdline").exists():
        try:
            return Path(f"/proc/{process_id}/cmdline").read_bytes().decode(errors="replace").split("\0")
        except OSError:
            return []
    command = ["ps", "-ww", "-o", "args=", "-p", str(process_id)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    first, *overrides = [argument.strip() for argument in answer.split("--override")]
    return [*overrides, *(f"/{part}" for part in first.split(" /"))]


def _stop_child(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(timeout=_STOP_TIMEOUT_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _stop_other(process_id: int, argument: str) -> None:
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process_id, number)
        deadline = time.monotonic() + _STOP_TIMEOUT_SECONDS
        while time.monotonic() < deadline:
            if not _is_ours(process_id, argument):
                return
            time.sleep(0.1)


def _end_with_parent(number: signal.Signals) -> Callable[[], None] | None:
    """Return a function that the child calls before it becomes the command.

    Linux then sends the child the signal when this process dies.
    """
    if not sys.platform.startswith("linux"):
        return None
    prctl = ctypes.CDLL(None).prctl  # Loaded here: between fork and exec there must be no imports.

    def request_signal() -> None:
        prctl(_PR_SET_PDEATHSIG, number)

    return request_signal
