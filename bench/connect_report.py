"""Writes what Connect takes: a JSON file with every figure, a page with a table and bars, a plot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from bench.connect import ConnectSizes
from bench.ratios import Rounds, medians_of, ratio, short
from bench.report import machine

__all__ = ["connect_page", "write_connect_report"]

_OVERHEAD_MAX = 0.05
"""Over plain PySpark."""
_LEAVE_MAX_S = 3.0
_LEAVES = "a worker leaves, until all runs, s"

_LABELS = {"kafka": "Kafka Connect", "spark": "plain PySpark", "tuned": "PySpark as in a worker"}
"""The workers that are compared with ours."""

Medians = Mapping[str, Mapping[str, float]]


def write_connect_report(folder: Path, rounds: Rounds, sizes: ConnectSizes) -> Path:
    """Returns the page that was written."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"machine": machine(), "sizes": sizes._asdict(), "rounds": rounds}
    (folder / "connect.json").write_text(json.dumps(figures, indent=1) + "\n")
    page = folder / "connect.md"
    page.write_text(connect_page(rounds, sizes))
    _plot(folder / "connect.png", medians_of(rounds))
    return page


def connect_page(rounds: Rounds, sizes: ConnectSizes) -> str:
    medians = medians_of(rounds)
    lines = [
        "# Connect: barnabas, Kafka Connect 4.3.1 and plain PySpark on the same machine",
        "",
        f"Written by `python -m bench --only connect` ({machine()['cores']} cores, Python {machine()['python']}, "
        f"rounds of each side in turn: {len(rounds['barnabas'])}). Absolute figures depend on the machine; the ratios "
        "are what counts: above 1, barnabas is better.",
        "",
        *_explanation(sizes),
        "",
        "![ratios](connect.png)",
        "",
        f"| | {' | '.join([*_LABELS.values(), 'barnabas', *(f'ratio to {name}' for name in _LABELS.values())])} |",
        f"|---|{'---:|' * (2 * len(_LABELS) + 1)}",
        *(_row(name, medians) for name in medians["barnabas"]),
        "",
        "## Bars",
        "",
        *_bars(medians),
        "",
    ]
    return "\n".join(lines)


def _row(name: str, medians: Medians) -> str:
    figures = [short(medians[side][name]) if name in medians[side] else "" for side in (*_LABELS, "barnabas")]
    ratios = [short(_ratio_to(side, name, medians)) if name in medians[side] else "" for side in _LABELS]
    return f"| {name} | {' | '.join([*figures, *ratios])} |"


def _ratio_to(side: str, name: str, medians: Medians) -> float:
    """How many times better barnabas is than a side."""
    return ratio(name, {"kafka": medians[side], "barnabas": medians["barnabas"]})


def _bars(medians: Medians) -> list[str]:
    ours = medians["barnabas"]
    checks = []
    for name in ours:
        if name in medians["spark"]:
            overhead = 1 / _ratio_to("spark", name, medians) - 1
            kind, _, figure = name.replace(":", ",").partition(", ")
            more = "more time" if figure == "records/s" else "more CPU"
            what = f"{kind}: at most {_OVERHEAD_MAX:.0%} {more} than plain PySpark"
            checks.append((overhead <= _OVERHEAD_MAX, what, f"{overhead:+.1%}"))
    left_s = ours[_LEAVES]
    checks.append((left_s <= _LEAVE_MAX_S, f"a worker leaves: all runs within {_LEAVE_MAX_S:g} s", f"{left_s:.2f} s"))
    return [f"- {'holds' if good else '**does not hold yet**'}: {what} ({value})" for good, what, value in checks]


def _explanation(sizes: ConnectSizes) -> list[str]:
    return [
        f"- Moving records: {sizes.records:,} of 1 KB, from a topic with four partitions or a file with as many lines, "
        "by one task. The clock starts when the status says that the task runs, and ends when another process sees "
        "the complete output; the output is counted. Each side has moved some records before; "
        "'again' repeats the same in the same process, without most of Java's compilation time. Kafka's "
        "worker has no connector to Parquet. The queries on plain PySpark are written by hand "
        "([bench/connect_plain.py](../../bench/connect_plain.py)), with the default settings of Spark and Kafka's "
        "clients, and from a topic the same number of records in a batch; those 'as in a worker' have a worker's "
        "settings ([tasks](../connect/tasks.md)), and convert bytes to text as it does. They keep positions only in "
        "Spark's checkpoint and don't sync files to the disk. A worker also commits positions to Kafka, syncs files to "
        "the disk, and reports statuses, metrics and topics in use. CPU is that of the process and its children, "
        "including the worker's own.",
        f"- A group of two workers with {sizes.connectors} connectors: one receives SIGTERM, and another time SIGKILL; "
        "the time until the status says that everything runs on the other one. A killed worker is noticed after 10 s "
        "on both sides; `scheduled.rebalance.max.delay.ms` is 10 s, because with its default of five minutes Kafka's "
        "workers wait for that long, also for a worker that has left.",
        f"- REST: {sizes.requests:,} times the status of a connector, {sizes.creations:,} connectors created STOPPED, "
        "by one client, one after another.",
        "",
        "One Kafka broker serves all; it and the workers share the cores. Each JVM that moves records has a heap "
        "of 2 GiB, Kafka's worker the options of its own start script. How it is measured: "
        "[bench/connect.py](../../bench/connect.py), [bench/connect_group.py](../../bench/connect_group.py).",
    ]


def _plot(path: Path, medians: Medians) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = list(medians["barnabas"])
    figure, axes = pyplot.subplots(figsize=(9, 0.55 * len(names) + 1.2), layout="constrained")
    sides = (("kafka", "#2a7f62", -0.27), ("spark", "#3b6ea5", 0.0), ("tuned", "#8fb0d0", 0.27))
    for side, color, shift in sides:
        there = [index for index, name in enumerate(names) if name in medians[side]]
        ratios = [_ratio_to(side, names[index], medians) for index in there]
        drawn = axes.barh([index + shift for index in there], ratios, 0.25, color=color, label=f"than {_LABELS[side]}")
        axes.bar_label(drawn, [short(value) for value in ratios], padding=3, fontsize=7)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("how many times better barnabas is (log scale)")
    axes.legend(fontsize=8)
    axes.margins(x=0.12)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
