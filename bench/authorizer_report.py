"""Writes what the authorizers cost: a JSON file with every figure, a page with tables and bars, and a plot."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.authorized_wire import ACL_COUNTS, QUESTIONS
from bench.report import machine

__all__ = ["read_shapes", "write_authorizer_report"]

Shapes = Mapping[str, Mapping[str, Mapping[str, float]]]
"""By shape, by side, by name of the figure."""

Wire = Mapping[str, Mapping[str, float]]
"""By side, what a node costs over the wire."""

_LARGEST = "tenant 1M"
_WIRE_MS_MAX = 60
_WIRE_GROWTH_MAX = 1.1


class _Row(NamedTuple):
    """A figure of ours beside that of Kafka's, in a table."""

    title: str
    kafka: str
    barnabas: str


_DECISION = _Row("one decision, us", "decision_us", "decision_us")
_REMEMBERED = _Row("the same again, us", "decision_us", "remembered_us")
_SINGLE = _Row("operations of 10,000 topics, one by one, ms", "operations_ms", "operations_single_ms")
_MANY = _Row("operations of 10,000 topics at once, ms", "operations_ms", "operations_ms")
_BY_TYPE = _Row('"any topic", ms', "by_type_ms", "by_type_ms")
_LOAD = _Row("loading, s", "load_s", "load_s")


