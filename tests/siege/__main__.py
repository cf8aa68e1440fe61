"""``python -m tests.siege --kind ours``: runs the catalogue of hostile inputs against a node, and compares the effects
with the bounds.

Kinds: ours, kafka, or both (one after the other, in the same run). With ``--write`` the table of docs/benchmarks is
rewritten from the results.
"""

from __future__ import annotations

import argparse
import re
import signal
import sys
import tempfile
import time
from itertools import count
from pathlib import Path

from tests.siege.catalogue import ENTRIES
from tests.siege.entry import Entry
from tests.siege.report import line_of, write_report
from tests.siege.run import Besieged, Outcome, besiege, besieged_node, besieged_worker
from tests.siege.stage import REST, running_stage, running_worker

__all__: list[str] = []


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.siege", description=__doc__)
    parser.add_argument("--kind", choices=("ours", "kafka", "both"), default="ours")
    parser.add_argument("--seconds", type=float, default=2.0, help="how long each entry runs")
    parser.add_argument("--seed", type=int, default=None, help="seed of the random choices; random by default")
    parser.add_argument("--only", default="", help="a regular expression for the names of entries")
    parser.add_argument("--list", action="store_true", help="print the names of the entries and stop")
    parser.add_argument("--write", action="store_true", help="write the table in docs/benchmarks")
    parser.add_argument("--data", type=Path, default=None, help="a new folder for logs and data, which is kept")
    given = parser.parse_args()
    entries = [entry for entry in ENTRIES if re.search(given.only, entry.name)]
    if given.list:
        print("\n".join(entry.name for entry in entries))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # The node is then stopped, as by Ctrl-C.
    seed = given.seed if given.seed is not None else int(time.time())
    folder = given.data or Path(tempfile.mkdtemp(prefix="barnabas-siege-"))
    kinds = ("ours", "kafka") if given.kind == "both" else (given.kind,)
    print(f"seed {seed}, {len(entries)} entries of {given.seconds} s; logs of the nodes: {folder}", flush=True)
    results = {}
    for kind in kinds:
        results[kind] = _run(kind, folder / kind, entries, given.seconds, seed, writes=given.write)
    return 1 if any(outcome.failures() for outcome in results.get("ours", ())) else 0


def _run(kind: str, folder: Path, entries: list[Entry], seconds: float, seed: int, *, writes: bool) -> list[Outcome]:
    def report(outcome: Outcome) -> None:
        print(line_of(kind, outcome), flush=True)
        if writes:  # Immediately, because a run may be long and may be stopped.
            write_report({kind: [outcome]}, seconds=seconds, seed=seed)

    def carry_out(target: Besieged, some: list[Entry]) -> list[Outcome]:
        return besiege(target, scene, some, seconds=seconds, seed=seed, report=report)

    has_one_loop = kind == "ours"
    of_worker = [entry for entry in entries if entry.listener == REST]
    of_node = [entry for entry in entries if entry.listener != REST]
    outcomes: list[Outcome] = []
    stages = count(1)
    while of_node or of_worker:  # After an entry that ended the stage, a new stage follows.
        with running_stage(folder / str(next(stages)), kind) as (node, scene):
            if of_node:
                done = carry_out(besieged_node(node, scene, has_one_loop=has_one_loop), of_node)
                outcomes += done
                of_node = of_node[len(done) :]
                if done[-1].why_over:
                    node.process.kill()
                    continue
            while of_worker:
                with running_worker(folder / f"worker-{len(of_worker)}", kind, scene) as worker:
                    scene.ports[REST] = worker.port
                    done = carry_out(besieged_worker(worker, scene, has_one_loop=has_one_loop), of_worker)
                    outcomes += done
                    of_worker = of_worker[len(done) :]
                    if done[-1].why_over:
                        worker.kill()
    broken = sum(bool(outcome.failures()) for outcome in outcomes)
    print(f"{kind}: {len(outcomes)} entries, {broken} exceed a bound", flush=True)
    return outcomes


if __name__ == "__main__":
    sys.exit(main())
