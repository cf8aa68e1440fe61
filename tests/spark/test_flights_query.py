"""The streaming query over a folder of JSON lines: the same upsert and checkpoint, without a broker."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.job import FlightTables, check_query, start_query

pytestmark = pytest.mark.spark


class Bench:
    """A source folder, a checkpoint and tables; each ``run`` is a process's life: start, catch up, stop."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self.checkpoint = folder / "checkpoint"
        self.tables = FlightTables(folder, scratch=folder / "scratch")
        (folder / "source").mkdir()
        self._files = 0

    def arrive(self, flights: Iterable[dict[str, Any] | str]) -> None:
        lines = [value if isinstance(value, str) else json.dumps(value) for value in flights]
        new = self.folder / "new"
        new.write_text("".join(f"{line}\n" for line in lines))
        new.rename(self.folder / "source" / f"{self._files:03}.json")
        self._files += 1

    def run(self) -> FlightTables:
        tables = FlightTables(self.folder, scratch=self.folder / "scratch")
        records = self.spark.readStream.option("maxFilesPerTrigger", 1).text(str(self.folder / "source"))
        query = start_query(records, tables, checkpoint=self.checkpoint)
        try:
            query.processAllAvailable()
        finally:
            query.stop()
        return tables

    def delays(self) -> pd.DataFrame:
        frame = pd.read_parquet(self.folder / "delays_by_carrier_hour")
        return frame.sort_values(["carrier", "time_hour"], ignore_index=True)


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


def flight(row: int, *, month: int = 7, delay: int | None = 0, carrier: str = "UA") -> dict[str, Any]:
    return {"row": row, "carrier": carrier, "time_hour": f"2013-{month:02}-01T12:00:00Z", "dep_delay": delay}


def test_a_restarted_query_goes_on_from_its_checkpoint_and_counts_duplicates_once(bench: Bench) -> None:
    bench.arrive([flight(1, delay=10), flight(2, delay=None)])
    bench.run()
    bench.arrive([flight(2, delay=None), flight(3, delay=30), flight(3, delay=30)])
    tables = bench.run()
    (row,) = bench.delays().itertuples()
    assert (row.flights, row.departed, row.not_departed) == (3, 2, 1)
    assert (row.dep_delay_mean, row.dep_delay_p95) == (20.0, 29.0)
    assert tables.flight_count == 3


def test_a_query_without_its_checkpoint_reads_all_again_and_comes_to_the_same(bench: Bench) -> None:
    bench.arrive([flight(row, month=1 + row % 3, delay=row) for row in range(100)])
    bench.arrive([flight(row, month=1 + row % 3, delay=row) for row in range(50, 150)])
    bench.run()
    before = bench.delays()
    shutil.rmtree(bench.checkpoint)
    bench.run()
    pd.testing.assert_frame_equal(bench.delays(), before)
    assert before["flights"].sum() == 150


def test_a_micro_batch_that_failed_between_the_two_tables_is_repeated_and_comes_out_right(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.arrive([flight(1, delay=5)])
    bench.run()
    bench.arrive([flight(2, delay=15)])

    def fail(*_args: object, **_settings: object) -> None:
        raise OSError("killed here")

    with monkeypatch.context() as patched:
        patched.setattr("barnabas.pipelines.flights.job.delays_by_carrier_hour", fail)
        with pytest.raises(StreamingQueryException, match="killed here"):
            bench.run()
    assert bench.delays()["flights"].sum() == 1
    assert bench.tables.flights.row_count() == 2
    bench.run()
    assert bench.delays()["flights"].sum() == 2
    assert bench.delays()["dep_delay_mean"].tolist() == [10.0]


def test_a_micro_batch_rewrites_only_the_months_that_it_touches(bench: Bench) -> None:
    bench.arrive([flight(row, month=1 + row) for row in range(12)])
    bench.run()
    before = {path: path.stat().st_ino for path in bench.folder.rglob("month=*/*.parquet")}
    bench.arrive([flight(100, month=4)])
    bench.run()
    changed = {path.parent.name for path, inode in before.items() if path.stat().st_ino != inode}
    assert changed == {"month=2013-04"}


def test_records_that_are_no_flights_are_counted_and_left_out(bench: Bench) -> None:
    bench.arrive([flight(1), "hello", '{"row": 2}'])
    tables = bench.run()
    assert tables.foreign_records == 2
    assert bench.delays()["flights"].sum() == 1


def test_a_micro_batch_of_noise_alone_makes_no_table(bench: Bench) -> None:
    bench.arrive(["hello"])
    assert bench.run().flight_count == 0
    assert not (bench.folder / "flights").exists()


def test_a_query_that_failed_is_reported_with_its_cause(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_args: object) -> None:
        raise ValueError("the cause")

    monkeypatch.setattr("barnabas.pipelines.flights.job.merged_flights", fail)
    bench.arrive([flight(1)])
    records = bench.spark.readStream.text(str(bench.folder / "source"))
    query = start_query(records, bench.tables, checkpoint=bench.checkpoint)
    with pytest.raises(StreamingQueryException):
        query.awaitTermination(60)
    with pytest.raises(PipelineError, match="the query ended: .*the cause.*spark.log"):
        check_query(query, log=bench.folder / "spark.log")
