"""The two tables that the connector FlightDelays keeps current, one micro-batch after another.

The upsert is a union by row number, so a micro-batch that is repeated after a failure changes nothing.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.pipelines.flights.month_table import MonthTable, by_month
from barnabas.pipelines.flights.schema import DELAYS_BY_CARRIER_HOUR, FLIGHTS
from barnabas.pipelines.flights.transforms import (
    delays_by_carrier_hour,
    flights_from_records,
    merged_flights,
    records_by_month,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["DELAYS", "FLIGHTS_BY_ROW", "FlightTables"]

DELAYS = "delays_by_carrier_hour"
FLIGHTS_BY_ROW = "flights"
_SCRATCH = "scratch"


class FlightTables:
    """Each flight once (``flights``) and the result computed from it (``delays_by_carrier_hour``)."""

    def __init__(self, directory: Path) -> None:
        scratch = directory / _SCRATCH
        self.flights = MonthTable(directory / FLIGHTS_BY_ROW, FLIGHTS, scratch=scratch)
        self.delays = MonthTable(directory / DELAYS, DELAYS_BY_CARRIER_HOUR, scratch=scratch)
        self.foreign_records = 0
        """The number of records that this process read and that are not flights."""

    def upsert(self, records: DataFrame) -> None:
        """Merge one micro-batch of records, whose ``value`` is a flight as JSON.

        Only the months of the micro-batch are read and written.
        """
        spark = records.sparkSession
        arrived = flights_from_records(records).persist()
        try:
            counts = {row["month"]: row["records"] for row in records_by_month(arrived).collect()}
            foreign = counts.pop(None, 0)
            if counts:
                known = self.flights.read(spark, counts)
                merged = merged_flights(by_month(known.unionByName(arrived), len(counts)))
                self.flights.replace(merged, order=["row"])
                delays = delays_by_carrier_hour(by_month(self.flights.read(spark, counts), len(counts)))
                self.delays.replace(delays, order=["time_hour", "carrier"])
        finally:
            arrived.unpersist()
        self.foreign_records += foreign
