"""Writes what replication takes: a JSON file with every figure, a page with a table and bars, a plot."""

from __future__ import annotations

import json
from pathlib import Path

from bench.ratios import Rounds, bars, medians_of, plot, table
from bench.replication import ReplicationSizes
from bench.report import machine

__all__ = ["replication_page", "write_replication_report"]


def write_replication_report(folder: Path, rounds: Rounds, sizes: ReplicationSizes) -> Path:
    """Returns the page that was written."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"machine": machine(), "sizes": sizes._asdict(), "rounds": rounds}
    (folder / "replication.json").write_text(json.dumps(figures, indent=1) + "\n")
    page = folder / "replication.md"
    page.write_text(replication_page(rounds, sizes))
    plot(folder / "replication.png", rounds)
    return page


def replication_page(rounds: Rounds, sizes: ReplicationSizes) -> str:
    medians = medians_of(rounds)
    lines = [
        "# Replication: barnabas and Apache Kafka 4.3.1 on the same machine",
        "",
        f"Written by `python -m bench --only replication` ({machine()['cores']} cores, Python {machine()['python']}, "
        f"rounds of each side in turn: {len(rounds['barnabas'])}). Absolute times depend on the machine; the ratio is "
        "what counts: above 1, barnabas is better.",
        "",
        *_explanation(sizes),
        "",
        "![figures](replication.png)",
        "",
        *table(medians),
        "",
        "## Bars",
        "",
        "At least as good as Kafka in each:",
        "",
        *bars(medians),
        "",
    ]
    return "\n".join(lines)


def _explanation(sizes: ReplicationSizes) -> list[str]:
    return [
        f"- Following: one broker leads {sizes.partitions:,} partitions with a record in each; the additional "
        f"memory of a follower for each of them, and its CPU in {sizes.idle_s:g} s.",
        "- Leaders move: that broker receives SIGTERM, and another time SIGKILL; the time until each of the partitions "
        "has accepted a record with `acks=all` from another leader. A killed broker is noticed after "
        "`broker.session.timeout.ms`, 3 s for both sides.",
        f"- Producing: Kafka's `kafka-producer-perf-test` with `acks=all`, {sizes.records:,} records of 1 KB to six "
        f"partitions with three replicas; then {sizes.slow_rate:,} a second.",
        f"- Moving: four partitions with {sizes.moved_mb:,} MB in all are reassigned from one broker to two others.",
        "",
        "One controller and three brokers share the cores with the client. Kafka's nodes have the options of Kafka's "
        "own start script, with a heap of up to 1 GiB. How it is measured: "
        "[bench/replication.py](../../bench/replication.py).",
    ]
