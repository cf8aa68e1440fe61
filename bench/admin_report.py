"""Writes what an operator's requests cost: a JSON file with every figure, a page with tables and bars, and a plot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from bench.admin import SETTINGS_OF_A_TOPIC
from bench.admin_plan import CHANGED_RULES, PLANNED_RULES
from bench.report import machine

__all__ = ["write_admin_report"]

Latencies = Mapping[str, Mapping[str, float]]
"""By side, by name of the figure."""

Plans = Mapping[str, Mapping[str, float]]
"""By the kind of rules, by name of the figure."""

_PLAN_S_MAX = 10
_PLAN_MIB_MAX = 1_000_000_000 / 2**20
_CPU = "CPU to "


def write_admin_report(folder: Path, latencies: Latencies, plans: Plans, rounds: int) -> Path:
    """Returns the page that was written."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"machine": machine(), "rounds": rounds, "latencies": latencies, "plans": plans}
    (folder / "admin.json").write_text(json.dumps(figures, indent=1) + "\n")
    page = folder / "admin.md"
    page.write_text(_page(latencies, plans, rounds))
    _plot(folder / "admin.png", latencies)
    return page


def _page(latencies: Latencies, plans: Plans, rounds: int) -> str:
    lines = [
        "# Administration: barnabas and Apache Kafka 4.3.1 on the same machine",
        "",
        f"Written by `python -m bench --only admin` ({machine()['cores']} cores, Python {machine()['python']}, "
        f"rounds of each side in turn: {rounds}). One client sends the same requests to both, one after another; the "
        "median of the repeats counts, after a warm-up. Absolute times depend on the machine; the ratio is what "
        "counts: above 1, barnabas is better. A topic has one partition, and "
        f"{SETTINGS_OF_A_TOPIC} settings, two of them its own in every other topic. "
        "Kafka delays a single change for up to `controller.quorum.append.linger.ms`, 25 ms, in case more "
        "arrive. How it is measured: [bench/admin.py](../../bench/admin.py).",
        "",
        "![times](admin.png)",
        "",
        *_latency_table("Time to the answer", latencies, with_cpu=False),
        *_latency_table("CPU of the node, until it is idle again", latencies, with_cpu=True),
        *_plan_table(plans),
        "## Bars",
        "",
        *_bars(latencies, plans),
        "",
    ]
    return "\n".join(lines)


def _latency_table(title: str, latencies: Latencies, *, with_cpu: bool) -> list[str]:
    lines = [f"## {title}", "", "| | Kafka, ms | barnabas, ms | ratio |", "|---|---:|---:|---:|"]
    for name, ours in latencies["barnabas"].items():
        if name.startswith(_CPU) == with_cpu:
            kafka = latencies["kafka"][name]
            shown = name.removeprefix(_CPU).removesuffix(", ms")
            lines.append(f"| {shown} | {_short(kafka)} | {_short(ours)} | {_short(_ratio(latencies, name))} |")
    return [*lines, ""]


def _plan_table(plans: Plans) -> list[str]:
    lines = [
        f"## Plan of {CHANGED_RULES} changed rules among {PLANNED_RULES:,}",
        "",
        "With the proof of every access that the change opens and closes. Only for barnabas: Kafka has no such "
        "command. The rules: [bench/admin_plan.py](../../bench/admin_plan.py).",
        "",
        "| rules | s | CPU, s | peak memory, MiB | accesses changed |",
        "|---|---:|---:|---:|---:|",
    ]
    for name, plan in plans.items():
        lines.append(
            f"| {name} | {_short(plan['plan_s'])} | {_short(plan['plan_cpu_s'])} | {_short(plan['peak_mib'])} "
            f"| {plan['access_changes']:,.0f} |"
        )
    return [*lines, ""]


def _bars(latencies: Latencies, plans: Plans) -> list[str]:
    checks = []
    for name in _waited_for(latencies):
        ratio = _ratio(latencies, name)
        checks.append((f"{name.removesuffix(', ms')}: at least as fast as Kafka", ratio >= 1, f"ratio {_short(ratio)}"))
    slowest = max(plan["plan_s"] for plan in plans.values())
    largest = max(plan["peak_mib"] for plan in plans.values())
    checks.append((f"a plan within {_PLAN_S_MAX} s", slowest <= _PLAN_S_MAX, f"{_short(slowest)} s"))
    checks.append(("and within 1 GB", largest <= _PLAN_MIB_MAX, f"{_short(largest)} MiB"))
    return [f"- {'holds' if good else '**does not hold yet**'}: {what} ({value})" for what, good, value in checks]


def _waited_for(latencies: Latencies) -> list[str]:
    return [name for name in latencies["barnabas"] if not name.startswith(_CPU)]


def _ratio(latencies: Latencies, name: str) -> float:
    return latencies["kafka"][name] / max(latencies["barnabas"][name], 1e-9)


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _plot(path: Path, latencies: Latencies) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    names = _waited_for(latencies)
    figure, axes = pyplot.subplots(figsize=(9, 0.7 * len(names) + 1.2), layout="constrained")
    for number, (side, label, color) in enumerate(
        (("kafka", "Kafka 4.3.1", "#b5482e"), ("barnabas", "barnabas", "#2a7f62"))
    ):
        positions = [index + number * 0.4 for index in range(len(names))]
        times = [latencies[side][name] for name in names]
        bars = axes.barh(positions, times, 0.38, label=label, color=color)
        axes.bar_label(bars, [_short(value) for value in times], padding=3, fontsize=8)
    axes.set_yticks([index + 0.2 for index in range(len(names))], [name.removesuffix(", ms") for name in names])
    axes.invert_yaxis()
    axes.set_xscale("log")
    axes.set_xlabel("milliseconds until the answer (log scale)")
    axes.margins(x=0.12)
    axes.legend(fontsize=8)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
