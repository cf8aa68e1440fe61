"""The guarantees about nodes that hang, die or are cut off: other nodes are not affected.

* A broker is fenced only if a fault affected it or one of its connections.
* While a fault affects only one node, no partition is without an acknowledgement for longer than the session timeout
  plus a second.
* Under any fault, no partition is without an acknowledgement for minutes: the longest faults last a minute.

A run with a long standstill of the proxy proves none of this, and reports that.

The times are those of the process that injects the faults. When that process itself did not run, because the machine
was overloaded, the nodes are not blamed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tests.history.metadata_watch import Fencing
from tests.history.stall_probe import Stall
from tests.history.violations import Broken, Violation

__all__ = ["EVERYTHING", "Impairment", "blindness", "endless_stalls", "unexplained_fencings", "unexplained_stalls"]

_RESTART_S = 10.0
"""A returning broker registers, catches up and takes over leaderships; until then it counts as impaired."""
_FENCED_AFTER_S = 1.0
"""A fencing is on disk a moment after its session has ended."""
_ENDLESS_S = 180.0
"""Longer than two of the longest faults one after the other, and a restart."""
_BLIND_S = 30.0
"""The limit for all standstills together: longer than any node waits for an answer."""

EVERYTHING = "everything"
"""The node name for an impairment of the whole cluster: the machine was overloaded."""


class Impairment(NamedTuple):
    """A fault of these nodes, or of their connections, during this time by the monotonic clock."""

    nodes: tuple[str, ...]
    from_s: float
    to_s: float

    def touches(self, from_s: float, to_s: float) -> bool:
        return self.from_s <= to_s and from_s <= self.to_s


def unexplained_fencings(
    fencings: Iterable[Fencing], impairments: Sequence[Impairment], *, brokers: Iterable[str], session_s: float
) -> list[Violation]:
    """``brokers`` are those whose fencings count."""
    counted = set(brokers)
    found = []
    for fencing in fencings:
        name = f"broker-{fencing.broker_id}"
        from_s = fencing.seen_s - session_s - _FENCED_AFTER_S
        touched = [impairment for impairment in impairments if impairment.touches(from_s, fencing.seen_s)]
        if name in counted and not any(
            name in impairment.nodes or EVERYTHING in impairment.nodes for impairment in touched
        ):
            done = ", ".join(sorted({node for impairment in touched for node in impairment.nodes})) or "nothing"
            found.append(Violation(Broken.FENCED, f"{fencing}; at that time {done} was disturbed"))
    return found


def unexplained_stalls(
    stalls: Iterable[Stall], impairments: Sequence[Impairment], *, limit_s: float
) -> list[Violation]:
    """Return the stalls beyond the limit during which at most one node was disturbed. Time without CPU does not
    count."""
    starved = [impairment for impairment in impairments if EVERYTHING in impairment.nodes]
    others = [impairment for impairment in impairments if EVERYTHING not in impairment.nodes]
    found = []
    for stall in stalls:
        if stall.lasted_s - _time_within(starved, stall) <= limit_s:
            continue
        touched = [impairment for impairment in others if impairment.touches(stall.from_s - _RESTART_S, stall.to_s)]
        nodes = {node for impairment in touched for node in impairment.nodes}
        if len(nodes) <= 1:
            done = ", ".join(nodes) or "nothing"
            found.append(Violation(Broken.STALLED, f"{stall}; at that time {done} was disturbed"))
    return found


def endless_stalls(stalls: Iterable[Stall]) -> list[Violation]:
    """Return the stalls that nothing excuses. If the harness caused them, the run proves nothing and reports that here
    too."""
    return [Violation(Broken.ENDLESS, str(stall)) for stall in stalls if stall.lasted_s > _ENDLESS_S]


def blindness(standstills: Iterable[tuple[float, float]]) -> list[Violation]:
    """``standstills`` of the proxy, which carries all traffic: while it stands still, every node seems to hang."""
    lasted_s = [to_s - from_s for from_s, to_s in standstills]
    if sum(lasted_s) <= _BLIND_S:
        return []
    what = f"the proxy stood still for {sum(lasted_s):.0f} s in all, {max(lasted_s):.0f} s at a time"
    then = "the nodes are not to blame; run it again on a machine with less load"
    return [Violation(Broken.BLIND, f"{what}; {then}")]


def _time_within(impairments: Iterable[Impairment], stall: Stall) -> float:
    """Return the seconds of the stall that overlap any of the given times."""
    total_s, until_s = 0.0, stall.from_s
    for impairment in sorted(impairments, key=lambda impairment: impairment.from_s):
        from_s, to_s = max(impairment.from_s, until_s), min(impairment.to_s, stall.to_s)
        if from_s < to_s:
            total_s += to_s - from_s
            until_s = to_s
    return total_s
