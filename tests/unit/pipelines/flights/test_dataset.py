from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights import dataset as module
from barnabas.pipelines.flights.dataset import FLIGHT_COUNT, FlightDataset, SourceTotals, find_dataset

CSV = """\
year,dep_delay,carrier,tailnum,time_hour
2013,2,UA,N14228,2013-01-01T10:00:00Z
2013,,AA,,2013-01-01T10:00:00Z
2013,NA,AA,NA,2013-01-01T11:00:00Z
2013,-4,UA,N1,2013-01-01T11:00:00Z
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    with zipfile.ZipFile(tmp_path / "flights.csv.zip", "w") as archive:
        archive.writestr("flights.csv", CSV)
    (tmp_path / "airlines.csv").write_text("carrier,name\nUA,United Air Lines Inc.\n")
    return tmp_path


def test_rows_are_numbered_in_the_order_of_the_source_and_typed(directory: Path) -> None:
    first, second, *_ = FlightDataset(directory, flights=4).read()
    assert first == {
        "row": 0,
        "year": 2013,
        "dep_delay": 2,
        "carrier": "UA",
        "tailnum": "N14228",
        "time_hour": "2013-01-01T10:00:00Z",
    }
    assert (second["row"], second["dep_delay"], second["tailnum"]) == (1, None, None)


def test_only_the_requested_number_of_flights_is_read(directory: Path) -> None:
    assert [flight["row"] for flight in FlightDataset(directory, flights=3).read()] == [0, 1, 2]


def test_totals_count_flights_without_a_departure_separately(directory: Path) -> None:
    totals = SourceTotals()
    for flight in FlightDataset(directory, flights=4).read():
        totals.add(flight)
    assert totals == SourceTotals(flights=4, not_departed=2, dep_delay_sum=-2, flights_by_carrier={"UA": 2, "AA": 2})


def test_airlines_have_names(directory: Path) -> None:
    assert FlightDataset(directory, flights=1).airline_names() == {"UA": "United Air Lines Inc."}


def test_the_whole_data_set_has_the_known_totals() -> None:
    totals = SourceTotals()
    for flight in find_dataset(flights=FLIGHT_COUNT).read():
        totals.add(flight)
    assert (totals.flights, totals.not_departed, len(totals.flights_by_carrier)) == (336_776, 8_255, 16)


def test_a_data_set_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_PACKAGE", "no_such_data_set")
    with pytest.raises(PipelineError, match="not installed.*make env"):
        find_dataset(flights=1)


def test_a_damaged_data_set_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_FLIGHTS_SHA256", "0" * 64)
    with pytest.raises(PipelineError, match="damaged or of another version"):
        find_dataset(flights=1)
