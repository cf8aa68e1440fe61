"""A sample of what ``make simulate`` and ``make defects`` run: whole clusters under faults, and mistakes to be found.

Each run is a process of its own, with the order of sets fixed, so that what fails here fails again from the command
line that it prints. ``BARNABAS_SIMULATION_SEEDS`` is how many seeds.
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
SEEDS = int(os.environ.get("BARNABAS_SIMULATION_SEEDS", "48"))
SAMPLE_EVERY = 8
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


def told(found: subprocess.CompletedProcess[str]) -> str:
    return found.stdout[-8000:] + found.stderr[-2000:]


def documented() -> dict[str, int]:
    """The table of docs/simulation.md: in how many seeds each defect was found."""
    text = (PROJECT / "docs" / "simulation.md").read_text()
    return {name: int(seeds) for name, seeds in re.findall(r"^\| `([a-z-]+)` \|.*?\| (\d+) \|", text, re.MULTILINE)}


@pytest.mark.parametrize("half", [0, 1])
def test_no_seed_of_a_sample_breaks_a_promise(half: int) -> None:
    count = SEEDS // 2
    found = simulation("--first", str(half * count), "--seeds", str(count), "--jobs", "1")
    assert found.returncode == 0, told(found)


@pytest.mark.parametrize("part", [0, 1])
def test_no_seed_that_ever_failed_fails_again(part: int) -> None:
    """The list says what each of them found; with other plans or other code a seed becomes another run."""
    seeds = failed_seeds()[part::2]
    assert len(seeds) >= 5
    found = simulation("--these", ",".join(map(str, seeds)), "--jobs", "1")
    assert found.returncode == 0, told(found)


def test_a_block_that_is_drawn_at_random_is_printed_with_the_command_that_repeats_it() -> None:
    found = simulation("--seeds", "1", "--jobs", "1")
    drawn = re.search(
        r"^seeds (\d+) to \1, drawn at random; again: make simulate SEEDS=1 FIRST=\1$", found.stdout, re.M
    )
    assert drawn is not None, told(found)


def test_a_run_is_the_same_every_time() -> None:
    first, second = (simulation("--seed", "5", "--full") for _ in range(2))
    assert first.stdout == second.stdout
    assert len(first.stdout.splitlines()) > 50


def test_a_failure_shows_its_history_and_becomes_smaller() -> None:
    found = simulation("--seed", "2", "--defect", "answer-before-commit", "--shrink")
    assert found.returncode == 1, told(found)
    repeated = re.search(
        r"^python -m tests.simulation (--seed 2 --defect answer-before-commit --only .*)$", found.stdout, re.M
    )
    assert repeated is not None, told(found)
    again = simulation(*repeated[1].split())
    assert again.returncode == 1
    assert "VIOLATION" in again.stdout


def test_every_defect_can_be_put_into_the_product_and_is_documented() -> None:
    """One whose place in the product is gone would be none any more."""
    found = simulation("--check-defects")
    assert found.returncode == 0, told(found)
    assert set(documented()) == set(DEFECTS)


def test_a_sample_of_the_defects_is_found() -> None:
    easy = [name for name, seeds in documented().items() if seeds <= SAMPLE_SEEDS_MAX]
    sample = easy[::SAMPLE_EVERY]
    assert len(sample) >= 5
    found = simulation("--prove", *sample, "--within", "40", "--jobs", "1")
    assert found.returncode == 0, told(found)
