"""``python -m bench.flights_by_hand``: the three connectors of ``make run`` beside the same jobs written by hand.

A node holds all flights. Then each side in turn reads both topics from their beginning, in batches of the same size and
with the same settings of the JVM: a worker with the three connectors, and a program on PySpark alone. Both begin
without a running Spark, and their results are checked. CPU time is that of all processes of a side, from its start to
its end; the node's is not counted.

The program produces the same results: flights once by row number and the delays computed from them, files, and rows of
a database. It is plain Spark: no value is checked, a job that fails is not restarted, and its state is not visible.
"""

from __future__ import annotations

import argparse
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.connect.decide.validation.connector_rules import consumer_group
from barnabas.connect.rest.connect_client import ConnectClient
from barnabas.pipelines.flights.child_process import free_ports
from barnabas.pipelines.flights.dataset import FLIGHT_COUNT, find_dataset
from barnabas.pipelines.flights.flight_connectors import FlightConnectors, connector_configs
from barnabas.pipelines.flights.flight_producer import FlightProducer
from barnabas.pipelines.flights.flight_topic import FlightTopics
from barnabas.pipelines.flights.local_node import LocalNode
from barnabas.pipelines.flights.local_worker import SPARK_SETTINGS, LocalWorker
from barnabas.pipelines.flights.run_directory import RunDirectory
from barnabas.spark.connector_jars import cache_directory, connector_jars
from barnabas.spark.java_runtime import find_java
from barnabas.spark.spark_session import spark_session

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

_COLUMNS = (
    "row BIGINT, carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING, time_hour TIMESTAMP, "
    "dep_delay INT, arr_delay INT, distance INT"
)
_POLL_S = 0.25


@dataclass(frozen=True, slots=True)
class Figures:
    """Seconds: until Spark ran, from then until all was done, and CPU time until the end of the side's processes."""

    spark_s: float
    work_s: float
    cpu_s: float


# ---- by hand: this part is the other program


def run_by_hand(bootstrap_server: str, pattern: str, folder: Path, batch: int) -> None:
    """Run the three jobs until they have processed all records. Print a line when Spark runs and at the end."""
    java = find_java(os.environ)
    (folder / "spark").mkdir()
    with spark_session(
        "by-hand",
        master="local[*]",
        jars=connector_jars(cache_directory(os.environ), java, lambda _: None),
        java=java,
        work=folder / "spark",
        settings={**SPARK_SETTINGS, "spark.sql.sources.partitionOverwriteMode": "dynamic"},
    ) as spark:
        print("running", flush=True)

        def records() -> DataFrame:
            return (
                spark.readStream.format("kafka")
                .option("kafka.bootstrap.servers", bootstrap_server)
                .option("subscribePattern", pattern)
                .option("startingOffsets", "earliest")
                .option("maxOffsetsPerTrigger", batch)
                .load()
            )

        queries = [job(records(), folder) for job in (delays_by_hand, files_by_hand, database_by_hand)]
        for query in queries:
            query.processAllAvailable()
        print("done", flush=True)
        for query in queries:
            query.stop()


