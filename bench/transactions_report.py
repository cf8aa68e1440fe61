"""Writes what transactions cost: a JSON file with every figure, and a page with a table."""

from __future__ import annotations

import json
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.report import machine
from bench.transactions import TransactionSizes

__all__ = ["write_transactions_report"]

_HIGHER_IS_BETTER = "/s"


def write_transactions_report(
    folder: Path, rounds: Mapping[str, Sequence[Mapping[str, float]]], sizes: TransactionSizes
) -> Path:
    """Returns the page that was written."""
    folder.mkdir(parents=True, exist_ok=True)
    document = {"machine": machine(), "sizes": sizes._asdict(), "rounds": rounds}
    (folder / "transactions.json").write_text(json.dumps(document, indent=1) + "\n")
    page = folder / "transactions.md"
    page.write_text(_page(rounds, sizes))
    return page


def _page(rounds: Mapping[str, Sequence[Mapping[str, float]]], sizes: TransactionSizes) -> str:
    this = machine()
    lines = [
        "# Transactions: barnabas and Apache Kafka 4.3.1 on the same machine",
        "",
        f"Written by `python -m bench --only transactions` ({this['cores']} cores, Python {this['python']}, rounds of "
        f"each side in turn: {len(rounds['kafka'])}; {sizes.transactions:,} transactions of each size). One node of "
        "each side, then three brokers and a controller; one producer of librdkafka, which sends and flushes the "
        "records of a transaction, then commits it. A broker that is killed is missed after 3 s. "
        "The ratio counts: above 1, barnabas is better. How it is measured: "
        "[bench/transactions.py](../../bench/transactions.py).",
        "",
        "| | Kafka | barnabas | ratio |",
        "|---|---:|---:|---:|",
    ]
    for name in rounds["kafka"][0]:
        medians = {side: statistics.median(figures[name] for figures in rounds[side]) for side in rounds}
        theirs, ours = medians["kafka"], medians["barnabas"]
        ratio = ours / theirs if name.endswith(_HIGHER_IS_BETTER) else theirs / max(ours, 1e-9)
        lines.append(f"| {name} | {theirs:,.3g} | {ours:,.3g} | {ratio:.2f} |")
    return "\n".join([*lines, ""])
