"""A node of ours or of Kafka's that is started on damaged directories, many times.

Ours is a process for each start, forked from one that has loaded all modules. Kafka's are hosted by one Java process
(``NodeHost.java``), which is replaced after a node that failed or halted: the first start takes ten times as long as a
later one.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Literal

from tests.peers import require_peer
from tests.storage_faults.faults import without_override
from tests.storage_faults.no_space import NoSpace

__all__ = ["KafkaHost", "Node", "NodeOfKafka", "NodeOfOurs", "OurHost", "Outcome"]

Outcome = Literal["up", "ended", "hang"]
_PROJECT = Path(__file__).resolve().parent.parent.parent
_JAVA = _PROJECT / "tests" / "peers"
_JVM = ("-Xmx768m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


class Node(ABC):
    """``settings`` are all settings of the node; the directory ``data`` is already formatted, or copied."""

    def __init__(self, folder: Path, settings: Mapping[str, str]) -> None:
        self.folder = folder
        self.settings = {**settings, "log.dirs": str(self.data)}
        self.port = int(settings["listeners"].split(",", 1)[0].rpartition(":")[2])
        folder.mkdir(parents=True, exist_ok=True)
        self.properties.write_text("".join(f"{key}={value}\n" for key, value in self.settings.items()))

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @property
    def properties(self) -> Path:
        return self.folder / "server.properties"

    @abstractmethod
    def start(self, *, timeout_s: float) -> Outcome:
        """Start the node. Return when it serves, has ended, or the time is over."""

    @property
    @abstractmethod
    def is_running(self) -> bool:
        """Return whether the node has neither failed nor ended."""

    @abstractmethod
    def printed(self) -> str:
        """Return the output since the last start."""

    @abstractmethod
    def stop(self) -> None:
        """Stop the node cleanly."""

    @abstractmethod
    def kill(self) -> None:
        """Kill the node without time for any action."""

    @abstractmethod
    def end(self) -> None:
        """End the node in any way: its leftovers do not matter."""


class OurHost:
    """The process that forks our nodes; see ``our_host``."""

    def __init__(self, no_space: NoSpace | None = None) -> None:
        self._environment = {**os.environ, **(no_space.environment if no_space else {})}
        self._process: subprocess.Popen[str] | None = None
        self._lock = threading.Lock()

    def start(self, log: Path, properties: Path) -> int:
        """Start a node and return its process id. Several threads may each start one."""
        with self._lock:
            if self._process is None:
                self._process = subprocess.Popen(
                    [*without_override(), sys.executable, "-m", "tests.storage_faults.our_host"],
                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=self._environment, cwd=_PROJECT,
                )  # fmt: skip
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(f"{log} {properties}\n")
            self._process.stdin.flush()
            return int(self._process.stdout.readline())

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class NodeOfOurs(Node):
    def __init__(self, folder: Path, settings: Mapping[str, str], host: OurHost) -> None:
        super().__init__(folder, settings)
        self._host = host
        self._log = folder / "node.log"
        self._since = 0
        self._pid: int | None = None

    def start(self, *, timeout_s: float) -> Outcome:
        self._since = self._log.stat().st_size if self._log.exists() else 0
        self._pid = self._host.start(self._log, self.properties)
        deadline = time.monotonic() + timeout_s
        while " is ready in " not in self.printed():
            if not self.is_running:
                return "ended"
            if time.monotonic() > deadline:
                return "hang"
            time.sleep(0.05)
        return "up"

    @property
    def is_running(self) -> bool:
        if self._pid is None:
            return False
        try:
            os.kill(self._pid, 0)
        except ProcessLookupError:
            self._pid = None
            return False
        return True

    def printed(self) -> str:
        return self._log.read_bytes()[self._since :].decode(errors="replace") if self._log.exists() else ""

    def stop(self) -> None:
        self._signal(signal.SIGTERM)
        deadline = time.monotonic() + 30
        while self.is_running and time.monotonic() < deadline:
            time.sleep(0.05)
        self.kill()

    def kill(self) -> None:
        self._signal(signal.SIGKILL)
        while self.is_running:
            time.sleep(0.01)

    def _signal(self, number: signal.Signals) -> None:
        if self.is_running and self._pid is not None:
            with suppress(ProcessLookupError):
                os.kill(self._pid, number)

    end = kill


class KafkaHost:
    """The Java process. It starts with the first node."""

    def __init__(self, folder: Path, no_space: NoSpace | None = None) -> None:
        self._folder = folder
        self._environment = {**os.environ, **(no_space.environment if no_space else {})}
        self._process: subprocess.Popen[bytes] | None = None
        self.log_path = folder / "host.log"

    def _classes(self) -> str:
        lib = require_peer()
        classes = self._folder / "classes"
        if not classes.exists():
            source = _JAVA / "java" / "NodeHost.java"
            command = ["javac", "-proc:none", "-cp", f"{lib}/*", "-d", str(classes), str(source)]
            subprocess.run(command, check=True, timeout=120)
        return f"{lib}/*:{classes}"

    def send(self, command: str) -> int:
        """Return the position in the log where the answer will be."""
        if self._process is None:
            self._folder.mkdir(parents=True, exist_ok=True)
            log4j = f"-Dlog4j2.configurationFile={_JAVA / 'log4j2.properties'}"
            java = [*without_override(), "java", *_JVM, log4j, "-cp", self._classes(), "NodeHost"]
            with self.log_path.open("ab") as log:
                self._process = subprocess.Popen(
                    java, stdin=subprocess.PIPE, stdout=log, stderr=subprocess.STDOUT, env=self._environment
                )
        since = self.log_path.stat().st_size
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n".encode())
        self._process.stdin.flush()
        return since

    def printed(self, since: int) -> str:
        with self.log_path.open("rb") as file:
            file.seek(since)
            return file.read().decode(errors="replace")

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process = None


class NodeOfKafka(Node):
    def __init__(self, folder: Path, settings: Mapping[str, str], host: KafkaHost) -> None:
        super().__init__(folder, settings)
        self._host = host
        self._name = f"node-{settings['node.id']}"
        self._since: int | None = None
        self._last = ""

    def start(self, *, timeout_s: float) -> Outcome:
        self._since = self._host.send(f"start {self._name} {self.properties}")
        outcome = self._await("@@up", timeout_s)
        if outcome == "up":
            return "up"
        self._last = self.printed()
        return outcome

    def _await(self, word: str, timeout_s: float) -> Outcome:
        deadline = time.monotonic() + timeout_s
        while True:
            printed = self.printed()
            if f"{word} {self._name}" in printed:
                return "up"
            if f"@@failed {self._name}" in printed or "@@ended" in printed or not self._host.is_running:
                return "ended"
            if time.monotonic() > deadline:
                return "hang"
            time.sleep(0.05)

    @property
    def is_running(self) -> bool:
        printed = self.printed()
        return self._since is not None and "@@ended" not in printed and f"@@failed {self._name}" not in printed

    def printed(self) -> str:
        return self._last if self._since is None else self._host.printed(self._since)

    def stop(self) -> None:
        if self._since is None:
            return
        is_sound = self.is_running
        self._last = self.printed()
        if is_sound:
            self._since = self._host.send(f"stop {self._name}")
            is_sound = self._await("@@stopped", 30) == "up" and not self._still_listens()
        if not is_sound:
            self._host.kill()
        self._since = None

    def _still_listens(self) -> bool:
        """Return whether Kafka left a listener behind. Only the end of its process closes it."""
        for listener in self.settings["listeners"].split(","):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", int(listener.rpartition(":")[2]))) == 0:
                    return True
        return False

    def kill(self) -> None:
        if self._since is not None:
            self._last = self.printed()
            self._host.kill()
            self._since = None

    end = stop
