"""``python -m bench``: compare a real Kafka 4.3.1 and barnabas on this machine.

``--only authorizer`` compares the authorizers, called directly and over the wire, and writes their page; ``--only
wire`` measures only its second part again. ``--only admin`` compares the requests of an operator's tools, times
the plan of a large cluster, and writes their page. ``--only quorum`` compares quorums of controllers: their start,
failover, forwarding and snapshots; ``--only replication`` compares three brokers with replicas; ``--only connect``
compares workers of Connect, also with plain PySpark; ``--only first-steps`` compares what a new user meets first, also
with kcat and small brokers; ``--only transactions`` compares commits of small and large transactions; ``--only groups``
compares groups of all kinds: rebalances, share consuming, commits, memory; ``--only pipelines`` compares pipelines in
SQL with PySpark written by hand, decoding with ``from_avro``, and measures changes of PostgreSQL and workers with many
connectors; ``--only turns`` measures how long our controller holds the event loop, without Kafka. ``--quick`` makes
quorum, replication, connect, first-steps, transactions, groups and pipelines small: a check that they work, not a
comparison.

Rounds alternate, so that a change of the machine's speed affects both. Everything stays on loopback and
stops automatically; the folders are removed at the end.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path

from bench import connect, groups, replication, transactions
from bench.admin import measure_admin
from bench.admin_plan import measure_plans
from bench.admin_report import write_admin_report
from bench.authorized_wire import measure_wire
from bench.authorizer import measure_authorizer
from bench.authorizer_report import read_shapes, write_authorizer_report
from bench.codec import measure_codec
from bench.connect_report import write_connect_report
from bench.first_steps import QUICK as QUICK_FIRST_STEPS
from bench.first_steps import FirstStepsSizes, measure_first_steps
from bench.first_steps_report import write_first_steps_report
from bench.groups_report import write_groups_report
from bench.measurements import Figures, folder_for, measure
from bench.pipelines import QUICK as QUICK_PIPELINES
from bench.pipelines import PipelineSizes, measure_pipelines
from bench.pipelines_report import write_pipelines_report
from bench.quorum import QUICK, QuorumSizes, measure_quorum
from bench.quorum_report import write_quorum_report
from bench.replication_report import write_replication_report
from bench.report import write_report
from bench.sides import SIDES, make_node
from bench.transactions_report import write_transactions_report
from bench.turns import SHAPES, measure_turns
from bench.turns_report import write_turns_report
from tests.peers import require_peer

QUICK_PARTS = ("quorum", "replication", "connect", "first-steps", "transactions", "groups", "pipelines")
PROJECT = Path(__file__).resolve().parent.parent


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="rounds of each side (default 3)")
    parser.add_argument("--records", type=int, default=500_000, help="records of 1 KB in each producer run")
    parser.add_argument("--topics", type=int, default=10_000, help="one-partition topics to create")
    parser.add_argument(
        "--only",
        choices=["nodes", "codec", "authorizer", "wire", "admin", *QUICK_PARTS, "turns"],
        help="leave the other parts out",
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"with --only {', '.join(QUICK_PARTS)}: one small round, to .cache/bench",
    )
    parser.add_argument("--output", type=Path, help="folder of the pages (default docs/benchmarks)")
    options = parser.parse_args()
    if options.quick and options.only not in QUICK_PARTS:
        parser.error(f"--quick needs one of --only {', '.join(QUICK_PARTS)}: add one of them, or omit --quick")
    if options.output is None:
        options.output = PROJECT / (".cache/bench" if options.quick else "docs/benchmarks")
    if options.only in (None, "turns"):
        turns = {shape.name: measure_turns(shape) for shape in SHAPES}
        print(f"written: {write_turns_report(options.output, turns)}", flush=True)
        if options.only == "turns":
            return
    require_peer()
    if options.only in (None, "authorizer", "wire"):
        shapes = read_shapes(options.output) if options.only == "wire" else measure_authorizer()
        wire = measure_wire(min(options.rounds, 2))
        print(f"written: {write_authorizer_report(options.output, shapes, wire)}", flush=True)
    if options.only in (None, "admin"):
        rounds_of_each = min(options.rounds, 2)
        latencies = measure_admin(rounds_of_each)
        page = write_admin_report(options.output, latencies, measure_plans(), rounds_of_each)
        print(f"written: {page}", flush=True)
    if options.only in (None, "quorum"):
        sizes = QUICK if options.quick else QuorumSizes()
        quorums = measure_quorum(1 if options.quick else min(options.rounds, 2), sizes)
        page = write_quorum_report(options.output, quorums, sizes)
        print(f"written: {page}", flush=True)
    if options.only in (None, "replication"):
        replicated = replication.QUICK if options.quick else replication.ReplicationSizes()
        figures_of = replication.measure_replication(1 if options.quick else min(options.rounds, 2), replicated)
        print(f"written: {write_replication_report(options.output, figures_of, replicated)}", flush=True)
    if options.only in (None, "connect"):
        of_connect = connect.QUICK if options.quick else connect.ConnectSizes()
        connected = connect.measure_connect(1 if options.quick else min(options.rounds, 2), of_connect)
        print(f"written: {write_connect_report(options.output, connected, of_connect)}", flush=True)
    if options.only in (None, "first-steps"):
        steps = QUICK_FIRST_STEPS if options.quick else FirstStepsSizes()
        found = measure_first_steps(1 if options.quick else options.rounds, steps)
        print(f"written: {write_first_steps_report(options.output, found, steps)}", flush=True)
    if options.only in (None, "transactions"):
        of_transactions = transactions.QUICK if options.quick else transactions.TransactionSizes()
        costs = transactions.measure_transactions(1 if options.quick else min(options.rounds, 2), of_transactions)
        print(f"written: {write_transactions_report(options.output, costs, of_transactions)}", flush=True)
    if options.only in (None, "groups"):
        of_groups = groups.QUICK if options.quick else groups.GroupSizes()
        of_parts = groups.measure_groups(1 if options.quick else min(options.rounds, 2), of_groups)
        print(f"written: {write_groups_report(options.output, of_parts)}", flush=True)
    if options.only in (None, "pipelines"):
        of_pipelines = QUICK_PIPELINES if options.quick else PipelineSizes()
        of_all = measure_pipelines(1 if options.quick else min(options.rounds, 2), of_pipelines)
        print(f"written: {write_pipelines_report(options.output, of_all)}", flush=True)
    if options.only in ("authorizer", "wire", "admin", *QUICK_PARTS):
        return
    codec = {} if options.only == "nodes" else measure_codec()
    for name, value in codec.items():
        print(f"codec: {name} {value:,.0f}", flush=True)
    if options.only == "codec":
        return
    rounds: dict[str, list[Figures]] = {side: [] for side in SIDES}
    base = Path(tempfile.mkdtemp(prefix="barnabas-bench-"))
    try:
        for number in range(options.rounds):
            for side in SIDES if number % 2 == 0 else reversed(SIDES):
                folder = folder_for(base, side, number)
                print(f"round {number + 1} of {options.rounds}: {side}", flush=True)
                figures = measure(make_node(side, folder), records=options.records, topics=options.topics)
                rounds[side].append(figures)
                for name, value in figures.items():
                    print(f"  {name:34} {value:12.2f}", flush=True)
                shutil.rmtree(folder, ignore_errors=True)
    finally:
        shutil.rmtree(base, ignore_errors=True)
    if options.only is None:
        page = write_report(options.output, rounds, codec, {"records": options.records, "topics": options.topics})
        print(f"written: {page}")


if __name__ == "__main__":
    main()
