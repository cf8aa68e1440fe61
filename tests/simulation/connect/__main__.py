"""``python -m tests.simulation.connect``: run seeds of a simulated Connect group, repeat one, or search for defects."""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor

from tests.simulation.connect.cluster import simulate
from tests.simulation.connect.defects import DEFECTS

__all__ = ["find", "main"]


def find(seeds: Iterable[int]) -> tuple[int, str] | None:
    """Return the first seed that fails and its error, or None."""
    logging.disable(logging.CRITICAL)
    try:
        for seed in seeds:
            try:
                simulate(seed)
            except Exception as error:
                return seed, f"{type(error).__name__}: {error}"
    finally:
        logging.disable(logging.NOTSET)
    return None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.connect", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="number of seeds to run (default 200)")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--seed", type=int, help="run this seed, with the workers' log")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--defects", action="store_true", help="insert defects, one at a time, and report which are found"
    )
    given = parser.parse_args(arguments)
    if given.seed is not None:
        logging.basicConfig(level=logging.DEBUG, format="%(message)s")
        simulate(given.seed)
        return 0
    if given.defects:
        return _search_for_defects(given.seeds)
    began = time.monotonic()
    seeds = range(given.first, given.first + given.seeds)
    with ProcessPoolExecutor(given.processes) as pool:
        outcomes = pool.map(find, ([seed] for seed in seeds), chunksize=5)
        found = [failure for failure in outcomes if failure is not None]
    for seed, what in found:
        print(f"seed {seed}: {what}\n  again: python -m tests.simulation.connect --seed {seed}")
    print(f"{given.seeds} seeds, {len(found)} failed, {time.monotonic() - began:.1f} s")
    return 1 if found else 0


def _search_for_defects(seeds: int) -> int:
    missed = 0
    for name, defect in DEFECTS.items():
        with defect():
            found = find(range(seeds))
        missed += found is None
        print(f"{name}: " + (f"seed {found[0]}, {found[1][:120]}" if found else f"NOT FOUND in {seeds} seeds"))
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
