"""Writes the results: a JSON file with every figure, a table with medians and ratios, and plots."""

from __future__ import annotations

import json
import os
import platform
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["machine", "write_report"]

Rounds = Mapping[str, Sequence[Mapping[str, float]]]

_HIGHER_IS_BETTER = ("MB/s", "round trips/s")


def write_report(folder: Path, rounds: Rounds, codec: Mapping[str, float], options: Mapping[str, Any]) -> Path:
    """``rounds``: by side, the figures of each round. Returns the page that was written."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "kafka-comparison.json").write_text(
        json.dumps({"options": dict(options), "machine": machine(), "rounds": rounds, "codec": codec}, indent=1) + "\n"
    )
    names = list(rounds["kafka"][0])
    medians = {
        side: {name: statistics.median(figures[name] for figures in rounds[side]) for name in names} for side in rounds
    }
    page = folder / "kafka-comparison.md"
    page.write_text(_page(names, medians, rounds, codec, options))
    _plot(folder / "kafka-comparison.png", names, medians)
    return page


def machine() -> dict[str, str]:
    return {
        "cores": str(os.cpu_count()),
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }


def ratio(name: str, medians: Mapping[str, Mapping[str, float]]) -> float:
    """How many times better barnabas is: over 1 is better, whatever the unit."""
    ours, theirs = medians["barnabas"][name], medians["kafka"][name]
    if name.endswith(_HIGHER_IS_BETTER):
        return ours / theirs
    return theirs / max(ours, 1e-9)


def _page(
    names: Sequence[str],
    medians: Mapping[str, Mapping[str, float]],
    rounds: Rounds,
    codec: Mapping[str, float],
    options: Mapping[str, Any],
) -> str:
    this = machine()
    lines = [
        "# barnabas and Apache Kafka 4.3.1 on the same machine",
        "",
        f"Written by `make bench` (both sides in turn, {len(rounds['kafka'])} rounds each, medians; "
        f"{this['cores']} cores, Python {this['python']}, {options['records']:,} records a producer run). "
        "Absolute numbers depend on the machine; the ratio is what counts: above 1, barnabas is better.",
        "",
        "| | Kafka | barnabas | ratio | range of the ratio |",
        "|---|---:|---:|---:|---|",
    ]
    for name in names:
        pairs = [
            ratio(name, {"kafka": theirs, "barnabas": ours})
            for theirs, ours in zip(rounds["kafka"], rounds["barnabas"], strict=True)
        ]
        lines.append(
            f"| {name} | {_short(medians['kafka'][name])} | {_short(medians['barnabas'][name])} "
            f"| {ratio(name, medians):.2f} | {min(pairs):.2f} to {max(pairs):.2f} |"
        )
    lines += ["", "![ratios](kafka-comparison.png)", "", "## Codec: Metadata v12 of 10,000 topics x 3 partitions", ""]
    lines += ["| | us | against Java |", "|---|---:|---:|"]
    java = codec["Java encode, us"]
    lines += [f"| {name.removesuffix(', us')} | {value:,.0f} | {java / value:.2f} |" for name, value in codec.items()]
    lines += ["", "## Bars", "", *_bars(medians, codec), ""]
    return "\n".join(lines)


def _bars(medians: Mapping[str, Mapping[str, float]], codec: Mapping[str, float]) -> list[str]:
    ours = medians["barnabas"]
    checks = [
        ("ready in at most 0.6 CPU-seconds", ours["CPU of start, s"] <= 0.6, f"{ours['CPU of start, s']:.2f} s"),
        ("at most 80 MiB when ready", ours["resident idle, MiB"] <= 80, f"{ours['resident idle, MiB']:.0f} MiB"),
    ]
    for name in ours:
        if name.startswith(("produce", "consume", "create", "Metadata")):
            value = ratio(name, medians)
            checks.append((f"{name}: at least as good as Kafka", value >= 1, f"ratio {value:.2f}"))
    kept = codec["Java encode, us"] / codec["ours from kept segments, us"]
    checks.append(("Metadata from kept segments faster than Java's encode", kept > 1, f"ratio {kept:.1f}"))
    return [f"- {'holds' if good else '**does not hold yet**'}: {what} ({value})" for what, good, value in checks]


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.2f}"


def _plot(path: Path, names: Sequence[str], medians: Mapping[str, Mapping[str, float]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    ratios = [ratio(name, medians) for name in names]
    figure, axes = pyplot.subplots(figsize=(9, 0.42 * len(names) + 1.2), layout="constrained")
    colors = ["#2a7f62" if value >= 1 else "#b5482e" for value in ratios]
    positions = range(len(names))
    axes.barh(positions, ratios, color=colors)
    axes.set_yticks(positions, names)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("barnabas against Apache Kafka 4.3.1: times better (log scale, 1 = equal)")
    for position, value in zip(positions, ratios, strict=True):
        axes.annotate(
            f"{value:.2f}x", (value, position), xytext=(4, 0), textcoords="offset points", va="center", fontsize=8
        )
    axes.margins(x=0.15)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
