"""Writes what groups cost: a JSON file with every figure, a page with tables and bars, a plot."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

from bench.groups_rebalance import HEARTBEATS_PER_S
from bench.ratios import bars, medians_of, plot, ratio, short, table
from bench.report import machine

__all__ = ["RoundsOfParts", "groups_page", "read_groups", "write_groups_report"]

RoundsOfParts: TypeAlias = Mapping[str, Mapping[str, Sequence[Mapping[str, float]]]]
"""By part and side, the figures of each round."""

_FILE = "groups.json"
_NOT_COMPARED = ("of the load", "growth of the process")
"""These figures say how the others came about."""
_TIME_OF_REBALANCE = re.compile(r"\w+, ([\d,]+) members: [\w ]+, s$")
_TITLES = {
    "rebalance": "Rebalances",
    "share": "Share groups",
    "commits": "Commits",
    "memory": "Memory",
}


def read_groups(folder: Path) -> RoundsOfParts:
    """Return the figures of all parts that were measured."""
    file = folder / _FILE
    if not file.exists():
        return {}
    parts: RoundsOfParts = json.loads(file.read_text())["parts"]
    return parts


def write_groups_report(folder: Path, parts: RoundsOfParts) -> Path:
    """Returns the page that was written."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / _FILE).write_text(json.dumps({"machine": machine(), "parts": parts}, indent=1) + "\n")
    page = folder / "groups.md"
    page.write_text(groups_page(parts))
    plot(folder / "groups.png", _compared(parts))
    return page


def _compared(parts: RoundsOfParts) -> dict[str, list[dict[str, float]]]:
    """Return the medians of what is compared, as one round."""
    together: dict[str, list[dict[str, float]]] = {"kafka": [{}], "barnabas": [{}]}
    for part in _TITLES.keys() & parts.keys():
        for side, medians in medians_of(parts[part]).items():
            together[side][0] |= {name: value for name, value in medians.items() if _is_compared(name)}
    return together


def _is_compared(name: str) -> bool:
    return not any(part in name for part in _NOT_COMPARED)


def groups_page(parts: RoundsOfParts) -> str:
    this = machine()
    lines = [
        "# Groups: barnabas and Apache Kafka 4.3.1 on the same machine",
        "",
        f"Written by `python -m bench --only groups` ({this['cores']} cores, Python {this['python']}). A node of each "
        "side ran in turn on the same machine, beside the load and other work; a part was measured in as many rounds "
        "as its title says, and the tables have medians. Absolute figures depend on the machine; the ratio is what "
        "counts: above 1, barnabas is better. How it is measured: [bench/groups.py](../../bench/groups.py).",
        "",
        "![figures](groups.png)",
        "",
    ]
    for part, title in _TITLES.items():
        if part in parts:
            lines += _part(part, title, parts[part])
    if "large" in parts:
        lines += _large(parts["large"]["barnabas"][0])
    return "\n".join(lines)


def _part(part: str, title: str, of_sides: Mapping[str, Sequence[Mapping[str, float]]]) -> list[str]:
    medians, count = medians_of(of_sides), len(of_sides["barnabas"])
    rounds = "1 round" if count == 1 else f"{count} rounds"
    explanation = [line for paragraph in _EXPLANATIONS[part] for line in (paragraph, "")]
    compared = {side: {name: of[name] for name in of if _is_compared(name)} for side, of in medians.items()}
    return [
        f"## {title} ({rounds})",
        "",
        *explanation,
        *table(medians),
        "",
        "At least as good as Kafka in each:",
        "",
        *(_verdict(name, line, compared) for name, line in zip(compared["barnabas"], bars(compared), strict=True)),
        "",
    ]


def _verdict(name: str, line: str, medians: Mapping[str, Mapping[str, float]]) -> str:
    """Call two times equal that differ by less than the members wait between heartbeats."""
    found = _TIME_OF_REBALANCE.match(name)
    if found is None or abs(medians["barnabas"][name] - medians["kafka"][name]) >= _interval_s(found[1]):
        return line
    return f"- equal within a heartbeat's interval: {name} (ratio {short(ratio(name, medians))})"


def _interval_s(members: str) -> float:
    return int(members.replace(",", "")) / HEARTBEATS_PER_S


_EXPLANATIONS = {
    "rebalance": [
        "Members of the four kinds of groups, with two partitions each. They join together, later one leaves, and one "
        "joins; the time until all have the partitions that they keep, the CPU of the node in that time, and the CPU "
        "of the load. All members of a group together send 2,000 heartbeats a second, each after 50 ms in a group of "
        "100, and after 500 ms in one of 1,000. Most of the time they wait for their next heartbeat, and for the end "
        "of the second in which a target is computed only once (`group.consumer.assignment.interval.ms`), on both "
        "sides. So times are called equal if they differ by less than one interval.",
        "The last figure of each group is the CPU of its heartbeats while nothing changes.",
    ],
    "share": [
        "A topic of ten partitions, with records of 100 bytes in batches of 100. Each consumer fetches at most 500 "
        "records, and accepts with its next fetch what the one before acquired. Java is Kafka's "
        "`ShareConsumerPerformance` with as many consumers; its start is in the figure. "
        "Then a producer sends 500 records a second, each on its own: the time from before it is sent until the answer "
        "that acquires it.",
    ],
    "commits": [
        "Each member has a connection of its own, and commits the offset of one partition: one request at a time, or "
        "with up to 20 that wait for answers.",
    ],
    "memory": [
        "Members that have joined groups of 1,000, and received a partition each. Ours is the growth of the process. "
        "Kafka's is the growth of what is live in the heap of its JVM after a collection "
        "(`jcmd GC.class_histogram`); its process grows by more, as the figure below each says, but how much of a "
        "heap is touched depends on the settings of the JVM (a heap of 1 GiB here).",
    ],
}


def _large(figures: Mapping[str, float]) -> list[str]:
    return [
        "## Large groups",
        "",
        "10,000 members, 100 topics of 1,000 partitions, in our coordinator alone: CPU, and the longest turn of the "
        "event loop. The bounds are 5 s of CPU until all have their partitions, and 20 ms. A classic group misses the "
        "second: it is one record, which is encoded and read as a whole. How it is measured: "
        "[bench/large_groups.py](../../bench/large_groups.py).",
        "",
        *_table_of_kinds(figures),
        "",
    ]


def _table_of_kinds(figures: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines of a table with a column for each kind, which is the first word of a figure's name."""
    named = {(name.partition(", ")[0], name.partition(", ")[2]): value for name, value in figures.items()}
    kinds = list(dict.fromkeys(kind for kind, _ in named))
    yield f"| | {' | '.join(kinds)} |"
    yield "|---|" + "---:|" * len(kinds)
    for name in dict.fromkeys(name for _, name in named):
        cells = (short(named[kind, name]) if (kind, name) in named else "" for kind in kinds)
        yield f"| {name} | {' | '.join(cells)} |"
