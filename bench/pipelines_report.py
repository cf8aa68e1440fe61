"""Writes the costs of pipelines: a JSON file with every figure, and a page with a table for each part."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.ratios import medians_of, ratio, short
from bench.report import machine

__all__ = ["Part", "pipelines_page", "read_pipelines", "write_pipelines_report"]

_FILE = "pipelines.json"
_OVERHEAD_MAX = 0.10
"""Over PySpark written by hand: of time."""
_DIFFERENCES = (
    "What differs from the published queries, because Structured Streaming joins two streams only where rows are "
    "added, and has no windows over rows:",
    "",
    "- Queries 4 and 6 are two pipelines each. The first, the same for both, joins auctions and bids and adds the "
    "winning bid of each closed auction to a topic (`winning_bids`). The second reads it and replaces an average "
    "when it changes.",
    "- The state of query 6 has all sales of a seller, of which the last ten count, so it grows with the sales.",
    "- The state of query 3 has the persons and auctions that it selects, and grows with them: the join has no "
    "bound in time.",
    "- The join of the winning bids has a bound in time, which is longer than any auction is open. Without it, "
    "the state would have all bids.",
)


class Part(NamedTuple):
    load: float
    """The machine's load average of a minute before the part."""
    sizes: Mapping[str, object]
    rounds: Mapping[str, Sequence[Mapping[str, float]]]
    """By side, the figures of each round."""


def read_pipelines(folder: Path) -> dict[str, Part]:
    """Return the figures of all parts that were measured."""
    file = folder / _FILE
    if not file.exists():
        return {}
    return {name: Part(**part) for name, part in json.loads(file.read_text())["parts"].items()}


def write_pipelines_report(folder: Path, parts: Mapping[str, Part]) -> Path:
    """Return the page that was written."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"machine": machine(), "parts": {name: part._asdict() for name, part in parts.items()}}
    (folder / _FILE).write_text(json.dumps(figures, indent=1) + "\n")
    page = folder / "pipelines.md"
    page.write_text(pipelines_page(parts))
    return page


def pipelines_page(parts: Mapping[str, Part]) -> str:
    this = machine()
    lines = [
        "# Pipelines",
        "",
        f"Written by `python -m bench --only pipelines` ({this['cores']} cores, Python {this['python']}). Tables "
        "have the medians of the rounds. Absolute figures depend on the machine and on its other work; the load "
        "average of the minute before each part is stated. Without other work it is below 1.",
        "",
    ]
    writers = {"nexmark": _nexmark, "decoding": _decoding, "changes": _changes, "workers": _workers}
    for name, write in writers.items():
        if name in parts:
            lines += [*write(parts[name]), ""]
    return "\n".join(lines)


def _measured(part: Part, rounds: int) -> str:
    return f"{rounds} {'round' if rounds == 1 else 'rounds'}; load average before: {part.load:.1f}."


def _nexmark(part: Part) -> list[str]:
    medians, rounds = medians_of(part.rounds), len(part.rounds["barnabas"])
    source = medians["source"]
    return [
        "## NEXMark",
        "",
        f"Queries 0 to 8 ([texts](../../bench/nexmark)) over {part.sizes['events']:,} events in topics with four "
        "partitions, through `SqlPipeline` and by queries that are written by hand on PySpark "
        "([bench/nexmark/nexmark_plain.py](../../bench/nexmark/nexmark_plain.py)), with the same settings, in turn. "
        "The clock starts when the status "
        "says that the task runs, and ends when the output topic has all rows; the rows are counted. A ratio above 1 "
        f"means that the pipeline is faster. {_measured(part, rounds)}",
        "",
        "| | PySpark by hand | SqlPipeline | ratio |",
        "|---|---:|---:|---:|",
        *(_compared(name, medians) for name in medians["barnabas"]),
        "",
        *_bars(medians),
        "",
        *_DIFFERENCES,
        "",
        f"`NexmarkSource` wrote the events as JSON, by one task: {short(source['records/s'])} events/s, "
        f"{short(source['CPU, s a million records'])} s of CPU for a million.",
    ]


def _compared(name: str, medians: Mapping[str, Mapping[str, float]]) -> str:
    plain, ours = medians["spark"][name], medians["barnabas"][name]
    return f"| {name} | {short(plain)} | {short(ours)} | {short(_ratio(name, medians))} |"


def _ratio(name: str, medians: Mapping[str, Mapping[str, float]]) -> float:
    return ratio(name, {"kafka": medians["spark"], "barnabas": medians["barnabas"]})


def _bars(medians: Mapping[str, Mapping[str, float]]) -> list[str]:
    lines = []
    for name in medians["barnabas"]:
        query, _, figure = name.partition(", ")
        if figure == "records/s":
            more = 1 / _ratio(name, medians) - 1
            state = "holds" if more <= _OVERHEAD_MAX else "**does not hold yet**"
            lines.append(f"- {state}: {query}: at most {_OVERHEAD_MAX:.0%} more time than by hand ({more:+.1%})")
    return lines


def _decoding(part: Part) -> list[str]:
    medians = medians_of(part.rounds)
    return [
        "## Decoding",
        "",
        "Seconds to decode a million records of six fields from memory, on one core, with the settings of a worker. A "
        "converter with a registry first looks for the schema ids of a batch; that is included. Protobuf runs through "
        f"Python. Load average before: {part.load:.1f}.",
        "",
        "| | CPU | clock |",
        "|---|---:|---:|",
        *(f"| {name} | {cost['CPU']:.2f} | {cost['clock']:.2f} |" for name, cost in medians.items()),
    ]


def _changes(part: Part) -> list[str]:
    figures, rounds = medians_of(part.rounds)["barnabas"], len(part.rounds["barnabas"])
    rows, transactions = part.sizes["rows"], part.sizes["transactions"]
    return [
        "## Changes of PostgreSQL",
        "",
        f"`PostgresChanges`: a table of {rows:,} rows of six columns is read, then an update of all of them in one "
        f"transaction, then {transactions:,} inserts in transactions of their own. The changes were made while the "
        "connector was paused. Records are JSON in Debezium's envelope, without schemas. CPU is that of the worker. "
        f"{_measured(part, rounds)}",
        "",
        "| | |",
        "|---|---:|",
        *(f"| {name} | {short(value)} |" for name, value in figures.items()),
    ]


def _workers(part: Part) -> list[str]:
    medians = medians_of(part.rounds)
    counts, rounds = [*medians], len(next(iter(part.rounds.values())))
    return [
        "## A worker with many small connectors",
        "",
        "One worker, whose connectors have nothing to do: half of them write an empty topic each to Parquet, the "
        "others read a file each that has no lines. The time begins with the first request, and includes the start of "
        "Spark. Memory is that of the worker and its JVM, which has a heap of at most 2 GiB. "
        f"{_measured(part, rounds)}",
        "",
        f"| connectors | {' | '.join(counts)} |",
        f"|---|{'---:|' * len(counts)}",
        *(f"| {name} | {' | '.join(short(medians[count][name]) for count in counts)} |" for name in medians[counts[0]]),
    ]
