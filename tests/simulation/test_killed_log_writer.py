"""Kills a process that appends and compacts repeatedly: every record that it reported as written must survive."""

from __future__ import annotations

import random
import subprocess
import sys
from itertools import islice, takewhile
from pathlib import Path

import pytest

from tests.simulation.log_writer import open_logs
from tests.unit.storage.log_driver import all_records

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(240)]

SEED = 20_240_611
ROUNDS = 30
CLEANED_EVERY = 3
"""Every third round ends after a compaction, the others after some appends: lines decide, not the time."""
PROJECT = Path(__file__).resolve().parent.parent.parent


def run_until_killed(folder: Path, seed: int, line_count: int, *, after_cleaning: bool) -> list[list[str]]:
    """Start the writer and kill it after so many lines, or so many after it compacted; return what it printed."""
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
        printed = ""
        if after_cleaning:
            printed = "".join(takewhile("cleaned\n".__ne__, process.stdout))
        printed += "".join(islice(process.stdout, line_count))
        process.kill()
        printed += process.stdout.read()  # Not communicate(): it would lose the data that was read ahead.
        errors = process.stderr.read()
    assert first == "ready\n", errors
    assert process.returncode == -9, errors
    return [line.split() for line in printed.split("\n")[:-1]]


def test_acknowledged_records_survive_kills_exactly_once(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    sequences, values, offsets = 0, {}, 0
    for round_ in range(ROUNDS):
        after_cleaning = round_ % CLEANED_EVERY == 0
        lines = run_until_killed(tmp_path, SEED + round_, draw.randrange(1_000), after_cleaning=after_cleaning)
        for kind, *words in lines:
            numbers = [int(word) for word in words]
            if kind == "idempotent":
                assert numbers[0] == numbers[1]  # One producer without duplicates: sequence and offset stay equal.
                sequences = numbers[0] + 1
            elif kind == "compacted":
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
            segment.release()
        for directory in manager.directories.all:
            directory.unlock()
        assert manager.cleaner_offsets
    assert sequences > ROUNDS
