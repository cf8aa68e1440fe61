"""The part of a run with a streams application: its instances, the wait for its results, and the checks.

An instance is a process of Kafka Streams with ``group.protocol=streams`` that is killed from time to time. Each time it
is started again with its folder or, if that is lost, restores its state from the changelog.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import closing
from math import inf
from pathlib import Path

from tests.history.clients import Client
from tests.history.committed_readers import committed_reader, ends
from tests.history.group_clients import committed_offsets
from tests.history.java_clients import compiled
from tests.history.payload import Spoilt
from tests.history.streams_check import Counted, check_streams, decode_counted
from tests.history.transaction_history import Session
from tests.history.violations import Broken, Violation
from tests.peers.fetched import jars_of

__all__ = ["APPLICATION", "MEGABYTES_A_SECOND", "OUTPUT", "StreamsPart"]

APPLICATION = "streamers"
OUTPUT = "streamed"
MEGABYTES_A_SECOND = 0.2
"""What a broker writes at most: results, their changelog, and the state of transactions."""
_INSTANCES = 2
_LIVES_S = (10.0, 40.0)
_RUNNING = b"state: RUNNING"
_LOST_STATES = 0.5
_CLOSES_WITHIN_S = 40.0
_RESULTS_WITHIN_S = 150.0
_READ_WITHIN_S = 60.0
_SETTINGS = {
    "application.id": APPLICATION,
    "group.protocol": "streams",
    "commit.interval.ms": "200",
    "num.stream.threads": "1",
    "replication.factor": "3",
    "producer.transaction.timeout.ms": "10000",
    "default.api.timeout.ms": "30000",
    "request.timeout.ms": "8000",
    "metadata.recovery.rebootstrap.trigger.ms": "5000",
}


class StreamsInstance(Client):
    """A process that is killed from time to time and started again; half of the time its folder is lost, too."""

    def __init__(self, command: list[str], bootstrap: str, topic: str, folder: Path, *, name: str, seed: int) -> None:
        super().__init__(name)
        self._rng = random.Random(f"{seed} {name}")
        self._state, self._log_path = folder / f"{name}-state", folder / f"{name}.log"
        settings = [f"{setting}={value}" for setting, value in _SETTINGS.items()]
        self._command = [*command, bootstrap, str(self._state), name, topic, OUTPUT, *settings]
        self._is_left_alone = threading.Event()
        self._process: subprocess.Popen[bytes] | None = None

    def ask_to_stop(self) -> None:
        super().ask_to_stop()
        if self._process is not None:
            self._process.terminate()

    def let_live(self) -> None:
        """Kill no process from now on."""
        self._is_left_alone.set()

    def _run(self) -> None:
        with self._log_path.open("ab") as log:
            while not self._ends.is_set():
                self.counts["lives of streams instances"] += 1
                begins_at = self._log_path.stat().st_size
                self._process = subprocess.Popen(
                    self._command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
                )
                self._wait(self._process, begins_at)
                self._end(self._process)

    def _wait(self, process: subprocess.Popen[bytes], begins_at: int) -> None:
        """Wait until the process has lived long enough since it had its tasks for the first time."""
        lives_s = self._rng.uniform(*_LIVES_S)
        kills_at_s = inf
        while process.poll() is None and not self._ends.wait(0.5):
            if kills_at_s == inf and _RUNNING in self._log_path.read_bytes()[begins_at:]:
                kills_at_s = time.monotonic() + lives_s
            if time.monotonic() > kills_at_s and not self._is_left_alone.is_set():
                return

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        if self._ends.is_set():
            process.terminate()
            try:
                process.wait(_CLOSES_WITHIN_S)
                return
            except subprocess.TimeoutExpired:
                self.counts["streams instances that did not close"] += 1
        process.kill()
        process.wait()
        if self._rng.random() < _LOST_STATES:
            shutil.rmtree(self._state, ignore_errors=True)


class StreamsPart:
    """``folder``: for the output and the states of the instances."""

    def __init__(self, bootstrap: str, topic: str, partitions: int, folder: Path, *, seed: int) -> None:
        self._bootstrap, self._topic, self._partitions = bootstrap, topic, partitions
        command = compiled("HistoryStreams", jars_of("streams-4.3.1", "pom-streams.xml"), folder)
        self.instances = [
            StreamsInstance(command, bootstrap, topic, folder, name=f"streams-{number}", seed=seed)
            for number in range(_INSTANCES)
        ]
        self.counts: Counter[str] = Counter()

    def settle(self) -> list[Violation]:
        """Wait until the results of everything are committed, while nothing is written to the input."""
        for instance in self.instances:
            instance.let_live()
        began_s = time.monotonic()
        while missing := self._missing():
            if time.monotonic() - began_s > _RESULTS_WITHIN_S:
                what = f"the streams application has not written everything after {_RESULTS_WITHIN_S:.0f} s: {missing}"
                return [Violation(Broken.STUCK, what)]
            time.sleep(0.5)
        self.counts["seconds until the streams application had written everything"] = round(time.monotonic() - began_s)
        return []

    def judge(self, places: Iterable[tuple[int, int]]) -> list[Violation]:
        """Read the results, and compare them with the records of the input."""
        outputs: dict[int, list[Counted]] = {partition: [] for partition in range(self._partitions)}
        found: list[Violation] = []
        for partition, offset, value in self._committed():
            try:
                outputs[partition].append(decode_counted(value))
            except Spoilt as error:
                found.append(Violation(Broken.SPOILT, f"{OUTPUT} {partition}@{offset}: {error}"))
        self.counts["results of the streams application"] = sum(map(len, outputs.values()))
        self.counts["lives of streams tasks"] = len({one.life for output in outputs.values() for one in output})
        return [*found, *check_streams(outputs, places)]

    def _missing(self) -> str:
        """Return what is not committed yet; empty if everything is."""
        input_ends = {
            partition: end for partition, (_, end) in ends(self._bootstrap, self._topic, self._partitions).items()
        }
        committed = committed_offsets(self._bootstrap, APPLICATION, self._topic, self._partitions)
        is_done = len(input_ends) == self._partitions and committed == input_ends
        return "" if is_done else f"the input ends at {input_ends}, committed are {committed}"

    def _committed(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield partition, offset and value of the committed records of the output."""
        missing, given_up_at_s = set(range(self._partitions)), time.monotonic() + _READ_WITHIN_S
        session = Session("the final read", OUTPUT, dict.fromkeys(missing, 0))
        with closing(committed_reader(self._bootstrap, OUTPUT, session)) as consumer:
            while missing and time.monotonic() < given_up_at_s:
                for message in consumer.consume(1000, 0.5):
                    partition, offset = message.partition() or 0, message.offset() or 0
                    if message.error() is None:
                        yield partition, offset, message.value() or b""
                    else:
                        missing.discard(partition)
