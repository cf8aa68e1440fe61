"""A shell that runs the commands of one page, in a folder, a network and a process tree of its own.

The network is a namespace with its own ``localhost``. So a page runs as printed, on port 9092, beside anything else
that listens on the machine, and reaches no other machine. When the session ends, the kernel ends all of its processes.

A program that stays in the foreground (``barnabas node``) runs until ``^C`` or the end of the page, as it would in a
terminal of its own. Its output is what it has printed when it is ready.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import shutil
import subprocess
import sys
import time
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Self

from barnabas.spark.connector_jars import cache_directory
from tests.docs.console_output import PAGE_FOLDER

__all__ = ["Session", "missing_for_sessions"]

PROJECT = Path(__file__).resolve().parents[2]

# Activates the loopback interface of the new network (SIOCSIFFLAGS with IFF_UP and IFF_RUNNING), and becomes the shell.
_ENTER = """
import fcntl, os, socket, struct
with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
    fcntl.ioctl(control, 0x8914, struct.pack("16sh22x", b"lo", 0x41))
os.execvp("bash", ["bash", "--norc", "--noprofile"])
"""
_ISOLATED = ("unshare", "--net", "--pid", "--fork", "--kill-child")
_FOREGROUND = re.compile(
    r"^(?:\w+=\S* )*(?:\.venv/bin/)?barnabas (?:node(?! .*--help)|worker|cluster up)\b(?P<rest>[^|;>]*)$"
)
_READY = re.compile(r" is ready in |Ctrl-C stops all of them|is listening on ")
_PATIENCE_S = 100.0
_KEPT = ("JAVA_HOME", "LANG", "BARNABAS_PEER_LIB")


@cache
def _isolation() -> tuple[list[str], str]:
    """Return the beginning of the shell's command line, and why it can't work here, or an empty text."""
    if shutil.which("unshare") is None:
        return [], "needs `unshare` of util-linux"
    printed = ""
    for options in (["--map-root-user"], []):  # Any user may have a user namespace, or only root may have the others.
        command = [*_ISOLATED, *options, sys.executable, "-c", _ENTER]
        tried = subprocess.run(command, input=b"", capture_output=True, check=False)
        if tried.returncode == 0:
            return command, ""
        printed = tried.stderr.decode(errors="replace").strip()
    return [], f"needs a network of its own: {printed}"


def missing_for_sessions() -> str:
    """Return why no session can run here, or an empty text."""
    return _isolation()[1]


class Session:
    """Use it as a context manager. Commands run in ``folder``, which has the checkout's ``.venv`` and ``docs``."""

    def __init__(self, folder: Path, *, tools: Path | None = None) -> None:
        """``tools`` is a folder that is first on the PATH, before that of this Python."""
        self._folder = folder
        self._control = folder.parent / f"{folder.name}.session"
        path = [*([str(tools)] if tools else []), str(Path(sys.executable).parent), os.environ["PATH"]]
        self._environment = {
            **{name: os.environ[name] for name in _KEPT if name in os.environ},
            "HOME": str(folder / "home"),
            "BARNABAS_CACHE": str(cache_directory(os.environ)),
            "PATH": ":".join(path),
            "PYTHONPATH": str(PROJECT / "src"),
            "COLUMNS": "80",
        }
        self._shell: subprocess.Popen[bytes] | None = None
        self._count = 0
        self._servers: list[tuple[str, Path]] = []
        """The shell's process id and the output of each program in the foreground."""
        self._starting: list[tuple[str, Path]] = []
        """The same of programs in the background that are not ready yet."""

    def __enter__(self) -> Self:
        self._control.mkdir()
        (self._folder / "home").mkdir()
        (self._folder / ".venv").symlink_to(sys.prefix)
        (self._folder / "docs").symlink_to(PROJECT / "docs")
        self._shell = subprocess.Popen(
            _isolation()[0],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._folder,
            env=self._environment,
            start_new_session=True,
        )
        self._evaluate("shopt -s expand_aliases; set -m")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._shell is not None
        self._shell.kill()
        self._shell.communicate()

    def run(self, command: str) -> list[str]:
        """Run a command of the page and return the lines that it printed. Raise TimeoutError."""
        if server := _FOREGROUND.match(command):
            return self._start(command.removesuffix("&").rstrip(), in_background=server["rest"].endswith("&"))
        for pid, output in self._starting:
            self._wait_until_ready(pid, output)
        self._starting.clear()
        self._count += 1
        script, output = self._control / f"{self._count}.sh", self._control / f"{self._count}.out"
        script.write_text(self._outside(command) + "\n")
        self._evaluate(f"source {shlex.quote(str(script))} > {shlex.quote(str(output))} 2>&1 < /dev/null")
        return self._lines(output.read_text(errors="replace"))

    def write(self, name: str, content: str) -> None:
        """Write a file of the page."""
        (self._folder / name).write_text(self._outside(content))

    def interrupt(self) -> list[str]:
        """Send SIGINT to the last program in the foreground; return what it printed since then."""
        pid, output = self._servers.pop()
        before = output.stat().st_size
        self._evaluate(f"kill -INT -- -{pid}; wait {pid}")
        return self._lines(output.read_text(errors="replace")[before:])

    def _start(self, command: str, *, in_background: bool) -> list[str]:
        self._count += 1
        output = self._control / f"{self._count}.out"
        output.touch()  # The shell creates it some time after it has printed the process id.
        quoted = shlex.quote(str(output))
        pid = self._evaluate(f"{command} > {quoted} 2>&1 < /dev/null & printf '%s' $!").strip()
        if in_background:
            self._starting.append((pid, output))
            return []
        self._servers.append((pid, output))
        self._wait_until_ready(pid, output)
        return self._lines(output.read_text(errors="replace"))

    def _wait_until_ready(self, pid: str, output: Path) -> None:
        """Return when the program is ready or has ended."""
        end = time.monotonic() + _PATIENCE_S
        while not _READY.search(output.read_text(errors="replace")):
            if self._evaluate(f"kill -0 {pid} 2>/dev/null || printf ended") == "ended":
                self._servers = [server for server in self._servers if server[0] != pid]
                return
            if time.monotonic() > end:
                raise TimeoutError(f"not ready after {_PATIENCE_S:g} s; it printed:\n{output.read_text()}")
            time.sleep(0.02)

    def _evaluate(self, line: str) -> str:
        """Have the shell execute a line; return what that prints to the shell's own output."""
        assert self._shell is not None
        assert self._shell.stdin is not None
        assert self._shell.stdout is not None
        self._shell.stdin.write(f"{line}\nprintf '\\0'\n".encode())
        self._shell.stdin.flush()
        end = time.monotonic() + _PATIENCE_S
        printed = b""
        while not printed.endswith(b"\0"):
            ready, _, _ = select.select([self._shell.stdout], [], [], max(0.0, end - time.monotonic()))
            if not ready:
                raise TimeoutError(f"still running after {_PATIENCE_S:g} s: {line}")
            received = os.read(self._shell.stdout.fileno(), 65536)
            if not received:
                raise EOFError(f"the shell has ended at: {line}")
            printed += received
        return printed[:-1].decode()

    def _outside(self, text: str) -> str:
        """Return a text of the page with the real name of its folder."""
        return text.replace(f"{PAGE_FOLDER}/", f"{self._folder}/")

    def _lines(self, text: str) -> list[str]:
        """Return the output as a page would show it: with the page's name of the folder, without reports on jobs."""
        lines = [line.rstrip() for line in text.splitlines() if f"{self._control.name}/" not in line]
        return [line.replace(str(self._folder), PAGE_FOLDER) for line in lines]
