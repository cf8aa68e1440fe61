"""``python -m bench.flights``: what a micro-batch of the flights pipeline costs while its tables grow.

The data set is merged in the order of the source, without a broker in between, so that the figures are those of the
upsert alone. A micro-batch rewrites the months that it touches; if its cost grew with all that came before, the last
micro-batches would show it.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from barnabas.pipelines.flights.dataset import FLIGHT_COUNT, find_dataset
from barnabas.pipelines.flights.flight_tables import FlightTables
from barnabas.pipelines.flights.local_worker import SPARK_SETTINGS
from barnabas.spark.java_runtime import find_java
from barnabas.spark.spark_session import spark_session

_WARM_UP = 2
"""Micro-batches at the start that are not counted: they load classes and compile."""


@dataclass(frozen=True, slots=True)
class MicroBatch:
    flights_before: int
    months: int
    seconds: float


def measure(folder: Path, *, flights: int, batch: int) -> Iterator[MicroBatch]:
    source = find_dataset(flights=flights).read()
    (folder / "spark").mkdir()
    with spark_session(
        "bench",
        master="local[*]",
        jars=[],
        java=find_java(os.environ),
        work=folder / "spark",
        settings=SPARK_SETTINGS,
    ) as spark:
        tables = FlightTables(folder)
        lines = folder / "batch.json"
        merged = 0
        while rows := list(islice(source, batch)):
            lines.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
            started = time.perf_counter()
            tables.upsert(spark.read.text(str(lines)))
            months = len({str(row["time_hour"])[:7] for row in rows})
            yield MicroBatch(merged, months, time.perf_counter() - started)
            merged += len(rows)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.flights", description=__doc__)
    parser.add_argument("--flights", type=int, default=FLIGHT_COUNT)
    parser.add_argument("--batch", type=int, default=15_000, help="flights in a micro-batch (default 15000)")
    options = parser.parse_args()
    found: list[MicroBatch] = []
    print(f"{'flights before':>14}  {'months touched':>14}  {'seconds':>7}")
    with tempfile.TemporaryDirectory(prefix="barnabas-bench-") as folder:
        for micro_batch in measure(Path(folder), flights=options.flights, batch=options.batch):
            found.append(micro_batch)
            print(f"{micro_batch.flights_before:14,}  {micro_batch.months:14}  {micro_batch.seconds:7.2f}", flush=True)
    counted = found[_WARM_UP:]
    half = len(counted) // 2
    if half:
        early = statistics.median(micro_batch.seconds for micro_batch in counted[:half])
        late = statistics.median(micro_batch.seconds for micro_batch in counted[-half:])
        print(f"median of the earlier half {early:.2f} s, of the later half {late:.2f} s: ratio {late / early:.2f}")


if __name__ == "__main__":
    main()
