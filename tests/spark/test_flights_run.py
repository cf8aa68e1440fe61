"""The main job as a user starts it, on its own node, with a part of the flights."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pandas as pd
import pytest

pytestmark = [pytest.mark.spark, pytest.mark.interop, pytest.mark.timeout(900), pytest.mark.usefixtures("java")]

FLIGHTS = 3_000
WITHOUT_DEPARTURE = 22  # Flights without a departure among the first 3,000, as pandas counts them.


class Run:
    """One start of the job. Its output is read concurrently, so that a test can wait for a line."""

    def __init__(self, folder: Path, *arguments: str, keep: bool = False) -> None:
        command = [sys.executable, "-m", "barnabas.pipelines.flights", "--run-directory", str(folder)]
        self._process = subprocess.Popen(
            [*command, *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "KEEP": "1" if keep else "0"},
        )
        self.lines: list[str] = []
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.lines.append(line.rstrip())

    @property
    def output(self) -> str:
        return "\n".join(self.lines)

    def await_line(self, text: str) -> None:
        deadline = time.monotonic() + 240
        while text not in self.output:
            assert self._process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.1)

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def wait(self) -> int:
        status = self._process.wait(400)
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()
        return status


def running(folder: Path) -> list[str]:
    """Return the command lines of processes that work on this folder."""
    answer = subprocess.run(["ps", "-ww", "-eo", "stat=,args="], capture_output=True, text=True, check=True).stdout
    return [line for line in answer.splitlines() if str(folder) in line and not line.startswith("Z")]


def kinds_running(folder: Path) -> list[str]:
    """Return them without the JVM of the worker."""
    lines = running(folder)
    return [kind for kind in ("node", "worker") if any(f"barnabas {kind} " in line for line in lines)]


def all_stopped(folder: Path) -> bool:
    deadline = time.monotonic() + 30
    while running(folder) and time.monotonic() < deadline:
        time.sleep(0.1)
    return not running(folder)


def totals(folder: Path) -> tuple[int, int]:
    table = pd.read_parquet(folder / "delays_by_carrier_hour")
    assert not table.duplicated(["carrier", "time_hour"]).any()
    return int(table["flights"].sum()), int(table["not_departed"].sum())


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "flights-data"
    yield folder
    for kind in ("worker", "node"):
        with suppress(OSError, ValueError):
            process_id = json.loads((folder / f"{kind}.json").read_text())["process_id"]
            if process_id and f"barnabas {kind}" in "\n".join(running(folder)):
                os.kill(process_id, signal.SIGKILL)


def test_a_run_proves_its_totals_and_kept_node_and_worker_serve_the_next_one(folder: Path) -> None:
    first = Run(folder, "--flights", str(FLIGHTS), keep=True)
    assert first.wait() == 0, first.output
    assert totals(folder) == (FLIGHTS, WITHOUT_DEPARTURE)
    assert f"agree with the source: {FLIGHTS:,} flights, {WITHOUT_DEPARTURE} of them without" in first.output
    assert (folder / "delays.png").read_bytes().startswith(b"\x89PNG")
    assert f"{FLIGHTS:,} of the {FLIGHTS:,} records of the topics are in the files, each exactly once" in first.output
    assert f"the database holds the same {FLIGHTS:,} flights" in first.output
    node, worker = (json.loads((folder / f"{kind}.json").read_text()) for kind in ("node", "worker"))
    assert f"bootstrap server 127.0.0.1:{node['port']}" in first.output
    assert f"console http://127.0.0.1:{worker['port']}/console" in first.output
    assert kinds_running(folder) == ["node", "worker"]

    second = Run(folder, "--flights", "1000")
    assert second.wait() == 0, second.output
    assert "using the node that an earlier run left running" in second.output
    assert "using the worker that an earlier run left running" in second.output
    assert "was finished: starting over" in second.output
    assert totals(folder)[0] == 1000
    assert kinds_running(folder) == ["node", "worker"]
    os.kill(worker["process_id"], signal.SIGTERM)
    os.kill(node["process_id"], signal.SIGTERM)
    assert all_stopped(folder)


@pytest.mark.long
def test_a_run_that_is_interrupted_twice_reaches_the_same_totals(folder: Path) -> None:
    slow = ["--flights", str(FLIGHTS), "--rate", "300"]
    interrupted = Run(folder, *slow)
    interrupted.await_line(" s  produced ")
    interrupted.send(signal.SIGINT)
    assert interrupted.wait() == 128 + signal.SIGINT, interrupted.output
    assert "interrupted by SIGINT" in interrupted.output
    assert all_stopped(folder)

    killed = Run(folder, *slow)
    killed.await_line(" s  produced ")
    killed.send(signal.SIGKILL)
    assert killed.wait() == -signal.SIGKILL
    assert "was interrupted: resuming it" in killed.output
    assert all_stopped(folder)

    last = Run(folder, "--flights", str(FLIGHTS))
    assert last.wait() == 0, last.output
    assert "was interrupted: resuming it" in last.output
    assert totals(folder) == (FLIGHTS, WITHOUT_DEPARTURE)
    assert all_stopped(folder)
