"""``python -m bench.pipelines PART``: measure a part of the costs of pipelines again, and write their page.

- nexmark: NEXMark's queries 0 to 8 through ``SqlPipeline`` and on PySpark written by hand, in turn;
- decoding: a registry's converters beside plain ``from_avro`` and ``from_json``, from memory;
- changes: a table of PostgreSQL and its changes to a topic;
- workers: a worker with 1, 10 and 50 connectors that have nothing to do.

The page is written from the figures of all parts.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from bench.nexmark import nexmark_runs
from bench.nexmark.nexmark_runs import NexmarkSizes, measure_nexmark
from bench.pipelines_changes import QUICK as QUICK_CHANGES
from bench.pipelines_changes import ChangeSizes, measure_changes
from bench.pipelines_decoding import measure_decoding
from bench.pipelines_report import Part, read_pipelines, write_pipelines_report
from bench.pipelines_workers import QUICK as QUICK_WORKERS
from bench.pipelines_workers import WorkerSizes, measure_workers
from tests.peers.postgresql_server import postgresql_programs

__all__ = ["PARTS", "QUICK", "PipelineSizes", "measure_pipelines"]

PARTS = ("nexmark", "decoding", "changes", "workers")

RoundsOfSides = Mapping[str, Sequence[Mapping[str, float]]]


class PipelineSizes(NamedTuple):
    nexmark: NexmarkSizes = NexmarkSizes()
    decoded: int = 1_000_000
    changes: ChangeSizes = ChangeSizes()
    workers: WorkerSizes = WorkerSizes()


QUICK = PipelineSizes(nexmark_runs.QUICK, 20_000, QUICK_CHANGES, QUICK_WORKERS)
"""Shows that everything works, and no more."""


def measure_pipelines(rounds: int, sizes: PipelineSizes, parts: Sequence[str] = PARTS) -> dict[str, Part]:
    """Return the figures of each part by side, for each round, and the load of the machine before."""
    found: dict[str, Part] = {}
    for part in parts:
        if part == "changes" and postgresql_programs() is None:
            print("pipelines: PostgreSQL is not installed, so its changes are left out: install the package postgresql")
            continue
        load = os.getloadavg()[0]
        with tempfile.TemporaryDirectory(prefix="barnabas-bench-", ignore_cleanup_errors=True) as name:
            found[part] = Part(load, _sizes_of(part, sizes), _measure_part(part, Path(name), rounds, sizes))
    return found


def _measure_part(part: str, folder: Path, rounds: int, sizes: PipelineSizes) -> RoundsOfSides:
    if part == "nexmark":
        return measure_nexmark(folder, rounds, sizes.nexmark)
    if part == "decoding":
        costs = measure_decoding(rounds, sizes.decoded)
        return {name: [{"CPU": cost.cpu_s, "clock": cost.wall_s}] for name, cost in costs.items()}
    if part == "changes":
        return {"barnabas": measure_changes(folder, rounds, sizes.changes)}
    return measure_workers(folder, rounds, sizes.workers)


def _sizes_of(part: str, sizes: PipelineSizes) -> Mapping[str, object]:
    if part == "decoding":
        return {"records": sizes.decoded}
    given: NexmarkSizes | ChangeSizes | WorkerSizes = getattr(sizes, part)
    return given._asdict()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.pipelines", description=__doc__)
    parser.add_argument("part", choices=PARTS)
    parser.add_argument("--rounds", type=int, default=2, help="rounds of each side (default 2)")
    parser.add_argument("--output", type=Path, default=Path("docs/benchmarks"), help="folder of the page")
    parser.add_argument("--quick", action="store_true", help="small sizes: a check that it works, not a measurement")
    options = parser.parse_args()
    found = measure_pipelines(options.rounds, QUICK if options.quick else PipelineSizes(), (options.part,))
    page = write_pipelines_report(options.output, {**read_pipelines(options.output), **found})
    print(f"written: {page}", flush=True)


if __name__ == "__main__":
    main()
