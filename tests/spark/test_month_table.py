from __future__ import annotations

from datetime import datetime
from pathlib import Path

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from barnabas.pipelines.flights.month_table import MonthTable, by_month
from barnabas.pipelines.flights.schema import FLIGHTS

pytestmark = pytest.mark.spark

JULY, AUGUST = datetime(2013, 7, 1, 12), datetime(2013, 8, 1, 12)


@pytest.fixture
def table(tmp_path: Path) -> MonthTable:
    return MonthTable(tmp_path / "flights", FLIGHTS, scratch=tmp_path / "scratch")


def flights(spark: SparkSession, *rows: tuple[int, datetime]) -> DataFrame:
    return by_month(spark.createDataFrame([(row, "UA", hour, 1, f"{hour:%Y-%m}") for row, hour in rows], FLIGHTS), 2)


def test_a_missing_month_reads_as_empty(spark: SparkSession, table: MonthTable) -> None:
    assertDataFrameEqual(table.read(spark, ["2013-07"]), spark.createDataFrame([], FLIGHTS))


def test_written_rows_are_read_back_month_by_month(spark: SparkSession, table: MonthTable) -> None:
    table.replace(flights(spark, (1, JULY), (2, AUGUST), (3, AUGUST)), order=["row"])
    assertDataFrameEqual(table.read(spark, ["2013-08", "2013-09"]), flights(spark, (2, AUGUST), (3, AUGUST)))
    assert table.read(spark, ["2013-07", "2013-08"]).count() == 3


def test_replacing_a_month_leaves_the_others_untouched(spark: SparkSession, table: MonthTable) -> None:
    table.replace(flights(spark, (1, JULY), (2, AUGUST)), order=["row"])
    august = (table.path / "month=2013-08" / "flights.parquet").stat()
    table.replace(flights(spark, (4, JULY), (5, JULY)), order=["row"])
    assertDataFrameEqual(table.read(spark, ["2013-07"]), flights(spark, (4, JULY), (5, JULY)))
    assert (table.path / "month=2013-08" / "flights.parquet").stat().st_ino == august.st_ino


def test_a_frame_may_read_the_month_that_it_replaces(spark: SparkSession, table: MonthTable) -> None:
    table.replace(flights(spark, (1, JULY)), order=["row"])
    both = table.read(spark, ["2013-07"]).unionByName(flights(spark, (2, JULY)))
    table.replace(by_month(both, 1), order=["row"])
    assertDataFrameEqual(table.read(spark, ["2013-07"]), flights(spark, (1, JULY), (2, JULY)))


def test_leftovers_of_a_killed_process_in_the_scratch_folder_are_ignored(
    spark: SparkSession, table: MonthTable, tmp_path: Path
) -> None:
    leftover = tmp_path / "scratch" / "flights.new" / "month=2013-09"
    leftover.mkdir(parents=True)
    (leftover / "part-0.parquet").write_bytes(b"torn")
    table.replace(flights(spark, (1, JULY)), order=["row"])
    assert sorted(path.name for path in table.path.iterdir()) == ["month=2013-07"]
    assert not leftover.exists()


def test_the_folder_is_ordinary_parquet_of_one_file_a_month(spark: SparkSession, table: MonthTable) -> None:
    rows = flights(spark, *((row, JULY if row % 2 else AUGUST) for row in range(1000))).repartition(4)
    table.replace(by_month(rows, 2), order=["row"])
    files = [str(path.relative_to(table.path)) for path in sorted(table.path.rglob("*")) if path.is_file()]
    assert files == ["month=2013-07/flights.parquet", "month=2013-08/flights.parquet"]
    assert sorted(pd.read_parquet(table.path)["row"]) == list(range(1000))
