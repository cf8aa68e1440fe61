"""Writes what the first steps take: a JSON file with every figure, a page with tables and bars, a plot."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.first_steps import FirstSteps, FirstStepsSizes, Series, Table
from bench.ratios import Rounds, plot, ratio, short
from bench.report import machine

__all__ = ["first_steps_page", "write_first_steps_report"]

_NAMES = {
    "kafka": "Kafka 4.3.1",
    "barnabas": "barnabas",
    "barnabas.testing": "`barnabas.testing`",
    "kfake": "kfake",
    "tansu": "tansu",
    "kcat": "kcat",
}
_KCAT_TIMES = 3
"""How many times the CPU time of kcat `produce` and `consume` may take, for a million records."""
_COMMAND_CPU_S = 0.2


def write_first_steps_report(folder: Path, found: FirstSteps, sizes: FirstStepsSizes) -> Path:
    """Return the page that was written."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"machine": machine(), "sizes": sizes._asdict(), **found._asdict()}
    (folder / "first-steps.json").write_text(json.dumps(figures, indent=1) + "\n")
    page = folder / "first-steps.md"
    page.write_text(first_steps_page(found, sizes))
    plot(folder / "first-steps.png", _against_kafka(found))
    return page


def first_steps_page(found: FirstSteps, sizes: FirstStepsSizes) -> str:
    rounds = len(next(iter(found.brokers.values()))["barnabas"])
    lines = [
        "# First steps: barnabas, Apache Kafka 4.3.1 and smaller tools on the same machine",
        "",
        f"Written by `python -m bench --only first-steps` ({machine()['cores']} cores, Python {machine()['python']}, "
        f"rounds of each side in turn: {rounds}). Other processes used {found.foreign:.0%} of the machine meanwhile. "
        "So read the CPU seconds first: they are user and system time of whole processes. Times on the clock include "
        "the wait for a core. A ratio above 1 means that barnabas is better; its range over the rounds is in "
        "parentheses.",
        "",
        "Kafka's node and tools have the JVM options of Kafka's own scripts. How it is measured: "
        "[bench/first_steps.py](../../bench/first_steps.py).",
        "",
        "![ratios](first-steps.png)",
        "",
        "## From nothing to the first record",
        "",
        "A fresh Python process starts a broker with an empty folder, creates a topic, writes a record and reads it "
        "with confluent-kafka, and stops the broker; the CPU time is that of all these processes. Kafka formats its "
        "folder first, with its own tool; barnabas formats it as it starts, and `barnabas.testing` keeps it in memory. "
        '"Ready" means that the broker has answered a request. '
        f"Medians of {sizes.starts} starts a round. kfake is a fake broker in Go, for tests; it "
        "keeps everything in memory, as tansu (in Rust) does here.",
        "",
        *_table(found.brokers, ["kafka", "barnabas", "barnabas.testing", "kfake", "tansu"], ["kafka"]),
        "",
        "## The command line",
        "",
        f"`kafka-topics.sh --list`, `kcat -L` and `barnabas topics list`; medians of {sizes.commands} runs a round.",
        "",
        *_table(found.commands, ["kafka", "kcat", "barnabas"], ["kafka", "kcat"]),
        "",
        "## Writing and reading records",
        "",
        f"{sizes.records:,} lines of {sizes.record_bytes} bytes from a file to a topic with one partition, and back "
        "to a file, by Kafka's console tools, kcat and `barnabas produce` and `consume`, each with its defaults. All "
        "read the topic that `barnabas produce` wrote. The CPU time is that of the client.",
        "",
        *_table(found.records, ["kafka", "kcat", "barnabas"], ["kafka", "kcat"]),
        "",
        "## Installation",
        "",
        "A wheel into a fresh environment, without the extras; the packages were downloaded before. Kafka's size is "
        "that of the jars of its node and tools, without Java.",
        "",
        *_install_table(found.install),
        "",
    ]
    if found.missing:
        lines += ["## Not measured", "", *(f"- {_NAMES[side]} {why}." for side, why in found.missing.items()), ""]
    return "\n".join([*lines, "## Bars", "", *_bars(found), ""])


def _table(table: Table, sides: Sequence[str], others: Sequence[str]) -> list[str]:
    """Return the rows of a table with the median of each side, and ours against each of the ``others``."""
    columns = [side for side in sides if any(side in series for series in table.values())]
    against = [side for side in others if side in columns]
    heads = [*(_NAMES[side] for side in columns), *(f"against {_NAMES[side]}" for side in against)]
    return [
        "| | " + " | ".join(heads) + " |",
        "|---|" + "---:|" * len(heads),
        *(
            f"| {name} | "
            + " | ".join(
                [
                    *(short(statistics.median(series[side])) if side in series else "" for side in columns),
                    *(_ratios(name, series, side) for side in against),
                ]
            )
            + " |"
            for name, series in table.items()
        ),
    ]


def _ratios(name: str, series: Series, other: str) -> str:
    if other not in series or "barnabas" not in series:
        return ""
    of_rounds = [_ratio(name, theirs, ours) for theirs, ours in zip(series[other], series["barnabas"], strict=True)]
    spread = f" ({short(min(of_rounds))} to {short(max(of_rounds))})" if len(of_rounds) > 1 else ""
    return f"{short(_median_ratio(name, series, other))}{spread}"


def _median_ratio(name: str, series: Series, other: str) -> float:
    return _ratio(name, statistics.median(series[other]), statistics.median(series["barnabas"]))


def _ratio(name: str, theirs: float, ours: float) -> float:
    return ratio(name, {"kafka": {name: theirs}, "barnabas": {name: ours}})


def _install_table(install: Mapping[str, Mapping[str, float]]) -> list[str]:
    kafka, ours = install["kafka"], install["barnabas"]
    return [
        "| | Kafka 4.3.1 | barnabas |",
        "|---|---:|---:|",
        *(
            f"| {name} | {short(kafka[name]) if name in kafka else ''} | {short(value)} |"
            for name, value in ours.items()
        ),
    ]


def _bars(found: FirstSteps) -> list[str]:
    """Return what should hold for CPU time, and whether it does."""
    checks = []
    for table in (found.brokers, found.commands, found.records):
        for name, series in table.items():
            if name.endswith("CPU, s") and "kafka" in series:
                times = _median_ratio(name, series, "kafka")
                checks.append((times >= 1, f"{name}: at most that of Kafka", f"ratio {short(times)}"))
    for name, series in found.commands.items():
        if name.endswith("CPU, s"):
            value = statistics.median(series["barnabas"])
            checks.append((value < _COMMAND_CPU_S, f"{name}: below {_COMMAND_CPU_S}", f"{short(value)} s"))
    for name, series in found.records.items():
        if name.endswith("CPU, s") and "kcat" in series:
            times = 1 / _median_ratio(name, series, "kcat")
            checks.append(
                (times <= _KCAT_TIMES, f"{name}: at most {_KCAT_TIMES} times that of kcat", f"{short(times)} times")
            )
    return [f"- {'holds' if holds else '**does not hold yet**'}: {what} ({value})" for holds, what, value in checks]


def _against_kafka(found: FirstSteps) -> Rounds:
    """Return the figures that both have, but those of installation, by side and round."""
    tables = [
        (name, series)
        for table in (found.brokers, found.commands, found.records)
        for name, series in table.items()
        if "kafka" in series and "barnabas" in series
    ]
    rounds = len(tables[0][1]["barnabas"])
    return {
        side: [{name: series[side][number] for name, series in tables} for number in range(rounds)]
        for side in ("kafka", "barnabas")
    }
