"""The results as lines on a terminal and as the table in docs/benchmarks."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tests.siege.catalogue import ENTRIES
from tests.siege.run import Outcome

__all__ = ["line_of", "write_report"]

MIB = 1024 * 1024
BENCHMARKS = Path(__file__).resolve().parent.parent.parent / "docs" / "benchmarks"
_ONE_LOOP = "ours"
Figures: TypeAlias = dict[str, Any]
"""The figures of one entry, as in ``siege.json``."""
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
    """Write all figures and the table of docs/benchmarks/siege.md.

    Entries that this run did not execute keep their figures, so a run may stop early or cover only some entries.
    """
    figures = _known_figures()
    for kind, outcomes in results.items():
        found = figures.setdefault(kind, {})
        found.update((outcome.name, {**_figures(outcome), "seconds": seconds, "seed": seed}) for outcome in outcomes)
    names = [entry.name for entry in ENTRIES]
    ordered = {
        kind: [figures[kind][name] for name in names if name in figures[kind]] for kind in _NAMES if kind in figures
    }
    machine = f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}"
    document = {"machine": machine, "results": ordered}
    (BENCHMARKS / "siege.json").write_text(json.dumps(document, indent=1) + "\n")
    (BENCHMARKS / "siege.md").write_text(_page(ordered, machine))


def _known_figures() -> dict[str, dict[str, Figures]]:
    try:
        document = json.loads((BENCHMARKS / "siege.json").read_text())
    except FileNotFoundError:
        return {}
    return {kind: {found["name"]: found for found in rows} for kind, rows in document["results"].items()}


def _figures(outcome: Outcome) -> Figures:
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
    "0.6 s after. Bound: 2, or below 1 ms.",
    "- **worst**: its longest request. Bound: 250 ms.",
    "- **own**: the same two without the time in which the client or the node's loop was ready to run and waited for a "
    "processor (Linux counts it for each thread). Only for barnabas, where one thread answers all requests. Waits that "
    "the node's other threads cause are excluded, too.",
    "- **memory**: the growth of the process. Bound: 3 times the bytes in flight, or 16 MB.",
    "- **CPU**: processor time of the node for each byte that the attacker sent.",
    "- The log may grow by 1 MB a minute, and no leader may change; a Connect worker may not leave its group.",
    "- Under **breaks**, **answers** says that the process no longer answered a well-behaved client within 60 s, or "
    "ended. It was restarted for the next entry.",
    "- **tries**: an entry that exceeded a bound was repeated at most twice; the best attempt is in the table.",
    "- Empty cells were not measured.",
)


def _page(results: Mapping[str, Sequence[Figures]], machine: str) -> str:
    kinds = list(results)
    head = "".join(
        f" | {_NAMES[kind]}: median x | worst ms{_own_head(kind)} | memory MB | CPU ns/byte | tries | breaks"
        for kind in kinds
    )
    columns = sum(8 if kind == _ONE_LOOP else 6 for kind in kinds)
    lines = [
        "# Hostile input",
        "",
        "Written by `make siege KIND=both ARGS=--write`. One entry of the catalogue (`tests/siege`) runs for "
        f"{_seconds(results)} s while a well-behaved client sends a request every 10 ms: it produces, fetches and "
        "requests metadata, or reads from the REST API of a Connect worker.",
        "",
        f"Machine: {machine}, which had other work during some of the entries. The seed of each entry is in "
        "`siege.json`. Compare the columns of one line, not the figures of different pages.",
        "",
        *_NOTES,
        "",
        f"| Entry | in flight MB{head} |",
        "|---|---:" + "|---:" * columns + "|",
    ]
    by_name = {kind: {found["name"]: found for found in rows} for kind, rows in results.items()}
    for name in dict.fromkeys(name for rows in by_name.values() for name in rows):
        row = {kind: by_name[kind].get(name) for kind in kinds}
        in_flight = max(found["in_flight_mb"] for found in row.values() if found is not None)
        lines.append(f"| {name} | {in_flight:.2f} | " + " | ".join(_cells(kind, row[kind]) for kind in kinds) + " |")
    lines += ["", *(_summary(kind, rows) for kind, rows in results.items())]
    return "\n".join(lines)


def _seconds(results: Mapping[str, Sequence[Figures]]) -> str:
    found = {row["seconds"] for rows in results.values() for row in rows}
    return " or ".join(f"{seconds:g}" for seconds in sorted(found))


def _own_head(kind: str) -> str:
    return " | own median x | own worst ms" if kind == _ONE_LOOP else ""


def _cells(kind: str, found: Figures | None) -> str:
    if found is None:
        return " | ".join("" for _ in range(8 if kind == _ONE_LOOP else 6))
    own = f" | {_ratio(found, 'own_')} | {found['own_worst_ms']:.0f}"
    return (
        f"{_ratio(found)} | {found['worst_ms']:.0f}{own if kind == _ONE_LOOP else ''} | "
        f"{found['memory_mb']:.0f} | {found['cpu_ns_per_byte']:.0f} | {found['attempts']} | "
        f"{' '.join(found['breaks']) or '-'}"
    )


def _ratio(found: Figures, prefix: str = "") -> str:
    """A process that no longer answers has no calm time to compare with."""
    if found["why_over"]:
        return "-"
    return f"{found[f'{prefix}median_ms'] / max(found[f'{prefix}calm_median_ms'], 0.001):.1f}"


def _summary(kind: str, rows: Sequence[Figures]) -> str:
    broken, own = (sum(bool(found[breaks]) for found in rows) for breaks in ("breaks", "own_breaks"))
    left = f"; in {own} without waits for a processor" if kind == _ONE_LOOP else ""
    return f"{_NAMES[kind]} exceeds a bound in {broken} of {len(rows)} entries{left}.\n"
