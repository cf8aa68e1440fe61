"""The results as lines on a terminal and as the table in docs/benchmarks."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.siege.run import Outcome

__all__ = ["line_of", "write_report"]

MIB = 1024 * 1024
BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "docs" / "benchmarks"
_ONE_LOOP = "ours"
_NAMES = {"ours": "barnabas", "kafka": "Kafka 4.3.1"}


def line_of(kind: str, outcome: Outcome) -> str:
    failures = outcome.failures()
    return (
        f"{kind:5} {'FAILS ' + '+'.join(failures) if failures else 'holds':20} "
        f"median {outcome.calm.median_s * 1e3:6.2f} -> {outcome.besieged.median_s * 1e3:7.2f} ms  "
        f"worst {outcome.besieged.worst_s * 1e3:7.0f} ms  "
        f"own {outcome.calm.own_median_s * 1e3:5.2f} -> {outcome.besieged.own_median_s * 1e3:6.2f}, "
        f"{outcome.besieged.own_worst_s * 1e3:4.0f} ms  {outcome.attempts} tries  "
        f"memory {outcome.memory / MIB:6.1f} of {outcome.in_flight / MIB:6.2f} MB  "
        f"log {outcome.log_per_minute / MIB:5.2f} MB/min  cpu {outcome.cpu_s:5.2f} s "
        f"({outcome.cpu_ns_per_byte:8.1f} ns/B)  {outcome.opened:5} conn {outcome.answers:6} answers  {outcome.name}"
        f"{f': over, {outcome.why_over}' if outcome.why_over else ''}"
    )


def write_report(results: Mapping[str, Sequence[Outcome]], *, seconds: float, seed: int) -> None:
    """``siege.json`` with all figures and, beside it, the page with the table."""
    document = {
        "seconds": seconds,
        "seed": seed,
        "machine": f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}",
        "results": {kind: [_figures(outcome) for outcome in outcomes] for kind, outcomes in results.items()},
    }
    (BENCHMARKS / "siege.json").write_text(json.dumps(document, indent=1) + "\n")
    (BENCHMARKS / "siege.md").write_text(_page(results, document))


def _figures(outcome: Outcome) -> dict[str, object]:
    return {
        "name": outcome.name,
        "calm_median_ms": round(outcome.calm.median_s * 1e3, 3),
        "median_ms": round(outcome.besieged.median_s * 1e3, 3),
        "worst_ms": round(outcome.besieged.worst_s * 1e3, 1),
        "memory_mb": round(outcome.memory / MIB, 2),
        "in_flight_mb": round(outcome.in_flight / MIB, 3),
        "log_mb_per_minute": round(outcome.log_per_minute / MIB, 3),
        "cpu_s": round(outcome.cpu_s, 2),
        "cpu_ns_per_byte": round(outcome.cpu_ns_per_byte, 1),
        "sent_mb": round(outcome.sent / MIB, 3),
        "leader_changes": outcome.leader_changes,
        "own_calm_median_ms": round(outcome.calm.own_median_s * 1e3, 3),
        "own_median_ms": round(outcome.besieged.own_median_s * 1e3, 3),
        "own_worst_ms": round(outcome.besieged.own_worst_s * 1e3, 1),
        "attempts": outcome.attempts,
        "breaks": outcome.failures(),
        "own_breaks": outcome.own_failures(),
        "why_over": outcome.why_over,
    }


_NOTES = (
    "- **median x**: the client's median latency during the attack, as a multiple of that in the 0.6 s before and the "
    "0.6 s after. Bar: 2, or below 1 ms.",
    "- **worst**: its longest request. Bar: 250 ms.",
    "- **own**: the same two without the time in which the client or the node's loop was ready to run and had no "
    "processor (Linux counts it for each thread). Only for barnabas, where one thread answers all requests. Waits that "
    "the node's other threads cause are left out, too.",
    "- **memory**: what the process grew by. Bar: 3 times the bytes in flight, or 16 MB.",
    "- **CPU**: processor time of the node for each byte that the attacker sent.",
    "- The log may grow by 1 MB a minute, and no leader may change; a Connect worker may not leave its group.",
    "- Under **breaks**, **answers** says that the process no longer answered a well-behaved client within 60 s, or "
    "ended. It was started again for the next entry.",
    "- **tries**: an entry that broke a bar was repeated at most twice; the best attempt is in the table.",
    "- Empty cells were not measured.",
)


def _page(results: Mapping[str, Sequence[Outcome]], document: Mapping[str, object]) -> str:
    kinds = list(results)
    head = "".join(
        f" | {_NAMES[kind]}: median x | worst ms{_own_head(kind)} | memory MB | CPU ns/byte | tries | breaks"
        for kind in kinds
    )
    columns = sum(8 if kind == _ONE_LOOP else 6 for kind in kinds)
    lines = [
        "# Hostile input",
        "",
        "Written by `make siege KIND=both ARGS=--write`. One entry of the catalogue (`tests/siege`) goes on for "
        f"{document['seconds']} s while a well-behaved client asks for something every 10 ms: it produces, fetches and "
        "asks for metadata, or reads from the REST API of a Connect worker.",
        "",
        f"Machine: {document['machine']}; seed {document['seed']}. Both kinds ran one after the other on the same "
        "machine, which had other work for one of its processors some of the time. Compare the columns of one line, "
        "not the figures of different pages.",
        "",
        *_NOTES,
        "",
        f"| Entry | in flight MB{head} |",
        "|---|---:" + "|---:" * columns + "|",
    ]
    by_name = {kind: {outcome.name: outcome for outcome in outcomes} for kind, outcomes in results.items()}
    for name in dict.fromkeys(name for outcomes in by_name.values() for name in outcomes):
        row = {kind: by_name[kind].get(name) for kind in kinds}
        in_flight = max(outcome.in_flight for outcome in row.values() if outcome is not None)
        lines.append(
            f"| {name} | {in_flight / MIB:.2f} | " + " | ".join(_cells(kind, row[kind]) for kind in kinds) + " |"
        )
    lines += ["", *(_summary(kind, outcomes) for kind, outcomes in results.items())]
    return "\n".join(lines)


def _own_head(kind: str) -> str:
    return " | own median x | own worst ms" if kind == _ONE_LOOP else ""


def _cells(kind: str, outcome: Outcome | None) -> str:
    if outcome is None:
        return " | ".join("" for _ in range(8 if kind == _ONE_LOOP else 6))
    own = f" | {outcome.own_median_ratio:.1f} | {outcome.besieged.own_worst_s * 1e3:.0f}"
    return (
        f"{outcome.median_ratio:.1f} | {outcome.besieged.worst_s * 1e3:.0f}{own if kind == _ONE_LOOP else ''} | "
        f"{outcome.memory / MIB:.0f} | {outcome.cpu_ns_per_byte:.0f} | {outcome.attempts} | "
        f"{' '.join(outcome.failures()) or '-'}"
    )


def _summary(kind: str, outcomes: Sequence[Outcome]) -> str:
    broken = sum(bool(outcome.failures()) for outcome in outcomes)
    own = sum(bool(outcome.own_failures()) for outcome in outcomes)
    left = f"; in {own} when waits for a processor are left out" if kind == _ONE_LOOP else ""
    return f"{_NAMES[kind]} breaks a bar in {broken} of {len(outcomes)} entries{left}.\n"
