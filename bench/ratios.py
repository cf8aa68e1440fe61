"""The figures of two sides beside each other: a table, bars that hold or don't, and a plot."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

__all__ = ["Rounds", "bars", "medians_of", "plot", "ratio", "short", "table"]

Rounds = Mapping[str, Sequence[Mapping[str, float]]]
"""By side, the figures of each round by name."""

_RATES = ("requests/s", "MB/s", "records/s")
"""Of these more is better, of everything else less."""
_LEAST = 1e-9
"""What is less counts as nothing."""


def table(medians: Mapping[str, Mapping[str, float]]) -> list[str]:
    return [
        "| | Kafka | barnabas | ratio |",
        "|---|---:|---:|---:|",
        *(
            f"| {name} | {short(medians['kafka'][name])} | {short(medians['barnabas'][name])} "
            f"| {short(ratio(name, medians))} |"
            for name in medians["barnabas"]
        ),
    ]


def medians_of(rounds: Rounds) -> dict[str, dict[str, float]]:
    return {
        side: {name: statistics.median(figures[name] for figures in of_rounds) for name in of_rounds[0]}
        for side, of_rounds in rounds.items()
    }


def bars(medians: Mapping[str, Mapping[str, float]]) -> list[str]:
    lines = []
    for name in medians["barnabas"]:
        times = ratio(name, medians)
        lines.append(f"- {'holds' if times >= 1 else '**does not hold yet**'}: {name} (ratio {short(times)})")
    return lines


def ratio(name: str, medians: Mapping[str, Mapping[str, float]]) -> float:
    """How many times better barnabas is."""
    ours, kafka = medians["barnabas"][name], medians["kafka"][name]
    more, less = (ours, kafka) if name.endswith(_RATES) else (kafka, ours)
    return max(more, _LEAST) / max(less, _LEAST)


def short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def plot(path: Path, rounds: Rounds) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    medians = medians_of(rounds)
    names = list(medians["barnabas"])
    ratios = [ratio(name, medians) for name in names]
    figure, axes = pyplot.subplots(figsize=(9, 0.32 * len(names) + 1.2), layout="constrained")
    colors = ["#2a7f62" if ratio >= 1 else "#b5482e" for ratio in ratios]
    drawn = axes.barh(range(len(names)), ratios, 0.7, color=colors)
    axes.bar_label(drawn, [short(ratio) for ratio in ratios], padding=3, fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("how many times better barnabas is than Kafka 4.3.1 (log scale)")
    axes.margins(x=0.12)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
