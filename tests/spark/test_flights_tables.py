"""The connector that keeps delays current: the same upsert that a worker runs, without a worker."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import SparkSession

from barnabas.connect.plugins.testing import ConnectorKit, SinkRecord
from barnabas.pipelines.flights.connectors import FlightDelays

pytestmark = pytest.mark.spark


class Bench:
    """A folder of tables; each ``arrive`` is the lifetime of a task with one batch."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self.spark = spark
        self.folder = folder
        self._kit = ConnectorKit(FlightDelays, {"directory": str(folder)})

    def arrive(self, flights: Iterable[dict[str, Any] | str]) -> None:
        values = [value if isinstance(value, str) else json.dumps(value) for value in flights]
        records = [SinkRecord(value, offset=offset) for offset, value in enumerate(values)]
        self._kit.write(self.spark, records)

    def delays(self) -> pd.DataFrame:
        frame = pd.read_parquet(self.folder / "delays_by_carrier_hour")
        return frame.sort_values(["carrier", "time_hour"], ignore_index=True)

    def flights(self) -> int:
        return len(pd.read_parquet(self.folder / "flights"))


@pytest.fixture
def bench(spark: SparkSession, tmp_path: Path) -> Bench:
    return Bench(spark, tmp_path)


def flight(row: int, *, month: int = 7, delay: int | None = 0, carrier: str = "UA") -> dict[str, Any]:
    return {"row": row, "carrier": carrier, "time_hour": f"2013-{month:02}-01T12:00:00Z", "dep_delay": delay}


def test_duplicates_count_once(bench: Bench) -> None:
    bench.arrive([flight(1, delay=10), flight(2, delay=None)])
    bench.arrive([flight(2, delay=None), flight(3, delay=30), flight(3, delay=30)])
    (row,) = bench.delays().itertuples()
    assert (row.flights, row.departed, row.not_departed) == (3, 2, 1)
    assert (row.dep_delay_mean, row.dep_delay_p95) == (20.0, 29.0)
    assert bench.flights() == 3


def test_repeated_batches_change_nothing(bench: Bench) -> None:
    first = [flight(row, month=1 + row % 3, delay=row) for row in range(100)]
    second = [flight(row, month=1 + row % 3, delay=row) for row in range(50, 150)]
    bench.arrive(first)
    bench.arrive(second)
    before = bench.delays()
    bench.arrive(first + second)
    pd.testing.assert_frame_equal(bench.delays(), before)
    assert before["flights"].sum() == 150


def test_a_batch_that_failed_between_the_two_tables_is_repeated_correctly(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.arrive([flight(1, delay=5)])

    def fail(*_args: object, **_settings: object) -> None:
        raise OSError("killed here")

    with monkeypatch.context() as patched:
        patched.setattr("barnabas.pipelines.flights.flight_tables.delays_by_carrier_hour", fail)
        with pytest.raises(OSError, match="killed here"):
            bench.arrive([flight(2, delay=15)])
    assert bench.delays()["flights"].sum() == 1
    assert bench.flights() == 2
    bench.arrive([flight(2, delay=15)])
    assert bench.delays()["flights"].sum() == 2
    assert bench.delays()["dep_delay_mean"].tolist() == [10.0]


def test_a_batch_rewrites_only_the_months_that_it_touches(bench: Bench) -> None:
    bench.arrive([flight(row, month=1 + row) for row in range(12)])
    before = {path: path.stat().st_ino for path in bench.folder.rglob("month=*/*.parquet")}
    bench.arrive([flight(100, month=4)])
    changed = {path.parent.name for path, inode in before.items() if path.stat().st_ino != inode}
    assert changed == {"month=2013-04"}


def test_records_that_are_not_flights_are_omitted(bench: Bench) -> None:
    bench.arrive([flight(1), "hello", '{"row": 2}'])
    assert bench.delays()["flights"].sum() == 1


def test_a_batch_of_only_invalid_records_creates_no_table(bench: Bench) -> None:
    bench.arrive(["hello"])
    assert not (bench.folder / "flights").exists()


def test_the_only_task_names_its_folder_in_full(tmp_path: Path) -> None:
    kit = ConnectorKit(FlightDelays, {"directory": str(tmp_path)}, topics={"flights": 4})
    assert len(kit.task_configs(4)) == 1
    assert "directory" in ConnectorKit(FlightDelays, {"directory": "here"}).errors
    assert "directory" in ConnectorKit(FlightDelays, {}).errors
