"""Runs many seeds, repeats or shrinks a failing one, or proves that the checks find known defects."""

from __future__ import annotations

import argparse
import gc
import logging
import multiprocessing
import os
import secrets
import sys
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from tests.simulation.cluster.defects import DEFECTS, apply_defect
from tests.simulation.cluster.failed_seeds import FAILED_SEEDS, failed_seeds
from tests.simulation.cluster.plan import Plan, draw_plan
from tests.simulation.cluster.shrink import shrink
from tests.simulation.cluster.world import Outcome, run_plan

__all__ = ["failed_seeds", "main"]

BLOCK, BLOCKS = 1000, 1_000_000
"""A random block begins at a multiple of ``BLOCK``; ``BLOCKS`` is the number of possible blocks."""
HISTORY_LINES = 60
CELL_LENGTH_MAX = 110


def main() -> None:
    options = _options()
    if os.environ.get("PYTHONHASHSEED") != "0":
        # The order of sets affects the run, so it must always be the same.
        os.execve(
            sys.executable,
            [sys.executable, "-m", "tests.simulation", *sys.argv[1:]],
            {**os.environ, "PYTHONHASHSEED": "0"},
        )
    logging.disable(logging.CRITICAL)
    warnings.filterwarnings("ignore", "coroutine .* was never awaited")  # The coroutines of a killed process.
    if options.list_defects:
        for name, defect in DEFECTS.items():
            print(f"{name:45} {defect.what}")
    elif options.check_defects:
        sys.exit(_check_defects())
    elif options.prove is not None:
        sys.exit(_prove(options.prove, options.within, options.jobs))
    elif options.seed is not None:
        sys.exit(_run_one(options))
    else:
        sys.exit(_run_many(_seeds(options), options.jobs, options.defect))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--seeds", type=int, default=200, help="number of seeds to run (default: 200)")
    parser.add_argument("--first", type=int, help="the first seed (default: the start of a random block, printed)")
    parser.add_argument("--these", help="run these seeds, as numbers: 18,7000316")
    parser.add_argument("--failed", action="store_true", help=f"run all seeds that ever failed ({FAILED_SEEDS.name})")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes (default: one per core)")
    parser.add_argument("--seed", type=int, help="run this seed only and show its history")
    parser.add_argument("--only", help="with --seed: only these steps of its plan, as numbers: 3,7,12, or none")
    parser.add_argument("--until", type=int, help="with --seed: end all faults after this number of milliseconds")
    parser.add_argument("--shrink", action="store_true", help="with --seed: omit steps that its failure does not need")
    parser.add_argument("--full", action="store_true", help="with --seed: the whole history, not only its end")
    parser.add_argument(
        "--defect", choices=sorted(DEFECTS), metavar="DEFECT", help="run with this defect in the product"
    )
    parser.add_argument("--list-defects", action="store_true", help="name the known defects")
    parser.add_argument(
        "--check-defects", action="store_true", help="check that each defect can still be inserted into the product"
    )
    parser.add_argument("--prove", nargs="*", metavar="DEFECT", help="find these defects, or all, and print a table")
    parser.add_argument("--within", type=int, default=400, help="with --prove: the maximum of seeds (default: 400)")
    return parser.parse_args()


# --- one seed


def _run_one(options: argparse.Namespace) -> int:
    if options.defect:
        apply_defect(options.defect)
    plan = draw_plan(options.seed)
    if options.only is not None:
        numbers = {int(number) for number in options.only.split(",") if number.isdigit()}
        plan = replace(plan, steps=tuple(step for index, step in enumerate(plan.steps) if index in numbers))
    if options.until is not None:
        plan = replace(plan, faults_end_ms=options.until)
    outcome = run_plan(plan, keeps_history=True)
    if outcome.violation is not None and options.shrink:
        whole = draw_plan(options.seed).steps
        plan, outcome = shrink(plan, outcome, print)
        only = ",".join(str(whole.index(step)) for step in plan.steps) or "none"
        print(f"\n{_repeat(plan, options.defect)} --only {only} --until {plan.faults_end_ms}\n")
        for step in plan.steps:
            print(f"  {step}")
        print()
    lines = outcome.history if options.full else outcome.history[-HISTORY_LINES:]
    if len(lines) < len(outcome.history):
        print(f"... {len(outcome.history) - len(lines)} earlier lines: --full shows them")
    print("\n".join(lines))
    print(f"\nseed {plan.seed}: {outcome.violation or 'all well'} (digest {outcome.digest})")
    return 0 if outcome.violation is None else 1


def _repeat(plan: Plan, defect: str | None) -> str:
    return f"python -m tests.simulation --seed {plan.seed}{f' --defect {defect}' if defect else ''}"


# --- many seeds


