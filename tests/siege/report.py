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
_NAMES = {"ours": "barnabas", "kafka": "Kafka 4.3.1"}


def line_of(kind: str, outcome: Outcome) -> str:
    failures = outcome.failures()
    return (
        f"{kind:5} {'FAILS ' + '+'.join(failures) if failures else 'holds':20} "
        f"median {outcome.calm.median_s * 1e3:6.2f} -> {outcome.besieged.median_s * 1e3:7.2f} ms  "
        f"worst {outcome.besieged.worst_s * 1e3:7.0f} ms  "
        f"memory {outcome.memory / MIB:6.1f} of {outcome.in_flight / MIB:6.2f} MB  "
        f"log {outcome.log_per_minute / MIB:5.2f} MB/min  cpu {outcome.cpu_s:5.2f} s "
        f"({outcome.cpu_ns_per_byte:8.1f} ns/B)  {outcome.opened:5} conn {outcome.answers:6} answers  {outcome.name}"
    )


def write_report(results: Mapping[str, Sequence[Outcome]], *, seconds: float, seed: int) -> None:
    """``siege.json`` with all figures and ``siege.md`` with the table."""
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
        "breaks": outcome.failures(),
    }


def _page(results: Mapping[str, Sequence[Outcome]], document: Mapping[str, object]) -> str:
    kinds = list(results)
    head = "".join(f" | {_NAMES[kind]}: median x | worst ms | memory MB | CPU ns/byte | breaks" for kind in kinds)
    lines = [
        "# Hostile input",
        "",
        "Written by `make siege KIND=both ARGS=--write`. One entry of the catalogue (`tests/siege`) goes on for "
        f"{document['seconds']} s while a well-behaved client produces, fetches and asks for metadata every 10 ms.",
        "",
        f"Machine: {document['machine']}; seed {document['seed']}. Both nodes ran one after the other on the same "
        "machine, which other work shared: compare the columns of one line, not the figures of different pages.",
        "",
        "- **median x**: the client's median latency during the attack, as a multiple of that in the second "
        "before. Bar: 2, or below 1 ms.",
        "- **worst**: its longest request. Bar: 250 ms.",
        "- **memory**: what the process grew by. Bar: 3 times the bytes in flight, or 16 MB.",
        "- **CPU**: processor time of the node for each byte that the attacker sent.",
        "- The log may grow by 1 MB a minute, and no leader may change.",
        "",
        f"| Entry | in flight MB{head} |",
        "|---|---:" + "|---:|---:|---:|---:|---" * len(kinds) + "|",
    ]
    for row in zip(*results.values(), strict=True):
        cells = "".join(
            f" | {it.median_ratio:.1f} | {it.besieged.worst_s * 1e3:.0f} | {it.memory / MIB:.0f} | "
            f"{it.cpu_ns_per_byte:.0f} | {' '.join(it.failures()) or '-'}"
            for it in row
        )
        lines.append(f"| {row[0].name} | {max(it.in_flight for it in row) / MIB:.2f}{cells} |")
    lines.append("")
    lines += [
        f"{_NAMES[kind]} breaks a bar in {sum(bool(it.failures()) for it in outcomes)} of {len(outcomes)} entries.\n"
        for kind, outcomes in results.items()
    ]
    return "\n".join(lines)
