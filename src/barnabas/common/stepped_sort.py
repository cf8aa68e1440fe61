"""A sort in steps: one call of ``sorted`` over 200,000 names holds the event loop for a tenth of a second.

Runs of some thousand items are sorted, then two runs at a time are merged. ``sorted`` merges two runs in linear time.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable
from itertools import islice
from typing import Final

__all__ = ["sorted_in_steps"]

ITEMS_A_RUN: Final = 4_096
"""A run is sorted in a millisecond or two, two runs of 100,000 are merged in ten."""


def sorted_in_steps(items: Iterable[str]) -> Generator[None, None, list[str]]:
    """The items in order, as ``sorted`` gives them."""
    rest = iter(items)
    runs: list[list[str]] = []
    while run := list(islice(rest, ITEMS_A_RUN)):
        run.sort()
        runs.append(run)
        if len(run) == ITEMS_A_RUN:
            yield
    while len(runs) > 1:
        merged: list[list[str]] = []
        for index in range(0, len(runs) - 1, 2):
            merged.append(sorted(runs[index] + runs[index + 1]))
            yield
        if len(runs) % 2:
            merged.append(runs[-1])
        runs = merged
    return runs[0] if runs else []