def _seeds(options: argparse.Namespace) -> Sequence[int]:
    """Return the seeds to run: a random block by default, because repeated seeds find nothing new."""
    if options.these:
        return [int(number) for number in options.these.split(",")]
    if options.failed:
        return failed_seeds()
    first = options.first
    if first is None:
        first = BLOCK * secrets.randbelow(BLOCKS)
        print(
            f"seeds {first} to {first + options.seeds - 1}, drawn at random; "
            f"again: make simulate SEEDS={options.seeds} FIRST={first}",
            flush=True,
        )
    return range(first, first + options.seeds)


def _prepare() -> None:
    """Prepare a process for many runs: nothing that it has imported is ever garbage, and only runs make garbage."""
    logging.disable(logging.CRITICAL)
    gc.freeze()
    gc.disable()


def _outcome(seed: int) -> Outcome:
    outcome = run_plan(draw_plan(seed), keeps_history=False)
    gc.collect()
    return outcome


def _run_many(seeds: Sequence[int], jobs: int, defect: str | None) -> int:
    begun = time.monotonic()
    counts: Counter[str] = Counter()
    failed: list[Outcome] = []
    if defect:
        apply_defect(defect)
    with multiprocessing.get_context("fork").Pool(jobs, initializer=_prepare) as pool:
        for outcome in pool.imap_unordered(_outcome, seeds, chunksize=4):
            counts.update(outcome.counts)
            counts["events"] += outcome.events
            counts["virtual seconds"] += outcome.virtual_ms // 1000
            if outcome.violation is not None:
                failed.append(outcome)
                print(f"seed {outcome.seed}: {outcome.violation}")
                print(f"  repeat: {_repeat(draw_plan(outcome.seed), defect)} --shrink")
    took = time.monotonic() - begun
    print(f"{len(seeds)} seeds in {took:.0f} s, {len(failed)} failed")
    for name, count in sorted(counts.items()):
        print(f"  {name:30} {count:10}")
    if failed:
        first = min(failed, key=lambda outcome: outcome.seed)
        print(f"\nthe first failure in full: seed {first.seed}")
        plan = draw_plan(first.seed)
        plan, shrunk = shrink(plan, run_plan(plan, keeps_history=True), print)
        print("\n".join(shrunk.history[-HISTORY_LINES:]))
    return 1 if failed else 0


# --- defects


def _find(task: tuple[str, int]) -> tuple[str, int | None, int, str | None]:
    """Find the first seed that detects a defect, and its number among the suitable seeds.

    This runs in its own process, because it changes the product.
    """
    name, within = task
    apply_defect(name)
    for number, seed in enumerate(DEFECTS[name].seeds(within), 1):
        outcome = run_plan(draw_plan(seed), keeps_history=False)
        if outcome.violation is not None:
            return name, seed, number, outcome.violation
    return name, None, within, None


def _applies(name: str) -> str | None:
    try:
        apply_defect(name)
    except Exception as error:
        return f"{name}: {type(error).__name__}: {error}"
    return None


def _check_defects() -> int:
    with multiprocessing.get_context("fork").Pool(1, maxtasksperchild=1) as pool:
        problems = [problem for problem in pool.imap(_applies, DEFECTS, chunksize=1) if problem is not None]
    print("\n".join(problems) or f"all {len(DEFECTS)} defects can be inserted into the product")
    return 1 if problems else 0


def _passes(seed: int) -> bool:
    return run_plan(draw_plan(seed), keeps_history=False).violation is None


def _prove(names: list[str], within: int, jobs: int) -> int:
    """Search for defects and print a table; return 1 if any was not found.

    A defect is found if a run fails with it and passes without it, and the defect still fits its place in the product.
    """
    tasks = [(name, within) for name in names or DEFECTS]
    missed = []
    context = multiprocessing.get_context("fork")
    with context.Pool(jobs, maxtasksperchild=1) as pool, context.Pool(1) as sound:
        for name, seed, number, violation in pool.imap(_find, tasks, chunksize=1):
            taken = str(number)
            if seed is None:
                taken = f"not found in {within}"
            elif _is_broken(violation):
                taken = f"does not fit the product (seed {seed})"
            elif not sound.apply(_passes, (seed,)):
                taken = f"seed {seed} also fails without it: a fault of the product or of the simulator"
            if taken != str(number):
                missed.append(name)
            print(f"| `{name}` | {DEFECTS[name].what} | {taken} | {_cell(violation)} |", flush=True)
    missing = f", not: {', '.join(missed)}" if missed else ""
    print(f"{len(tasks) - len(missed)} of {len(tasks)} defects are found{missing}")
    return 1 if missed else 0


def _is_broken(violation: str | None) -> bool:
    """Return whether the defect no longer fits the code that it replaces, so that the product could not have it."""
    return any(name in (violation or "") for name in ("TypeError", "AttributeError", "NameError"))


def _cell(violation: str | None) -> str:
    """Return the violation as the text of a table cell."""
    text = (violation or "").replace("|", "/")
    return text if len(text) <= CELL_LENGTH_MAX else f"{text[:CELL_LENGTH_MAX]}..."
