"""Shrinks a failing plan: omits steps as long as the same check still fails, always in the same order."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from tests.simulation.cluster.plan import Plan, Step
from tests.simulation.cluster.world import Outcome, run_plan

__all__ = ["shrink", "signature"]

RUNS_MAX = 250


def signature(violation: str | None) -> str | None:
    """Return the violation without its numbers and names: equal for runs with the same failure."""
    if violation is None:
        return None
    return re.sub(r"[\d\[({'].*", "", re.sub(r"\bn\d+\b", "N", violation)).strip()


def shrink(plan: Plan, failed: Outcome, report: Callable[[str], None] = lambda line: None) -> tuple[Plan, Outcome]:
    """Return the smallest plan found within ``RUNS_MAX`` runs, and its outcome. Faults are omitted first."""
    wanted = signature(failed.violation)
    runs = 0
    best, outcome = plan, failed

    def still_fails(steps: tuple[Step, ...], faults_end_ms: int) -> bool:
        nonlocal runs, best, outcome
        if runs >= RUNS_MAX:
            return False
        runs += 1
        candidate = replace(best, steps=steps, faults_end_ms=faults_end_ms)
        found = run_plan(candidate, keeps_history=True)
        if signature(found.violation) != wanted:
            return False
        best, outcome = candidate, found
        return True

    for only_faults in (True, False, False):
        size = max(1, len(best.steps) // 2)
        while size:
            at = 0
            while at < len(best.steps):
                omitted = {
                    index
                    for index in range(at, min(at + size, len(best.steps)))
                    if best.steps[index].is_fault or not only_faults
                }
                kept = tuple(step for index, step in enumerate(best.steps) if index not in omitted)
                if not omitted or not still_fails(kept, best.faults_end_ms):
                    at += size
            size //= 2
        report(f"{len(best.steps)} of {len(plan.steps)} steps are needed, after {runs} runs")
    if best.steps and best.steps[-1].at_ms + 1 < best.faults_end_ms:
        still_fails(best.steps, best.steps[-1].at_ms + 1)
    return best, outcome
