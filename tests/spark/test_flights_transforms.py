"""The pure steps of the flights pipeline, compared with the results of pandas and numpy for the same flights."""

from __future__ import annotations

import json
from datetime import datetime
from itertools import islice
from typing import Any

import numpy as np
import pandas as pd
import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.testing import assertDataFrameEqual

from barnabas.pipelines.flights.dataset import find_dataset
from barnabas.pipelines.flights.schema import DELAYS_BY_CARRIER_HOUR, FLIGHTS
from barnabas.pipelines.flights.transforms import (
    delays_by_carrier_hour,
    flights_from_records,
    merged_flights,
    records_by_month,
)

pytestmark = pytest.mark.spark

HOUR = datetime(2013, 7, 1, 12)


def records(spark: SparkSession, *values: Any) -> DataFrame:
    texts = [value if isinstance(value, str) else json.dumps(value) for value in values]
    return spark.createDataFrame([(text.encode(),) for text in texts], "value binary")


def flights(spark: SparkSession, *rows: tuple[int, str, datetime, int | None]) -> DataFrame:
    return spark.createDataFrame([(*row, f"{row[2]:%Y-%m}") for row in rows], FLIGHTS)


def flight(**changes: Any) -> dict[str, Any]:
    return {"row": 7, "carrier": "UA", "time_hour": "2013-07-01T12:00:00Z", "dep_delay": -3, "dest": "IAH", **changes}


def test_a_record_becomes_a_flight_with_its_month(spark: SparkSession) -> None:
    found = flights_from_records(records(spark, flight()))
    assertDataFrameEqual(found, flights(spark, (7, "UA", HOUR, -3)))


def test_a_flight_that_never_departed_has_no_delay(spark: SparkSession) -> None:
    found = flights_from_records(records(spark, flight(dep_delay=None), flight(row=8)))
    assertDataFrameEqual(found, flights(spark, (7, "UA", HOUR, None), (8, "UA", HOUR, -3)))


def test_the_month_is_in_utc(spark: SparkSession) -> None:
    (found,) = flights_from_records(records(spark, flight(time_hour="2014-01-01T04:00:00Z"))).collect()
    assert found["month"] == "2014-01"


def test_records_that_are_not_flights_are_counted_under_the_null_month(spark: SparkSession) -> None:
    noise = ["", "no json", "[1]", "{}", {"row": 1}, flight(row=None), flight(carrier=None), flight(time_hour="soon")]
    found = flights_from_records(records(spark, *noise, flight()))
    assertDataFrameEqual(
        records_by_month(found), [Row(month="2013-07", records=1), Row(month=None, records=len(noise))]
    )


def test_merging_keeps_each_row_once_and_drops_invalid_records(spark: SparkSession) -> None:
    known = flights(spark, (1, "UA", HOUR, 5), (2, "AA", HOUR, None))
    arrived = flights_from_records(records(spark, flight(row=2, carrier="AA", dep_delay=None), flight(row=3), "noise"))
    expected = flights(spark, (1, "UA", HOUR, 5), (2, "AA", HOUR, None), (3, "UA", HOUR, -3))
    assertDataFrameEqual(merged_flights(known.unionByName(arrived)), expected)


def test_merging_twice_changes_nothing(spark: SparkSession) -> None:
    known = flights(spark, (1, "UA", HOUR, 5))
    arrived = flights(spark, (1, "UA", HOUR, 5), (2, "UA", HOUR, 9), (2, "UA", HOUR, 9))
    once = merged_flights(known.unionByName(arrived))
    assertDataFrameEqual(merged_flights(once.unionByName(arrived)), once)


def test_an_hour_without_any_departure_has_no_mean_and_no_percentile(spark: SparkSession) -> None:
    found = delays_by_carrier_hour(flights(spark, (1, "UA", HOUR, None), (2, "UA", HOUR, None)))
    expected = [("UA", HOUR, 2, 0, 2, None, None, "2013-07")]
    assertDataFrameEqual(found, spark.createDataFrame(expected, DELAYS_BY_CARRIER_HOUR))


def test_flights_without_a_departure_are_counted_separately_and_not_averaged(spark: SparkSession) -> None:
    found = delays_by_carrier_hour(flights(spark, (1, "UA", HOUR, 0), (2, "UA", HOUR, None), (3, "UA", HOUR, 100)))
    expected = [("UA", HOUR, 3, 2, 1, 50.0, 95.0, "2013-07")]
    assertDataFrameEqual(found, spark.createDataFrame(expected, DELAYS_BY_CARRIER_HOUR))


def test_the_percentile_is_exact_for_hours_of_every_size(spark: SparkSession) -> None:
    """Compare with numpy's linear interpolation. An approximation would show at 20,000 distinct values."""
    sizes = [*range(1, 25), 100, 20_000]
    delays = {f"{size}": np.random.default_rng(size).permutation(size) * 7 - 40 for size in sizes}
    rows = [(0, carrier, HOUR, int(delay)) for carrier, values in delays.items() for delay in values]
    found = {row["carrier"]: row for row in delays_by_carrier_hour(flights(spark, *rows)).collect()}
    assert found.keys() == delays.keys()
    for carrier, values in delays.items():
        assert found[carrier]["dep_delay_p95"] == pytest.approx(np.percentile(values, 95), rel=1e-12)
        assert found[carrier]["dep_delay_mean"] == pytest.approx(values.mean(), rel=1e-12)


def test_real_flights_aggregate_to_what_pandas_computes(spark: SparkSession) -> None:
    source = list(islice(find_dataset(flights=20_000).read(), 20_000))
    found = delays_by_carrier_hour(flights_from_records(records(spark, *source)))
    assertDataFrameEqual(found, spark.createDataFrame(expected_delays(source), DELAYS_BY_CARRIER_HOUR), rtol=1e-12)


def expected_delays(source: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    frame = pd.DataFrame(source)
    frame["time_hour"] = pd.to_datetime(frame["time_hour"]).dt.tz_localize(None)
    delays = frame.groupby(["carrier", "time_hour"])["dep_delay"]
    table = pd.DataFrame(
        {"flights": delays.size(), "departed": delays.count(), "mean": delays.mean(), "p95": delays.quantile(0.95)}
    )
    return [
        (
            carrier,
            hour.to_pydatetime(),
            int(row.flights),
            int(row.departed),
            int(row.flights - row.departed),
            None if row.departed == 0 else float(row.mean),
            None if row.departed == 0 else float(row.p95),
            f"{hour:%Y-%m}",
        )
        for (carrier, hour), row in zip(table.index, table.itertuples(index=False), strict=True)
    ]
