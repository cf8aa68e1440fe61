"""Writes how long the controller holds the event loop: a JSON file with every figure, and a page with a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from bench.report import machine
from bench.turns import Turns

__all__ = ["write_turns_report"]

_BAR_MS = 20.0

Figures = Mapping[str, Mapping[str, Turns]]
"""By the name of the shape, by kind of event."""


def write_turns_report(folder: Path, figures: Figures) -> Path:
    """Returns the page that was written."""
    folder.mkdir(parents=True, exist_ok=True)
    plain = {shape: {event: turns._asdict() for event, turns in of.items()} for shape, of in figures.items()}
    (folder / "turns.json").write_text(json.dumps({"machine": machine(), "turns": plain}, indent=1) + "\n")
    page = folder / "turns.md"
    page.write_text(_page(figures))
    return page


def _page(figures: Figures) -> str:
    lines = [
        "# How long the controller blocks the event loop",
        "",
        f"Written by `python -m bench --only turns` ({machine()['cores']} cores, Python {machine()['python']}). "
        "A controller with 200,000 partitions, a broker's image, rules and replicas, a standby that reads the encoded "
        "batches, and a log in memory run in one process. A turn is the work of a node between two polls of its "
        "sockets: a decision or a step of it, its append to the log, a step of the work after a commit on the broker "
        "(commit) or on the standby, a later turn of a long decision (tick), a step of encoding the answer. "
        "For a snapshot, which is written on a thread, it is an uninterruptible call (thread). "
        "Times are CPU time of the thread, with the garbage collector off. "
        f"The bound is {_BAR_MS:g} ms for the longest turn; longer ones are printed in bold. How it is measured: "
        "[bench/turns.py](../../bench/turns.py), [bench/turns_stage.py](../../bench/turns_stage.py). "
        "A running node reports the same as "
        "`barnabas_event_loop_longest_turn_seconds` and `barnabas_controller_longest_decision_seconds` "
        "([metrics](../reference/metrics.md)).",
        "",
    ]
    for shape, events in figures.items():
        lines += [f"## {shape}", "", "| | longest turn, ms | what it was | turns | all of them, ms |"]
        lines += ["|---|---:|---|---:|---:|", *(_row(event, turns) for event, turns in events.items()), ""]
    return "\n".join(lines)


def _row(event: str, turns: Turns) -> str:
    longest = f"{turns.longest_ms:.1f}"
    shown = f"**{longest}**" if turns.longest_ms > _BAR_MS else longest
    return f"| {event} | {shown} | {turns.piece} | {turns.turns:,} | {turns.total_ms:,.0f} |"
