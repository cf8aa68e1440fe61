"""What a comparison of Connect runs: Kafka's worker, ours, a program on PySpark alone, and a broker of Kafka's.

All of them use the same broker, in groups of their own. Each JVM that does the work gets the same heap.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from bench.sides import KAFKA_JVM
from tests.peers import PROJECT, KafkaNode, kafka_command
from tests.peers.barnabas_worker import BarnabasWorker
from tests.peers.connect_worker import ConnectWorker, worker_settings

__all__ = [
    "CONNECT_SIDES",
    "PLAIN_SIDES",
    "PlainSpark",
    "Worker",
    "cpu_of_tree",
    "is_all_running",
    "make_worker",
    "memory_of_tree",
    "request",
    "running_broker",
    "wait_for",
]

PLAIN_SIDES = ("spark", "tuned")
"""PySpark with its own settings, and with those of a worker."""
CONNECT_SIDES = ("kafka", *PLAIN_SIDES, "barnabas")
"""Kafka's worker, PySpark without one, ours."""
HEAP = "2g"


class _KafkaWorker(ConnectWorker):
    """With the options of Kafka's own start script."""

    def command(self) -> list[str]:
        name = "org.apache.kafka.connect.cli.ConnectDistributed"
        return kafka_command(name, str(self.folder / "worker.properties"), jvm=("-Xms256m", f"-Xmx{HEAP}", *KAFKA_JVM))


Worker = ConnectWorker | BarnabasWorker


@contextmanager
def running_broker(folder: Path) -> Iterator[KafkaNode]:
    node = KafkaNode(
        folder,
        settings={"log.segment.bytes": "1073741824", "auto.create.topics.enable": "false"},
        jvm=("-Xms1g", "-Xmx1g", *KAFKA_JVM),
    )
    node.start()
    try:
        yield node
    finally:
        node.kill()


def make_worker(
    side: str, folder: Path, bootstrap: str, group: str, settings: Mapping[str, str] | None = None
) -> Worker:
    """Not started."""
    given = {**worker_settings(bootstrap, group), **(settings or {})}
    if side == "kafka":
        return _KafkaWorker(folder, given)
    return BarnabasWorker(folder, {**given, "barnabas.connect.spark.conf.spark.driver.memory": HEAP})


def request(url: str, method: str, path: str, body: object = None, *, timeout_s: float = 120) -> Any:
    """The JSON of an answer. What is refused because of a rebalance (409) is asked again, as every client has to."""
    data = None if body is None else json.dumps(body).encode()
    headers = {} if body is None else {"Content-Type": "application/json"}
    deadline = time.monotonic() + timeout_s
    while True:
        asked = urllib.request.Request(url + path, data=data, method=method, headers=headers)
        try:
            with urllib.request.urlopen(asked, timeout=timeout_s) as response:
                answer = response.read()
            return json.loads(answer) if answer else None
        except urllib.error.HTTPError as error:
            text = error.read().decode(errors="replace")
            if error.code != 409 or time.monotonic() > deadline:
                raise AssertionError(f"{method} {path}: {error.code} {text}") from None
            time.sleep(0.05)


def is_all_running(url: str, connectors: Sequence[str], worker_id: str | None = None) -> bool:
    """Whether each of them runs with a task, all of it on that worker if one is named."""
    for name in connectors:
        try:
            status = request(url, "GET", f"/connectors/{name}/status")
        except AssertionError:
            return False  # There is none yet.
        everything = [status["connector"], *status["tasks"]]
        if not status["tasks"] or any(each["state"] != "RUNNING" for each in everything):
            return False
        if worker_id is not None and any(each["worker_id"] != worker_id for each in everything):
            return False
    return True


def wait_for(condition: Callable[[], bool], what: str, *, timeout_s: float, pause_s: float = 0.02) -> None:
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {timeout_s:g} s")
        time.sleep(pause_s)


def cpu_of_tree(pid: int) -> float:
    """Return the CPU seconds of a process and its descendants: our worker has a JVM. An ended process counts with
    its parent."""
    return sum(_cpu_ticks(each) for each in _tree(pid)) / os.sysconf("SC_CLK_TCK")


def memory_of_tree(pid: int) -> float:
    """Return the memory of a process and its descendants in MiB. Pages that several of them have count once."""
    return sum(_memory_kib(process) for process in _tree(pid)) / 1024


def _memory_kib(pid: int) -> int:
    with suppress(FileNotFoundError, ProcessLookupError):
        return int(Path(f"/proc/{pid}/smaps_rollup").read_text().partition("Pss:")[2].split()[0])
    return 0


def _cpu_ticks(pid: int) -> int:
    """Its own and those of its children that have ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return 0
    return sum(map(int, fields[11:15]))


def _tree(pid: int) -> list[int]:
    found: list[int] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(FileNotFoundError, ProcessLookupError):
                found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return [pid, *(each for child in found for each in _tree(child))]


class PlainSpark:
    """``bench.connect_plain`` as a process, or another program of its kind."""

    def __init__(self, folder: Path, side: str, module: str = "bench.connect_plain") -> None:
        folder.mkdir(parents=True)
        self._log = (folder / "plain.log").open("wb")
        command = [sys.executable, "-m", module, str(folder), HEAP, side]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._log, text=True, cwd=PROJECT
        )
        self._expect("ready")

    @property
    def pid(self) -> int:
        return self._process.pid

    def begin(self, job: Mapping[str, str]) -> None:
        """Returns when its query has started."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        self._expect("started")

    def wait(self) -> None:
        """Until it has done all that there is."""
        self._expect("done")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            self._log.close()

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line != word:
            self._process.kill()
            self._process.wait()
            raise AssertionError(f"plain PySpark said {line!r} instead of {word}: {Path(self._log.name).read_text()}")
