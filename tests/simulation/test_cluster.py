"""Runs a sample of ``make simulate`` and ``make defects``: whole clusters under faults, and defects to be found.

Each run is a separate process with a fixed order of sets, so that the printed command line repeats a failure.
``BARNABAS_SIMULATION_SEEDS`` sets the number of seeds.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.simulation.cluster.command import failed_seeds
from tests.simulation.cluster.defects import DEFECTS

pytestmark = [pytest.mark.simulation, pytest.mark.timeout(240)]

PROJECT = Path(__file__).resolve().parent.parent.parent
SEEDS = int(os.environ.get("BARNABAS_SIMULATION_SEEDS", "20"))
SAMPLE_EVERY = 10
SAMPLE_SEEDS_MAX = 4


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


def output_of(process: subprocess.CompletedProcess[str]) -> str:
    return process.stdout[-8000:] + process.stderr[-2000:]


def documented() -> dict[str, int]:
    """Return the number of seeds that found each defect, from the table in docs/simulation.md."""
    text = (PROJECT / "docs" / "simulation.md").read_text()
    return {name: int(seeds) for name, seeds in re.findall(r"^\| `([a-z-]+)` \|.*?\| (\d+) \|", text, re.MULTILINE)}


@pytest.mark.parametrize("half", [0, 1])
def test_a_sample_of_seeds_passes_all_checks(half: int) -> None:
    count = SEEDS // 2
    process = simulation("--first", str(half * count), "--seeds", str(count), "--jobs", "1")
    assert process.returncode == 0, output_of(process)


@pytest.mark.parametrize("third", [0, pytest.param(1, marks=pytest.mark.long), pytest.param(2, marks=pytest.mark.long)])
def test_seeds_that_ever_failed_pass(third: int) -> None:
    """The list names the bug that each seed found; if plans or code change, a seed becomes another run."""
    seeds = failed_seeds()[third::3]
    assert len(seeds) >= 5
    process = simulation("--these", ",".join(map(str, seeds)), "--jobs", "1")
    assert process.returncode == 0, output_of(process)


def test_a_random_block_is_printed_with_the_command_that_repeats_it() -> None:
    process = simulation("--seeds", "1", "--jobs", "1")
    drawn = re.search(
        r"^seeds (\d+) to \1, drawn at random; again: make simulate SEEDS=1 FIRST=\1$", process.stdout, re.M
    )
    assert drawn is not None, output_of(process)


def test_two_runs_of_a_seed_are_equal() -> None:
    first, second = (simulation("--seed", "5", "--full") for _ in range(2))
    assert first.stdout == second.stdout
    assert len(first.stdout.splitlines()) > 50


def test_a_failure_shows_its_history_and_is_shrunk() -> None:
    process = simulation("--seed", "2", "--defect", "answer-before-commit", "--shrink")
    assert process.returncode == 1, output_of(process)
    repeated = re.search(
        r"^python -m tests.simulation (--seed 2 --defect answer-before-commit --only .*)$", process.stdout, re.M
    )
    assert repeated is not None, output_of(process)
    again = simulation(*repeated[1].split())
    assert again.returncode == 1
    assert "VIOLATION" in again.stdout


def test_every_defect_can_be_inserted_into_the_product_and_is_documented() -> None:
    """A defect whose place in the product was deleted would have no effect."""
    process = simulation("--check-defects")
    assert process.returncode == 0, output_of(process)
    assert set(documented()) == set(DEFECTS)


def test_a_sample_of_the_defects_is_found() -> None:
    easy = [name for name, seeds in documented().items() if seeds <= SAMPLE_SEEDS_MAX]
    sample = easy[::SAMPLE_EVERY]
    assert len(sample) >= 5
    process = simulation("--prove", *sample, "--within", "40", "--jobs", "1")
    assert process.returncode == 0, output_of(process)
