"""Programs of a real Kafka that share one JVM for each version of Kafka in a run of pytest (``ProgramHost.java``).

A JVM of its own costs a tool some seconds of processor time and a node ten; in a warm JVM they need a tenth. During a
run of pytest, ``run_class``, ``run_source`` and ``KafkaNode`` use the shared one, unless they have to kill the process,
or to give it options. Benchmarks and scripts that record answers run outside pytest, with processes as distributed.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import NoReturn

__all__ = ["JavaProgram", "JavaPrograms", "programs_of", "shared_programs"]

_SOURCE = Path(__file__).parent / "java" / "ProgramHost.java"
JVM = (
    "-Xmx2g",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
    "-Xshare:auto",
    # Standard output is for answers.
    "-Xlog:disable",
    "-Xlog:all=warning:stderr",
)
CommandOf = Callable[[str], list[str]]


class JavaProgram:
    """A program that runs in a shared JVM, with the methods of a ``subprocess.Popen`` that make sense there."""

    def __init__(self, host: JavaPrograms, name: str, status: Future[int]) -> None:
        self.pid = host.pid
        self._host = host
        self._name = name
        self._status = status

    def poll(self) -> int | None:
        return self._status.result() if self._status.done() else None

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit status. Raise TimeoutExpired; the program continues."""
        try:
            return self._status.result(timeout)
        except TimeoutError:
            raise subprocess.TimeoutExpired(self._name, timeout or 0) from None

    def terminate(self) -> None:
        """Do what SIGTERM does."""
        self._host.send({"stop": self._name})

    def kill(self) -> NoReturn:
        raise AssertionError("a program that shares its JVM can't be killed: give the node own_process=True")


class JavaPrograms:
    """One JVM. It starts with its first program, and ends with this process however that ends."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = command
        self._folder = tempfile.TemporaryDirectory(prefix="java-programs-")
        self._names = count()
        self._lock = threading.Lock()
        self._running: dict[str, Future[int]] = {}
        log = Path(self._folder.name, "log")
        with log.open("wb") as file:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=file, text=True, bufsize=1
            )
        self._log = log
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def start(
        self, main: str, arguments: Sequence[str], *, stdin: Path, out: Path, err: Path, properties: Mapping[str, str]
    ) -> JavaProgram:
        """Start the class, or the source file, with files as its streams. ``properties`` are lists of the JVM, to which
        the values are added."""
        status: Future[int] = Future()
        with self._lock:
            name = str(next(self._names))
            self._running[name] = status
        self.send(
            {
                "id": name, "main": main, "arguments": list(arguments), "properties": dict(properties),
                "stdin": str(stdin), "out": str(out), "err": str(err),
            }
        )  # fmt: skip
        return JavaProgram(self, name, status)

    def run(
        self, main: str, arguments: Sequence[str], *, stdin: str, properties: Mapping[str, str], timeout_s: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a program to its end. Raise TimeoutExpired, as ``subprocess.run`` does."""
        with tempfile.TemporaryDirectory(dir=self._folder.name) as folder:
            given, out, err = (Path(folder, name) for name in ("in", "out", "err"))
            given.write_text(stdin)
            program = self.start(main, arguments, stdin=given, out=out, err=err, properties=properties)
            try:
                status = program.wait(timeout_s)
            except subprocess.TimeoutExpired:
                program.terminate()
                raise subprocess.TimeoutExpired([main, *arguments], timeout_s, out.read_bytes()) from None
            return subprocess.CompletedProcess([main, *arguments], status, out.read_text(), err.read_text())

    def send(self, request: Mapping[str, object]) -> None:
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()

    def close(self) -> None:
        """End the JVM, and whatever still runs in it."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(OSError):
            self._process.stdin.close()
        self._process.wait(30)
        self._reader.join()
        self._process.stdout.close()
        self._folder.cleanup()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            ended = json.loads(line)
            with self._lock:
                status = self._running.pop(ended["id"])
            status.set_result(ended["status"])
        with self._lock:
            left = list(self._running.values())
        for status in left:
            status.set_exception(RuntimeError(f"the JVM ended: {self._log.read_text(errors='replace')[-4000:]}"))


_by_version: dict[str, JavaPrograms] | None = None


def programs_of(version: str, command_of: CommandOf) -> JavaPrograms | None:
    """Return the JVM of a version of Kafka, or None outside ``shared_programs``. ``command_of`` names the command that
    runs a source file in it."""
    if _by_version is None:
        return None
    programs = _by_version.get(version)
    if programs is None or not programs.is_running:
        programs = _by_version[version] = JavaPrograms(command_of(str(_SOURCE)))
    return programs


@contextmanager
def shared_programs() -> Iterator[None]:
    """Share JVMs for the duration of a ``with`` block."""
    global _by_version
    _by_version = {}
    try:
        yield
    finally:
        _close_all()
        _by_version = None


def _close_all() -> None:
    for programs in (_by_version or {}).values():
        programs.close()
    (_by_version or {}).clear()
