"""The schemas of the flights pipeline: the records of the topic, and the rows of its two tables."""

from __future__ import annotations

from pyspark.sql.types import (
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

__all__ = ["DELAYS_BY_CARRIER_HOUR", "FLIGHTS", "FLIGHT_VALUE"]

FLIGHT_VALUE = StructType(
    [
        StructField("row", LongType()),
        StructField("year", IntegerType()),
        StructField("month", IntegerType()),
        StructField("day", IntegerType()),
        StructField("dep_time", IntegerType()),
        StructField("sched_dep_time", IntegerType()),
        StructField("dep_delay", IntegerType()),
        StructField("arr_time", IntegerType()),
        StructField("sched_arr_time", IntegerType()),
        StructField("arr_delay", IntegerType()),
        StructField("carrier", StringType()),
        StructField("flight", IntegerType()),
        StructField("tailnum", StringType()),
        StructField("origin", StringType()),
        StructField("dest", StringType()),
        StructField("air_time", IntegerType()),
        StructField("distance", IntegerType()),
        StructField("hour", IntegerType()),
        StructField("minute", IntegerType()),
        StructField("time_hour", TimestampType()),
    ]
)
"""A record's JSON value: the columns of the data set as they are, and ``row``, the flight's place in the source.

``row`` is the identity of a flight. No other column is: the same number may leave twice on a day.
"""

FLIGHTS = StructType(
    [
        StructField("row", LongType()),
        StructField("carrier", StringType()),
        StructField("time_hour", TimestampType()),
        StructField("dep_delay", IntegerType()),
        StructField("month", StringType()),
    ]
)
"""Each flight once. ``dep_delay`` is in minutes, null without a departure; ``month`` partitions, as 2013-07 (UTC)."""

DELAYS_BY_CARRIER_HOUR = StructType(
    [
        StructField("carrier", StringType()),
        StructField("time_hour", TimestampType()),
        StructField("flights", LongType()),
        StructField("departed", LongType()),
        StructField("not_departed", LongType()),
        StructField("dep_delay_mean", DoubleType()),
        StructField("dep_delay_p95", DoubleType()),
        StructField("month", StringType()),
    ]
)
"""A row per carrier and scheduled hour. Mean and percentile are over departed flights, and null when none departed."""