def write_authorizer_report(folder: Path, shapes: Shapes, wire: Wire | None = None) -> Path:
    """Returns the page that was written."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"machine": machine(), "shapes": shapes, "wire": wire or {}}
    (folder / "authorizer.json").write_text(json.dumps(figures, indent=1) + "\n")
    page = folder / "authorizer.md"
    page.write_text(_page(shapes, wire or {}))
    _plot(folder / "authorizer.png", shapes)
    return page


def read_shapes(folder: Path) -> Shapes:
    """What a page that was written before says of the authorizers by themselves."""
    shapes: Shapes = json.loads((folder / "authorizer.json").read_text())["shapes"]
    return shapes


def _page(shapes: Shapes, wire: Wire) -> str:
    lines = [
        "# Authorization: barnabas and Apache Kafka 4.3.1 on the same rules",
        "",
        f"Written by `python -m bench --only authorizer` ({machine()['cores']} cores, Python {machine()['python']}). "
        "Both sides read the same rules and decide the same requests, and their answers were compared: all are equal. "
        "Times are CPU time of the calling thread; other work on the machine still affects its caches. "
        "For Kafka `StandardAuthorizer` is called directly, for barnabas the index that a node uses. "
        "The rules: [bench/authorizer_shapes.py](../../bench/authorizer_shapes.py).",
        "",
        "![cost by number of rules](authorizer.png)",
        "",
    ]
    for row in (_DECISION, _REMEMBERED, _SINGLE, _MANY, _BY_TYPE, _LOAD):
        lines += _table(row, shapes)
    lines += _memory(shapes)
    lines += _wire_table(wire)
    lines += ["## Bars", "", *_bars(shapes), *_wire_bars(wire), ""]
    return "\n".join(lines)


def _table(row: _Row, shapes: Shapes) -> list[str]:
    title = row.title[0].upper() + row.title[1:]
    lines = [f"## {title}", "", "| rules | Kafka | barnabas | ratio |", "|---|---:|---:|---:|"]
    for name, sides in shapes.items():
        kafka, ours = sides["kafka"][row.kafka], sides["barnabas"][row.barnabas]
        scaled = "about " if row.kafka == "operations_ms" and sides["kafka"]["operations_answered"] < 10_000 else ""
        lines.append(f"| {name} | {scaled}{_short(kafka)} | {_short(ours)} | {_short(kafka / max(ours, 1e-9))} |")
    return [*lines, ""]


def _memory(shapes: Shapes) -> list[str]:
    sides = shapes.get(_LARGEST)
    if sides is None:
        return []
    kafka, ours = sides["kafka"], sides["barnabas"]
    return [
        f"A million rules in memory, their texts included: Kafka {kafka['memory_mib']:,.0f} MiB (heap), barnabas "
        f"{ours['memory_mib']:,.0f} MiB (resident), {ours['index_mib']:,.0f} of them what decides. "
        f"Adding or removing one rule there: {ours['change_us']:.1f} us.",
        "",
    ]


def _wire_table(wire: Wire) -> list[str]:
    if not wire:
        return []
    lines = ["## Over the wire", "", "| | Kafka | barnabas | ratio |", "|---|---:|---:|---:|"]
    for name, ours in wire["barnabas"].items():
        kafka = wire["kafka"][name]
        lines.append(f"| {name} | {_short(kafka)} | {_short(ours)} | {_short(kafka / max(ours, 1e-9))} |")
    return [*lines, ""]


def _bars(shapes: Shapes) -> list[str]:
    checks: list[tuple[str, bool, str]] = []

    def worst(figure: str, unit: str, bar: float, what: str, names: Sequence[str] | None = None) -> None:
        among = {name: shapes[name]["barnabas"][figure] for name in names or shapes if name in shapes}
        if among:
            shape = max(among, key=among.__getitem__)
            checks.append((what, among[shape] <= bar, f"{among[shape]:.3g} {unit} on {shape}"))

    others = [name for name in shapes if name != "hot 100k"]
    worst("decision_us", "us", 3, "a decision in at most 3 us on any shape")
    worst("remembered_us", "us", 0.3, "a remembered one in at most 0.3 us", others)
    worst("remembered_us", "us", 0.4, "in at most 0.4 us on 100,000 rules of one prefix", ["hot 100k"])
    worst("operations_ms", "ms", 5, "the operations of 10,000 topics in at most 5 ms")
    for name in (name for name in (_LARGEST,) if name in shapes):
        kafka, ours = shapes[name]["kafka"]["load_s"], shapes[name]["barnabas"]["load_s"]
        checks.append(("a million rules loaded faster than Java does", ours < kafka, f"{ours:.1f} s, {kafka:.1f} s"))
    return [f"- {'holds' if good else '**does not hold yet**'}: {what} ({value})" for what, good, value in checks]


def _wire_bars(wire: Wire) -> list[str]:
    ours = wire.get("barnabas", {})
    lines = []
    for question in QUESTIONS if ours else ():
        few, many = (ours[f"CPU to {question}, {count:,} ACLs, ms"] for count in ACL_COUNTS)
        holds = "holds" if many <= _WIRE_MS_MAX else "**does not hold yet**"
        lines.append(f"- {holds}: {question} in at most {_WIRE_MS_MAX} ms of CPU ({_short(many)} ms)")
        holds = "holds" if many <= few * _WIRE_GROWTH_MAX else "**does not hold yet**"
        grown = (many / few - 1) * 100
        lines.append(f"- {holds}: {question} costs at most 10 % more with {ACL_COUNTS[-1]:,} rules ({grown:+.0f} %)")
    return lines


def _short(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _plot(path: Path, shapes: Shapes) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, panels = pyplot.subplots(1, 2, figsize=(11, 4.2), layout="constrained")
    for axes, title, bars in (
        (
            panels[0],
            "one decision, microseconds",
            [
                ("kafka", "decision_us", "Kafka 4.3.1", "#b5482e"),
                ("barnabas", "decision_us", "barnabas", "#2a7f62"),
                ("barnabas", "remembered_us", "barnabas, asked before", "#9fd3bd"),
            ],
        ),
        (
            panels[1],
            "authorized operations of 10,000 topics, milliseconds",
            [
                ("kafka", "operations_ms", "Kafka 4.3.1", "#b5482e"),
                ("barnabas", "operations_ms", "barnabas", "#2a7f62"),
            ],
        ),
    ):
        width = 0.8 / len(bars)
        for number, (side, name, label, color) in enumerate(bars):
            positions = [index + number * width for index in range(len(shapes))]
            axes.bar(positions, [sides[side][name] for sides in shapes.values()], width, label=label, color=color)
        axes.set_xticks(
            [index + 0.4 - width / 2 for index in range(len(shapes))], list(shapes), rotation=30, ha="right"
        )
        axes.set_yscale("log")
        axes.set_title(title, fontsize=10)
        axes.legend(fontsize=8)
        axes.grid(axis="y", alpha=0.3)
    figure.savefig(path, dpi=130)
    pyplot.close(figure)
