"""Kills a process that appends and compacts repeatedly: every record that it reported as written must survive."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from tests.simulation.log_writer import open_logs
from tests.unit.storage.log_driver import all_records

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(240)]

SEED = 20_240_611
ROUNDS = 12
ROUNDS_MAX = 60
PROJECT = Path(__file__).resolve().parent.parent.parent


def run_until_killed(folder: Path, seed: int, seconds: float) -> list[list[str]]:
    """Start the writer and kill it after it has been ready for this time; return the lines that it printed."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.simulation.log_writer", str(folder), str(seed)],
        cwd=PROJECT,
        env={"PYTHONPATH": f"{PROJECT / 'src'}:{PROJECT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    with process:
        first = process.stdout.readline()
        timer = threading.Timer(seconds, process.kill)
        timer.start()
        printed = process.stdout.read()  # Not communicate(): it would lose the data that readline() has read ahead.
        errors = process.stderr.read()
    timer.cancel()
    assert first == "ready\n", errors
    assert process.returncode == -9, errors
    return [line.split() for line in printed.split("\n")[:-1]]


def test_acknowledged_records_survive_kills_exactly_once(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    sequences, values, offsets = 0, {}, 0
    has_compacted = False
    for round_ in range(ROUNDS_MAX):
        if round_ >= ROUNDS and has_compacted:
            break  # On a busy machine it may take more rounds until a process lives long enough to compact.
        for kind, *words in run_until_killed(tmp_path, SEED + round_, draw.uniform(0.02, 0.6)):
            numbers = [int(word) for word in words]
            if kind == "idempotent":
                assert numbers[0] == numbers[1]  # One producer without duplicates: sequence and offset stay equal.
                sequences = numbers[0] + 1
            else:
                values[numbers[0]] = numbers[1]
                offsets = numbers[2] + 1
        manager, idempotent, compacted = open_logs(str(tmp_path))
        written = [record.value for record in all_records(idempotent)]
        assert written == [b"%d" % value for value in range(len(written))]
        assert len(written) >= sequences
        found = all_records(compacted)
        assert [record.offset for record in found] == sorted({record.offset for record in found})
        assert compacted.log_end_offset >= offsets
        last = {int(record.key or b""): int(record.value or b"") for record in found}
        assert all(last[key] >= value for key, value in values.items())
        for segment in (*idempotent.segments, *compacted.segments):
            segment.release()  # The rounds on a busy machine would otherwise use thousands of descriptors.
        for directory in manager.directories.all:
            directory.unlock()
        has_compacted = bool(manager.cleaner_offsets)
    assert sequences > ROUNDS
    assert has_compacted
