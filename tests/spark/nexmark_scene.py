"""What NEXMark's queries must give: the rows of batch SQL over the events, which are made without Kafka."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from barnabas.connect_spark.connectors.nexmark.event_columns import EventColumns, is_of
from barnabas.connect_spark.connectors.nexmark.event_numbers import Kind
from bench.nexmark.nexmark_queries import NexmarkQuery

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["LATE_MS", "START", "NexmarkEvents", "Row", "counted", "latest", "topic_rows"]

START = datetime(2015, 7, 15, tzinfo=UTC)
LATE_MS = 2_000
"""The delay of the queries' watermarks."""
_JOINED_WITHIN_MS = 1_000
_BETWEEN_ENDS_MS = 100
"""Auctions end in shorter intervals."""

Row = Mapping[str, Any]
"""Times are milliseconds since 1970."""


class NexmarkEvents:
    def __init__(self, spark: SparkSession, count: int, per_second: int) -> None:
        self._spark = spark.newSession()  # The names of its views are its own.
        columns = EventColumns(0, START, per_second)
        for kind in Kind:
            numbers = self._spark.range(count).withColumnRenamed("id", "number").where(is_of(kind))
            numbers.selectExpr(f"{columns.value(kind)} AS event").select("event.*").createOrReplaceTempView(kind.title)
        self.watermark_ms = round(START.timestamp() * 1000) + (count - 1) * 1000 // per_second - LATE_MS
        """Of a query that has read all events, or some events less."""

    def rows(self, query: NexmarkQuery, closed_ms: int | None = None) -> list[Row]:
        """Return the rows of batch SQL. ``closed_ms`` is the event time up to which they are complete."""
        closed_ms = self.watermark_ms if closed_ms is None else closed_ms
        text = query.batch_sql
        closed = datetime.fromtimestamp(closed_ms / 1000).astimezone()
        parameters = {"closed": closed} if ":closed" in text else None
        rows = [_plain(row.asDict()) for row in self._spark.sql(text, args=parameters).collect()]
        return [row for row in rows if query.end is None or row[query.end] <= closed_ms]

    @property
    def closed_auctions_ms(self) -> int:
        """The time up to which auctions are certainly closed: bids are joined with a bound in time."""
        return self.watermark_ms - _JOINED_WITHIN_MS - _BETWEEN_ENDS_MS


def _plain(row: Mapping[str, Any]) -> Row:
    return {
        name: round(value.timestamp() * 1000) if isinstance(value, datetime) else value for name, value in row.items()
    }


def topic_rows(spark: SparkSession, bootstrap: str, topic: str) -> list[tuple[str | None, Row | None]]:
    """Return keys and values of committed records, in order."""
    reader = spark.read.format("kafka").option("kafka.bootstrap.servers", bootstrap)
    rows = reader.option("kafka.isolation.level", "read_committed").option("subscribe", topic).load()
    return [
        (row.key and row.key.decode(), row.value and json.loads(row.value))
        for row in rows.orderBy("partition", "offset").select("key", "value").collect()
    ]


def counted(rows: Sequence[Row]) -> Counter[str]:
    return Counter(json.dumps(row, sort_keys=True) for row in rows)


def latest(records: Sequence[tuple[str | None, Row | None]]) -> list[Row]:
    """Return the last row of each key."""
    return [row for row in dict(records).values() if row is not None]
