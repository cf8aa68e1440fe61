"""The Structured Streaming query: reads the topic, keeps the two tables current, one micro-batch after the other.

Exactly-once here rests on two things that hold on their own. The checkpoint makes Spark repeat a micro-batch with the
same records until it was finished; and the upsert is a union by row number, so that repeating it changes nothing.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from barnabas.pipelines.errors import PipelineError
from barnabas.pipelines.flights.month_table import MonthTable
from barnabas.pipelines.flights.schema import DELAYS_BY_CARRIER_HOUR, FLIGHTS
from barnabas.pipelines.flights.transforms import (
    delays_by_carrier_hour,
    flights_from_records,
    merged_flights,
    records_by_month,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = [
    "QUERY_NAME",
    "SPARK_SETTINGS",
    "FlightTables",
    "check_query",
    "is_reading",
    "read_topic",
    "start_query",
    "stop_query",
]

QUERY_NAME = "flights"
_TRIGGER = "500 milliseconds"

SPARK_SETTINGS = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.adaptive.enabled": "false",  # Its re-planning costs more than these small stages.
    "spark.ui.enabled": "false",
    "spark.driver.memory": "1g",
    # The run is over before the optimizing compiler has earned its keep: it would double the CPU of the first minute.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.streaming.minBatchesToRetain": "10",
    "spark.sql.streaming.stopTimeout": "10s",  # A query whose broker has died would else be waited for a minute.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
}


class FlightTables:
    """Each flight once (``flights``) and the result computed from it (``delays_by_carrier_hour``)."""

    def __init__(self, directory: Path, *, scratch: Path) -> None:
        self.flights = MonthTable(directory / "flights", FLIGHTS, scratch=scratch)
        self.delays = MonthTable(directory / "delays_by_carrier_hour", DELAYS_BY_CARRIER_HOUR, scratch=scratch)
        self.flight_count = 0
        """Flights in the table, as of the last upsert of this process."""
        self.foreign_records = 0
        """Records that this process read and that are no flights."""
        self.has_begun = False

    def load(self) -> None:
        self.flight_count = self.flights.row_count()

    def upsert(self, records: DataFrame, batch_id: int) -> None:
        """Merge one micro-batch. Only the months that it touches are read and written."""
        self.has_begun = True
        spark = records.sparkSession
        arrived = flights_from_records(records).persist()
        try:
            counts = {row["month"]: row["records"] for row in records_by_month(arrived).collect()}
            foreign = counts.pop(None, 0)
            if counts:
                merged = merged_flights(self.flights.read(spark, counts), arrived)
                self.flights.replace(merged, months=len(counts), order=["row"])
                delays = delays_by_carrier_hour(self.flights.read(spark, counts))
                self.delays.replace(delays, months=len(counts), order=["time_hour", "carrier"])
        finally:
            arrived.unpersist()
        self.foreign_records += foreign
        self.flight_count = self.flights.row_count()


def read_topic(spark: SparkSession, *, bootstrap_server: str, topic: str, batch_records_max: int) -> DataFrame:
    """The topic as a stream, from its beginning; a query with a checkpoint goes on from there instead."""
    return (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", bootstrap_server)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("failOnDataLoss", "true")
        .option("maxOffsetsPerTrigger", batch_records_max)
        .load()
    )


def start_query(records: DataFrame, tables: FlightTables, *, checkpoint: Path) -> StreamingQuery:
    """``records`` is a stream with a column ``value``: a flight as JSON. Raises PipelineError with Spark's reason."""
    writer = (
        records.select("value")
        .writeStream.queryName(QUERY_NAME)
        .foreachBatch(tables.upsert)
        .option("checkpointLocation", str(checkpoint))
        .trigger(processingTime=_TRIGGER)
    )
    try:
        return writer.start()
    except Exception as error:  # Its text is Spark's, and to be had only while Spark lives.
        raise PipelineError(f"the query can't be started: {_cause(str(error))}") from error


def stop_query(query: StreamingQuery) -> None:
    """End the query, also one whose Spark has died. What it leaves half done, the next one repeats."""
    with suppress(Exception):
        query.stop()


def is_reading(query: StreamingQuery, tables: FlightTables) -> bool:
    """Whether the query knows the topic's offsets: it is in a micro-batch, or waits for records to come."""
    return tables.has_begun or str(query.status["message"]).startswith("Waiting")


def check_query(query: StreamingQuery, *, log: Path) -> None:
    """Raise, with the cause in a few words, if the query ended on its own."""
    try:
        if query.isActive:
            return
        failure = query.exception()
    except Exception as error:
        raise PipelineError(f"Spark's process ended ({error}). Its log: {log}") from error
    text = str(failure) if failure is not None else "it was stopped"
    raise PipelineError(f"the query ended: {_cause(text)}. Spark's log: {log}")


def _cause(text: str) -> str:
    """The last line that names an exception: around it stand the traces of two languages."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    telling = [
        line for line in lines if ("Error" in line or "Exception" in line) and not line.startswith(("at ", "File "))
    ]
    return (telling or lines or ["for no known reason"])[-1][:500]
