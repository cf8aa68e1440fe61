"""Runs a node as a child process that ends with this process, however it dies.

The child is in a process group of its own: Ctrl-C in a terminal reaches only this process. When this process dies, the
system sends SIGHUP and SIGCONT to the group if the child is stopped, because the group has lost its parent. So a paused
node also notices that its socket has closed.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import barnabas
from barnabas.testing.errors import NodeFailed
from barnabas.testing.launch import Launch
from barnabas.testing.node_log import NodeLog

__all__ = ["ProcessRunner"]

_ROOT = Path(barnabas.__file__).resolve().parents[1]
_COMMAND_TIMEOUT_S = 10.0


def _child_command(module: str, *arguments: str) -> list[str]:
    """Return the command that runs ``main`` of a module with the interpreter and the code of this process."""
    program = f"import sys; sys.path.insert(0, {str(_ROOT)!r}); from {module} import main; main()"
    return [sys.executable, "-c", program, *arguments]


class ProcessRunner:
    def __init__(self, log: NodeLog, module: str = "barnabas.testing.node_child") -> None:
        """``module`` is that of the process; ``barnabas.testing.node_child`` describes what it does."""
        self._log = log
        self._module = module
        self._name = ""
        self._process: subprocess.Popen[bytes] | None = None
        self._socket: socket.socket | None = None
        self._unread = b""

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def launch(self, launch: Launch) -> None:
        self._name = launch.name
        ours, theirs = socket.socketpair()
        with theirs, self._log.path.open("ab") as output:
            self._process = subprocess.Popen(
                _child_command(self._module, str(theirs.fileno())),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                cwd=launch.folder,
                pass_fds=(theirs.fileno(),),
                process_group=0,
            )
        self._socket = ours
        with suppress(ConnectionError):  # A process that ended already is reported by await_ready.
            ours.sendall(launch.to_json().encode() + b"\n")

    def await_ready(self, timeout_s: float) -> None:
        deadline = time.monotonic() + timeout_s
        try:
            message = self._receive(deadline)
        except TimeoutError:
            self.kill()
            raise NodeFailed(
                f"{self._name} was not ready after {timeout_s:g} s; give it more time with timeout_s=...\n"
                f"{self._log.tail()}"
            ) from None
        if message.get("event") == "ready":
            return
        self._wait(_COMMAND_TIMEOUT_S)
        reason = message.get("reason")
        raise NodeFailed(f"{self._name} can't start: {reason}" if reason else self._end())

    def stop(self, timeout_s: float) -> None:
        """Do nothing if the process has already ended."""
        if not self.is_running:
            self._close()
            return
        assert self._process is not None
        self.resume()
        self._process.terminate()
        is_in_time = self._wait(timeout_s)
        self._close()
        if not is_in_time:
            raise NodeFailed(f"{self._name} did not stop in {timeout_s:g} s and was killed\n{self._log.tail()}")
        if self._process.returncode != 0:
            raise NodeFailed(self._end())

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._close()

    def pause(self) -> None:
        """Return when all threads have stopped. If this process died earlier, the child would miss the SIGCONT."""
        os.kill(self.pid, signal.SIGSTOP)
        if hasattr(os, "waitid"):  # macOS has it from Python 3.13 on.
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        if self.is_running:
            os.kill(self.pid, signal.SIGCONT)

    def set_disk_full(self, *, is_full: bool) -> None:
        if self._socket is None or not self.is_running:
            return
        command = "disk_full" if is_full else "disk_free"
        with suppress(OSError):
            self._socket.sendall(json.dumps({"command": command}).encode() + b"\n")
            self._receive(time.monotonic() + _COMMAND_TIMEOUT_S)

    def _receive(self, deadline: float) -> dict[str, str]:
        """Return the next message, or an empty one if the process has ended. Raise TimeoutError."""
        assert self._socket is not None
        while b"\n" not in self._unread:
            self._socket.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self._socket.recv(65536)
            except ConnectionError:
                data = b""
            if not data:
                return {}
            self._unread += data
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, str] = json.loads(line)
        return message

    def _wait(self, timeout_s: float) -> bool:
        """Wait for the end of the process, and return whether it ended in time. Otherwise it is killed."""
        assert self._process is not None
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
            return False
        return True

    def _end(self) -> str:
        status = None if self._process is None else self._process.returncode
        how = f"was killed by signal {-status}" if status is not None and status < 0 else f"ended with status {status}"
        return f"{self._name} {how}\n{self._log.tail()}"

    def _close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None
