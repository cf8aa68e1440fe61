"""The seeds that ever failed. A run keeps its shape when later runs get new kinds of clients."""

from __future__ import annotations

from functools import cache
from pathlib import Path

__all__ = ["FAILED_SEEDS", "failed_before", "failed_seeds"]

FAILED_SEEDS = Path(__file__).resolve().parent.parent / "failed_seeds.txt"


def failed_seeds() -> list[int]:
    """Return the seeds that ever failed, in the order of their lines; a line continues with the cause."""
    return _seeds(FAILED_SEEDS.read_text())


@cache
def failed_before(divider: str) -> frozenset[int]:
    """Return the seeds above this line of the file: they failed before runs had what the line names."""
    return frozenset(_seeds(FAILED_SEEDS.read_text().partition(f"# {divider}\n")[0]))


def _seeds(text: str) -> list[int]:
    return [int(line.split()[0]) for line in text.splitlines() if line and not line.startswith("#")]
