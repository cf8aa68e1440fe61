"""Pure steps from a topic's records to delays per carrier and hour.

The percentile is exact, so it can't be merged from earlier results. The hours of a month are computed again from all
flights of that month whenever one of them changes. A month holds some 28,000 flights, however many months exist.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from barnabas.pipelines.flights.schema import DELAYS_BY_CARRIER_HOUR, FLIGHT_VALUE, FLIGHTS

__all__ = ["delays_by_carrier_hour", "flights_from_records", "merged_flights", "records_by_month"]


def flights_from_records(records: DataFrame) -> DataFrame:
    """Return the flights of Kafka records. A record that is not a flight becomes a row of nulls, to be counted."""
    flight = F.col("flight")
    is_flight = flight["row"].isNotNull() & flight["carrier"].isNotNull() & flight["time_hour"].isNotNull()

    def of_flight(column: Column) -> Column:
        return F.when(is_flight, column)

    return records.select(F.from_json(F.col("value").cast("string"), FLIGHT_VALUE).alias("flight")).select(
        of_flight(flight["row"]).alias("row"),
        of_flight(flight["carrier"]).alias("carrier"),
        of_flight(flight["time_hour"]).alias("time_hour"),
        of_flight(flight["dep_delay"]).alias("dep_delay"),
        of_flight(F.date_format(flight["time_hour"], "yyyy-MM")).alias("month"),
    )


def records_by_month(flights: DataFrame) -> DataFrame:
    """Return the number of records per month. The null month counts invalid records."""
    return flights.select("month").groupBy("month").agg(F.count(F.lit(1)).alias("records")).select("month", "records")


def merged_flights(flights: DataFrame) -> DataFrame:
    """Return each flight once.

    So the upsert is idempotent: a micro-batch may be repeated, or a producer may have written a flight twice,
    and the outcome is the same. Copies of a row are equal, so it does not matter which one stays.
    """
    columns = FLIGHTS.fieldNames()
    return flights.where(F.col("row").isNotNull()).select(columns).dropDuplicates(["month", "row"]).select(columns)


def delays_by_carrier_hour(flights: DataFrame) -> DataFrame:
    """Return one row per carrier and scheduled hour, over all flights of that hour."""
    delay = F.col("dep_delay")
    return (
        flights.select("carrier", "time_hour", "dep_delay", "month")
        .groupBy("month", "time_hour", "carrier")
        .agg(
            F.count(F.lit(1)).alias("flights"),
            F.count(delay).alias("departed"),
            (F.count(F.lit(1)) - F.count(delay)).alias("not_departed"),
            F.mean(delay).alias("dep_delay_mean"),
            F.percentile(delay, F.lit(0.95)).alias("dep_delay_p95"),
        )
        .select(DELAYS_BY_CARRIER_HOUR.fieldNames())
    )
