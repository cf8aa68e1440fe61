"""Writes what a quorum of controllers takes: a JSON file with every figure, a page with a table and bars, a plot."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.quorum import QuorumSizes
from bench.report import machine

__all__ = ["quorum_page", "write_quorum_report"]

Rounds = Mapping[str, Sequence[Mapping[str, float]]]
"""By side, the figures of each round by name."""

_RATE = "requests/s"
_FAILOVER_S = 1.2
"""The default election time-out, and 200 ms."""


def write_quorum_report(folder: Path, rounds: Rounds, sizes: QuorumSizes) -> Path:
    """Returns the page that was written."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"machine": machine(), "sizes": sizes._asdict(), "rounds": rounds}
    (folder / "quorum.json").write_text(json.dumps(figures, indent=1) + "\n")
    page = folder / "quorum.md"
    page.write_text(quorum_page(rounds, sizes))
    _plot(folder / "quorum.png", rounds)
    return page


def quorum_page(rounds: Rounds, sizes: QuorumSizes) -> str:
    medians = _medians(rounds)
    lines = [
        "# A quorum of controllers: barnabas and Apache Kafka 4.3.1 on the same machine",
        "",
        f"Written by `python -m bench --only quorum` ({machine()['cores']} cores, Python {machine()['python']}, "
        f"rounds of each side in turn: {len(rounds['barnabas'])}). Absolute times depend on the machine; the ratio is "
        "what counts: above 1, barnabas is better.",
        "",
        *_explanation(sizes),
        "",
        "![figures](quorum.png)",
        "",
        "| | Kafka | barnabas | ratio |",
        "|---|---:|---:|---:|",
        *(
            f"| {name} | {_short(medians['kafka'][name])} | {_short(medians['barnabas'][name])} "
            f"| {_short(_ratio(name, medians))} |"
            for name in medians["barnabas"]
        ),
        "",
        "## Bars",
        "",
        "At least as fast as Kafka in each:",
        "",
        *_bars(medians),
        "",
        "And on its own:",
        "",
        _within_election(medians["barnabas"], sizes),
        "",
    ]
    return "\n".join(lines)


def _explanation(sizes: QuorumSizes) -> list[str]:
    return [
        f"- Start: three formatted voters are launched at once, until one has committed a change ({sizes.starts} "
        "times).",
        "- Forwarding: a broker that is no controller sends each request on to the active one of three. One client "
        f"sends {sizes.requests_of_one} of a kind, one after another, and 16 clients {sizes.requests_of_each} each, "
        "after a warm-up. Kafka's broker has one request under way at the controller, ours up to 16; Kafka's "
        "controller keeps a single change back for up to `controller.quorum.append.linger.ms`, 25 ms, in case more "
        "come.",
        "- Failover: SIGKILL to the active controller, until a broker has answered a change that was asked for after "
        f"it ({sizes.kills} times). The sockets of a killed process are closed at once: how long it takes until a "
        "machine that fell silent is missed, is not in this.",
        f"- The same with {sizes.failover_partitions:,} partitions in the log, until one of the two that are left has "
        f"committed a change ({sizes.failover_kills} times). No broker runs.",
        "- Restart: one voter is killed and started, until it has committed a change "
        f"({sizes.restarts} times each): with nothing, and with all that in one snapshot.",
        "",
        "Kafka's nodes have the options of Kafka's own start script, with a heap of up to 1 GiB. All processes share "
        "the cores, client included. How it is measured: [bench/quorum.py](../../bench/quorum.py).",
    ]


def _medians(rounds: Rounds) -> dict[str, dict[str, float]]:
    return {
        side: {name: statistics.median(figures[name] for figures in of_rounds) for name in of_rounds[0]}
        for side, of_rounds in rounds.items()
    }


def _bars(medians: Mapping[str, Mapping[str, float]]) -> list[str]:
    lines = []
    for name in medians["barnabas"]:
        ratio = _ratio(name, medians)
        lines.append(f"- {'holds' if ratio >= 1 else '**does not hold yet**'}: {name} (ratio {_short(ratio)})")
    return lines


def _within_election(ours: Mapping[str, float], sizes: QuorumSizes) -> str:
    """What docs/kips/kip-595-quorum.md promises of every failover."""
    name = f"failover with {sizes.failover_partitions:,} partitions in the log, longest, s"
    holds = "holds" if ours[name] <= _FAILOVER_S else "**does not hold yet**"
    return (
        f"- {holds}: {name}: {_short(ours[name])}, at most {_FAILOVER_S} (`controller.quorum.election.timeout.ms` and "
        "200 ms)"
    )


def _ratio(name: str, medians: Mapping[str, Mapping[str, float]]) -> float:
    """How many times better barnabas is."""
    ours, kafka = medians["barnabas"][name], medians["kafka"][name]
    return ours / max(kafka, 1e-9) if name.endswith(_RATE) else kafka / max(ours, 1e-9)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _plot(path: Path, rounds: Rounds) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    medians = _medians(rounds)
    names = list(medians["barnabas"])
    ratios = [_ratio(name, medians) for name in names]
    figure, axes = pyplot.subplots(figsize=(9, 0.32 * len(names) + 1.2), layout="constrained")
    colors = ["#2a7f62" if ratio >= 1 else "#b5482e" for ratio in ratios]
    bars = axes.barh(range(len(names)), ratios, 0.7, color=colors)
    axes.bar_label(bars, [_short(ratio) for ratio in ratios], padding=3, fontsize=8)
    axes.set_yticks(range(len(names)), names, fontsize=8)
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.axvline(1, color="black", linewidth=1)
    axes.set_xlabel("how many times better barnabas is than Kafka 4.3.1 (log scale)")
    axes.margins(x=0.12)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
