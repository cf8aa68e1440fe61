from __future__ import annotations

import io
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.dataset import SourceTotals
from barnabas.pipelines.flights.delay_plot import draw_delays
from barnabas.pipelines.flights.report import (
    LandedTotals,
    check_database,
    check_landed,
    check_totals,
    delays_table,
    read_delays,
    read_landed,
    worst_hours,
)

SOURCE = SourceTotals(flights=60, not_departed=4, dep_delay_sum=1540, flights_by_carrier={"UA": 40, "AA": 20})


def delays(**changes: list[object]) -> pd.DataFrame:
    columns: dict[str, list[object]] = {
        "carrier": ["UA", "UA", "AA"],
        "time_hour": [pd.Timestamp("2013-07-01 12:00"), pd.Timestamp("2013-07-08 13:00"), pd.Timestamp("2013-07-01")],
        "flights": [20, 20, 20],
        "departed": [20, 16, 20],
        "not_departed": [0, 4, 0],
        "dep_delay_mean": [10.0, 40.0, 35.0],
        "dep_delay_p95": [30.0, 90.0, 95.5],
    }
    return pd.DataFrame({**columns, **changes})


def test_tables_that_add_up_pass() -> None:
    check_totals(delays(), SOURCE, flights_in_table=60)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"flights": [19, 20, 20]}, "flights: 59 instead of 60; .*flights of UA: 39 instead of 40"),
        ({"not_departed": [0, 3, 0]}, "flights without a departure: 3 instead of 4"),
        ({"departed": [20, 17, 20]}, "flights with a departure: 57 instead of 56"),
        ({"dep_delay_mean": [10.0, 40.0, 36.0]}, "minutes of departure delay: 1,560 instead of 1,540"),
        ({"carrier": ["UA", "UA", "DL"]}, "flights of AA: 0 instead of 20; flights of DL: 20 instead of 0"),
    ],
)
def test_tables_that_do_not_add_up_are_reported(changes: dict[str, list[object]], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        check_totals(delays(**changes), SOURCE, flights_in_table=60)


def test_a_lost_flight_in_the_table_of_flights_is_named() -> None:
    with pytest.raises(PipelineError, match="rows of the table of flights: 59 instead of 60"):
        check_totals(delays(), SOURCE, flights_in_table=59)


LANDED = LandedTotals(records=61, positions=61, flights=60, not_departed=4, dep_delay_sum=1540)


def test_files_with_every_record_once_pass_even_with_records_that_are_not_flights() -> None:
    check_landed(LANDED, SOURCE, records=61)
    check_landed(LANDED, SOURCE, records=70)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"records": 62}, "rows written twice: 1 instead of 0"),
        ({"flights": 59}, "flights: 59 instead of 60"),
        ({"not_departed": 5}, "flights without a departure: 5 instead of 4"),
        ({"dep_delay_sum": 0}, "minutes of departure delay: 0 instead of 1,540"),
        ({"records": 71, "positions": 71}, "71 rows, but the topics only 70 records"),
    ],
)
def test_files_that_do_not_add_up_are_reported(changes: dict[str, int], message: str) -> None:
    with pytest.raises(PipelineError, match=message):
        check_landed(replace(LANDED, **changes), SOURCE, records=70)


def test_landed_files_are_counted_by_position_and_by_flight(tmp_path: Path) -> None:
    rows = {
        "row": pd.array([1, 2, 2, 3, None], dtype="Int64"),
        "dep_delay": pd.array([5, None, None, 7, None], dtype="Int64"),
        "_topic": ["a", "a", "a", "b", "b"],
        "_partition": [0, 0, 0, 0, 1],
        "_offset": [0, 1, 2, 0, 0],
    }
    pd.DataFrame(rows).to_parquet(tmp_path / "one.parquet")
    assert read_landed(tmp_path) == LandedTotals(5, 5, flights=3, not_departed=1, dep_delay_sum=12)
    with pytest.raises(PipelineError, match="has no files: .*--fresh"):
        read_landed(tmp_path / "none")


def test_a_database_is_compared_with_the_source(tmp_path: Path) -> None:
    source = SourceTotals(flights=2, not_departed=1, dep_delay_sum=9)
    with closing(sqlite3.connect(tmp_path / "flights.db")) as database, database:
        database.execute("CREATE TABLE flights (row INTEGER, dep_delay INTEGER)")
        database.executemany("INSERT INTO flights VALUES (?, ?)", [(1, 9), (2, None)])
    check_database(tmp_path / "flights.db", source)
    with pytest.raises(PipelineError, match="rows: 2 instead of 3"):
        check_database(tmp_path / "flights.db", replace(source, flights=3))
    with pytest.raises(PipelineError, match="can't be read"):
        check_database(tmp_path / "none.db", source)


def test_the_worst_hours_are_sorted_first_and_hours_with_few_departures_are_omitted() -> None:
    rows = worst_hours(delays(departed=[9, 16, 20]), 5)
    assert rows["dep_delay_p95"].tolist() == [95.5, 90.0]
    assert len(worst_hours(delays(), 1)) == 1


def test_the_table_shows_names_hours_and_figures() -> None:
    out = io.StringIO()
    table = delays_table(worst_hours(delays(), 3), of=3, airlines={"UA": "United Air Lines Inc."})
    Console(file=out, width=120).print(table)
    assert "UA United Air Lines Inc.   2013-07-08 13:00" in out.getvalue()
    assert "95.5" in out.getvalue()


@pytest.mark.parametrize(("width", "airlines"), [(80, {}), (105, {"AA": "AirTran Airways Corporation"})])
def test_a_narrow_terminal_still_shows_every_figure(width: int, airlines: dict[str, str]) -> None:
    out = io.StringIO()
    Console(file=out, width=width).print(delays_table(worst_hours(delays(), 3), of=3, airlines=airlines))
    assert all(text in out.getvalue() for text in ("95.5", "2013-07-08 13:00", "40.0", "p95"))


def test_a_table_that_was_never_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="does not exist: .*--fresh"):
        read_delays(tmp_path / "none")


def test_the_plot_is_a_png_and_is_written_atomically(tmp_path: Path) -> None:
    path = tmp_path / "delays.png"
    draw_delays(delays(departed=[40, 40, 40]), {"UA": "United Air Lines Inc."}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert list(tmp_path.iterdir()) == [path]


def test_a_plot_of_too_few_flights_says_so(tmp_path: Path) -> None:
    draw_delays(delays(departed=[1, 1, 0]), {}, tmp_path / "delays.png")
    assert (tmp_path / "delays.png").exists()
