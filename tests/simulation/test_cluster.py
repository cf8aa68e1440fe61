"""A sample of what ``make simulate`` runs: whole clusters under faults, and defects that must be found in them.

Each run is a process of its own, with the order of sets fixed, so that what fails here fails again from the command
line that it prints.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(240)]

PROJECT = Path(__file__).resolve().parent.parent.parent
SEEDS = int(os.environ.get("BARNABAS_SIMULATION_SEEDS", "48"))

ONCE_FAILED = {
    18: "a broker that was killed gave up when its old session was not over",
    54: "a driver that was closing took a message for a fault",
    67: "what a killed process had written was counted as durable without a sync",
    109: "a log that ended with its snapshot claimed epoch 0 when it was opened",
    402: "who had led an epoch acknowledged what it had not flushed to a bootstrap server",
}
"""Seeds that found a bug, and which."""


def simulation(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tests.simulation", *arguments],
        cwd=PROJECT,
        env={**os.environ, "PYTHONPATH": f"{PROJECT / 'src'}:{PROJECT}"},
        capture_output=True,
        text=True,
        timeout=220,
        check=False,
    )


@pytest.mark.parametrize("half", [0, 1])
def test_no_seed_of_a_sample_breaks_a_promise(half: int) -> None:
    count = SEEDS // 2
    found = simulation("--first", str(half * count), "--seeds", str(count), "--jobs", "1")
    assert found.returncode == 0, found.stdout[-8000:] + found.stderr[-2000:]


@pytest.mark.parametrize("seed", ONCE_FAILED, ids=str)
def test_a_seed_that_found_a_bug_passes(seed: int) -> None:
    found = simulation("--seed", str(seed))
    assert found.returncode == 0, found.stdout[-8000:] + found.stderr[-2000:]


def test_a_run_is_the_same_every_time() -> None:
    first, second = (simulation("--seed", "5", "--full") for _ in range(2))
    assert first.stdout == second.stdout
    assert len(first.stdout.splitlines()) > 50


def test_a_failure_shows_its_history_and_becomes_smaller() -> None:
    found = simulation("--seed", "2", "--defect", "answer-before-commit", "--shrink")
    assert found.returncode == 1, found.stdout[-4000:] + found.stderr[-2000:]
    assert "--seed 2 --defect answer-before-commit --only" in found.stdout
    assert "VIOLATION" in found.stdout
