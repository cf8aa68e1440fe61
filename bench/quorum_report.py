"""Writes what a quorum of controllers takes: a JSON file with every figure, a page with a table and bars, a plot."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from bench.quorum import QuorumSizes
from bench.ratios import Rounds, bars, medians_of, plot, short, table
from bench.report import machine

__all__ = ["quorum_page", "write_quorum_report"]

_FAILOVER_S = 1.2
"""The default election time-out, and 200 ms."""


def write_quorum_report(folder: Path, rounds: Rounds, sizes: QuorumSizes) -> Path:
    """Returns the page that was written."""
    folder.mkdir(parents=True, exist_ok=True)
    figures = {"machine": machine(), "sizes": sizes._asdict(), "rounds": rounds}
    (folder / "quorum.json").write_text(json.dumps(figures, indent=1) + "\n")
    page = folder / "quorum.md"
    page.write_text(quorum_page(rounds, sizes))
    plot(folder / "quorum.png", rounds)
    return page


def quorum_page(rounds: Rounds, sizes: QuorumSizes) -> str:
    medians = medians_of(rounds)
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
        *table(medians),
        "",
        "## Bars",
        "",
        "At least as fast as Kafka in each:",
        "",
        *bars(medians),
        "",
        "And on its own:",
        "",
        _within_election(medians["barnabas"], sizes),
        "",
    ]
    return "\n".join(lines)


def _explanation(sizes: QuorumSizes) -> list[str]:
    return [
        "- Start: three formatted voters are launched together; the time until one has committed a change "
        f"({sizes.starts} times).",
        "- Forwarding: a broker without the controller role forwards each request to the active one of three "
        f"controllers. One client sends {sizes.requests_of_one} of a kind, one after another, and 16 clients "
        f"{sizes.requests_of_each} each, after a warm-up. Kafka's broker has one request in progress at the "
        "controller, barnabas up to 16. Kafka's controller delays a single change for up to "
        "`controller.quorum.append.linger.ms`, 25 ms, in case more arrive.",
        "- Failover: SIGKILL to the active controller; the time until a broker has answered a change that was "
        f"requested after it ({sizes.kills} times). The sockets of a killed process are closed immediately: the time "
        "until a silent machine is noticed is not included.",
        f"- The same with {sizes.failover_partitions:,} partitions in the log; the time until one of the two remaining "
        f"controllers has committed a change ({sizes.failover_kills} times). No broker runs.",
        "- Restart: one voter is killed and started; the time until it has committed a change "
        f"({sizes.restarts} times each): without data, and with all of this in one snapshot.",
        "",
        "Kafka's nodes have the options of Kafka's own start script, with a heap of up to 1 GiB. All processes share "
        "the cores, client included. How it is measured: [bench/quorum.py](../../bench/quorum.py).",
    ]


def _within_election(ours: Mapping[str, float], sizes: QuorumSizes) -> str:
    """What docs/kips/kip-595-quorum.md promises of every failover."""
    name = f"failover with {sizes.failover_partitions:,} partitions in the log, longest, s"
    holds = "holds" if ours[name] <= _FAILOVER_S else "**does not hold yet**"
    return (
        f"- {holds}: {name}: {short(ours[name])}, at most {_FAILOVER_S} (`controller.quorum.election.timeout.ms` and "
        "200 ms)"
    )