def parsed(records: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    value = F.from_json(F.col("value").cast("string"), _COLUMNS)
    return records.select("topic", "partition", "offset", value.alias("value")).where("value.row IS NOT NULL")


def delays_by_hand(records: DataFrame, folder: Path) -> StreamingQuery:
    from pyspark.sql import functions as F

    known, target = str(folder / "flights"), str(folder / "delays")

    def merge(batch: DataFrame, number: int) -> None:
        spark = batch.sparkSession
        batch.persist()
        months = [row["month"] for row in batch.select("month").distinct().collect()]
        flights = batch
        if Path(known).exists():
            former = spark.read.schema(batch.schema).parquet(known).where(F.col("month").isin(months))
            flights = batch.unionByName(former)
        merged = flights.dropDuplicates(["row"]).persist()
        merged.count()  # Spark refuses to overwrite files that it still has to read.
        merged.write.partitionBy("month").mode("overwrite").parquet(known)
        delay = F.col("dep_delay")
        hours = merged.groupBy("carrier", "time_hour", "month").agg(
            F.count(F.lit(1)).alias("flights"),
            F.count(delay).alias("departed"),
            F.mean(delay).alias("dep_delay_mean"),
            F.percentile(delay, F.lit(0.95)).alias("dep_delay_p95"),
        )
        hours.write.partitionBy("month").mode("overwrite").parquet(target)
        merged.unpersist()
        batch.unpersist()

    month = F.date_format("value.time_hour", "yyyy-MM").alias("month")
    rows = parsed(records).select("value.row", "value.carrier", "value.time_hour", "value.dep_delay", month)
    return rows.writeStream.foreachBatch(merge).option("checkpointLocation", str(folder / "checkpoint-delays")).start()


def files_by_hand(records: DataFrame, folder: Path) -> StreamingQuery:
    rows = parsed(records).select("value.*", "topic", "partition", "offset")
    return (
        rows.writeStream.format("parquet")
        .option("path", str(folder / "landed"))
        .option("checkpointLocation", str(folder / "checkpoint-files"))
        .start()
    )


def database_by_hand(records: DataFrame, folder: Path) -> StreamingQuery:
    columns = [column.split()[0] for column in _COLUMNS.split(", ")]
    names = ", ".join(f'"{column}"' for column in columns)
    database = folder / "flights.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute(f'CREATE TABLE flights ({names}, PRIMARY KEY ("row"))')
        connection.commit()
    marks = ", ".join("?" for _ in columns)

    def upsert(batch: DataFrame, number: int) -> None:
        rows: pd.DataFrame = batch.toPandas()
        rows["time_hour"] = rows["time_hour"].astype(str)
        values = rows.astype(object).where(rows.notna(), None)
        with closing(sqlite3.connect(database)) as connection:
            connection.executemany(
                f"INSERT OR REPLACE INTO flights VALUES ({marks})", values.itertuples(index=False, name=None)
            )
            connection.commit()

    records.sparkSession.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    rows = parsed(records).select("value.*")
    checkpoint = str(folder / "checkpoint-database")
    return rows.writeStream.foreachBatch(upsert).option("checkpointLocation", checkpoint).start()


# ---- the comparison


def measure_by_hand(topics: FlightTopics, folder: Path, batch: int) -> Figures:
    folder.mkdir()
    command = [sys.executable, "-m", "bench.flights_by_hand", "--batch", str(batch)]
    command += ["--by-hand", topics.bootstrap_server, topics.pattern, str(folder)]
    began, cpu_before = time.perf_counter(), _cpu_of_children()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        moments = {line.strip(): time.perf_counter() for line in process.stdout}
    if process.returncode != 0 or "done" not in moments:
        raise SystemExit(f"the program by hand failed with status {process.returncode}")
    spark = moments["running"]
    return Figures(spark - began, moments["done"] - spark, _cpu_of_children() - cpu_before)


def measure_connect(topics: FlightTopics, folder: Path, batch: int) -> Figures:
    directory = RunDirectory(folder)
    directory.open()
    worker = LocalWorker(directory, topic=topics.first.name, cores="*", keep=False)
    began, cpu_before = time.perf_counter(), _cpu_of_children()
    try:
        worker.start(topics.bootstrap_server)
        with ConnectClient(worker.url) as client:
            worker.await_ready(client)
            configs = connector_configs(topics, directory, batch)
            connectors = FlightConnectors(client, configs, worker.process.check_alive, print)
            connectors.create()
            connectors.await_running()
            spark = time.perf_counter()
            ends = topics.ends()
            while not all(_is_done(topics, name, ends) for name in configs):
                connectors.check_tasks(every=1)
                time.sleep(_POLL_S)
            done = time.perf_counter()
            connectors.remove()
    finally:
        worker.process.stop()
        directory.close()
    for name in configs:
        topics.forget_group(consumer_group(name))
    return Figures(spark - began, done - spark, _cpu_of_children() - cpu_before)


def check(folder: Path, delays: str, flights: int) -> None:
    """Exit if the results of a side don't have each flight once."""
    import pandas as pd

    with closing(sqlite3.connect(folder / "flights.db")) as connection:
        ((rows,),) = connection.execute("SELECT count(*) FROM flights")
    found = {
        "flights of the delays": int(pd.read_parquet(folder / delays, columns=["flights"])["flights"].sum()),
        "rows of the files": len(pd.read_parquet(folder / "landed", columns=["row"])),
        "rows of the database": rows,
    }
    wrong = {name: count for name, count in found.items() if count != flights}
    if wrong:
        raise SystemExit(f"{folder.name}: {wrong} instead of {flights:,}")


def _is_done(topics: FlightTopics, connector: str, ends: dict[tuple[str, int], int]) -> bool:
    committed = topics.committed(consumer_group(connector))
    return all(committed.get(partition, 0) >= end for partition, end in ends.items())


def _cpu_of_children() -> float:
    """Return the CPU time of children that have ended, and of theirs."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


@contextmanager
def _filled_topics(folder: Path, flights: int) -> Iterator[FlightTopics]:
    """Start a node whose topics have all flights."""
    directory = RunDirectory(folder)
    with ExitStack() as stack:
        directory.open()
        stack.callback(directory.close)
        node = LocalNode(directory, port=None, keep=False, worker_port=free_ports(1)[0])
        stack.callback(node.process.stop)
        node.start()
        node.await_ready()
        topics = FlightTopics(node.bootstrap_server, "flights", flights=flights, partitions=4)
        topics.first.create(4)
        producer = FlightProducer(topics, find_dataset(flights=flights), rate=None, resume=False, notify=print)
        producer.start()
        producer.join()
        if producer.error is not None:
            raise producer.error
        yield topics


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.flights_by_hand", description=__doc__)
    parser.add_argument("--flights", type=int, default=FLIGHT_COUNT)
    parser.add_argument("--batch", type=int, default=180_000, help="records in a batch (default 180000)")
    parser.add_argument("--rounds", type=int, default=1, help="each side goes first in every second one (default 1)")
    parser.add_argument("--by-hand", nargs=3, metavar=("BOOTSTRAP", "PATTERN", "FOLDER"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.by_hand:
        bootstrap_server, pattern, folder = options.by_hand
        run_by_hand(bootstrap_server, pattern, Path(folder), options.batch)
        return
    sides: list[tuple[str, Callable[[FlightTopics, Path, int], Figures], str]] = [
        ("connectors", measure_connect, "delays_by_carrier_hour"),
        ("by hand", measure_by_hand, "delays"),
    ]
    with (
        tempfile.TemporaryDirectory(prefix="barnabas-bench-") as base,
        _filled_topics(Path(base, "node"), options.flights) as topics,
    ):
        print(f"{'side':>10}  {'Spark runs, s':>13}  {'then done, s':>12}  {'CPU, s':>6}  {'load':>5}")
        for number in range(options.rounds):
            for name, measure, delays in sides if number % 2 == 0 else reversed(sides):
                folder = Path(base, f"{name.replace(' ', '-')}-{number}")
                figures = measure(topics, folder, options.batch)
                check(folder, delays, options.flights)
                print(
                    f"{name:>10}  {figures.spark_s:13.1f}  {figures.work_s:12.1f}  {figures.cpu_s:6.1f}  "
                    f"{os.getloadavg()[0]:5.1f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
