"""Put events into Arrow's columns: topic, key and value, with the types of an EventPlan.

Used in the worker for the stream, and in Spark's executors for the reading of tables.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import pyarrow as pa

from barnabas import __version__
from barnabas.connect_spark.connectors.postgresql.debezium.column_types import ValuePlan
from barnabas.connect_spark.connectors.postgresql.debezium.envelope import EventPlan
from barnabas.connect_spark.connectors.postgresql.debezium.events import Event
from barnabas.connect_spark.connectors.postgresql.pgoutput.messages import UNCHANGED, Row
from barnabas.connect_spark.converters.connect_schema import ConnectSchema

__all__ = ["EventSource", "UnusableValue", "event_batches", "event_table"]

_ROWS_AT_A_TIME = 10_000


class UnusableValue(Exception):
    """A value of the database has no form in an event."""


@dataclass(frozen=True, slots=True)
class EventSource:
    """What the field ``source`` has in all events of a connector."""

    prefix: str
    database: str


def event_batches(events: Iterator[Event], plan: EventPlan, source: EventSource) -> Iterator[pa.RecordBatch]:
    """Yield batches of many events of one table. Raise UnusableValue."""
    piece: list[Event] = []
    for event in events:
        piece.append(event)
        if len(piece) == _ROWS_AT_A_TIME:
            yield from event_table(piece, plan, source).to_batches()
            piece = []
    if piece:
        yield from event_table(piece, plan, source).to_batches()


def event_table(events: Sequence[Event], plan: EventPlan, source: EventSource) -> pa.Table:
    """Return the events of one table. Raise UnusableValue."""
    columns = {"topic": pa.array([plan.topic] * len(events), pa.string())}
    if plan.key is not None:
        columns["key"] = _keys(events, plan)
    columns["value"] = _values(events, plan, source)
    return pa.table(columns)


@cache
def arrow_type(schema: ConnectSchema) -> pa.DataType:
    from pyspark.sql.pandas.types import to_arrow_type

    from barnabas.connect_spark.converters.spark_types import spark_type

    return to_arrow_type(spark_type(schema))


def _keys(events: Sequence[Event], plan: EventPlan) -> pa.Array:
    assert plan.key is not None
    table = events[0].table
    arrays = []
    for place, at in enumerate(table.key_places):
        cells = [None if event.key is None else event.key[place] for event in events]
        arrays.append(_column(cells, table.full_name, table.columns[at].name, plan.columns[at]))
    return _struct(arrays, plan.key, [event.key is None for event in events])


def _values(events: Sequence[Event], plan: EventPlan, source: EventSource) -> pa.Array:
    now_ns = time.time_ns()
    size = len(events)
    arrays = [
        _rows([event.before for event in events], events, plan),
        _rows([event.after for event in events], events, plan),
        _sources(events, plan, source),
        pa.nulls(size, arrow_type(plan.transaction)),
        pa.array([event.operation or "" for event in events], pa.string()),
        pa.array([now_ns // 1_000_000] * size, pa.int64()),
        pa.array([now_ns // 1_000] * size, pa.int64()),
        pa.array([now_ns] * size, pa.int64()),
    ]
    return _struct(arrays, plan.value, [event.operation is None for event in events])


def _struct(arrays: list[pa.Array], schema: ConnectSchema, is_null: list[bool]) -> pa.Array:
    kind = arrow_type(schema)
    mask = pa.array(is_null, pa.bool_()) if any(is_null) else None
    return pa.StructArray.from_arrays(arrays, fields=[kind.field(at) for at in range(kind.num_fields)], mask=mask)


def _rows(rows: list[Row | None], events: Sequence[Event], plan: EventPlan) -> pa.Array:
    if not any(rows):
        return pa.nulls(len(rows), arrow_type(plan.row))
    table = events[0].table
    arrays = [
        _column([None if row is None else row[at] for row in rows], table.full_name, column.name, plan.columns[at])
        for at, column in enumerate(table.columns)
    ]
    return _struct(arrays, plan.row, [row is None for row in rows])


def _column(cells: list[Any], table: str, name: str, plan: ValuePlan) -> pa.Array:
    convert = plan.convert
    kind = arrow_type(plan.schema)
    try:
        if convert is str and UNCHANGED not in cells:
            return pa.array(cells, kind)
        found = [None if cell is None else plan.unavailable if cell is UNCHANGED else convert(cell) for cell in cells]
        return pa.array(found, kind)
    except (ValueError, ArithmeticError, IndexError, pa.ArrowException) as error:
        raise UnusableValue(f"a value of the column {name} of {table} can't be written: {error}") from error


def _sources(events: Sequence[Event], plan: EventPlan, source: EventSource) -> pa.Array:
    size, table, origins = len(events), events[0].table, [event.origin for event in events]
    arrays = [
        pa.array([__version__] * size),
        pa.array(["postgresql"] * size),
        pa.array([source.prefix] * size),
        pa.array([origin.at_us // 1000 for origin in origins], pa.int64()),
        pa.array(["true" if origin.is_snapshot else "false" for origin in origins]),
        pa.array([source.database] * size),
        pa.array([_sequence(origin.previous_lsn, origin.lsn) for origin in origins]),
        pa.array([origin.at_us for origin in origins], pa.int64()),
        pa.array([origin.at_us * 1000 for origin in origins], pa.int64()),
        pa.array([table.schema] * size),
        pa.array([table.name] * size),
        pa.array([origin.xid for origin in origins], pa.int64()),
        pa.array([origin.lsn for origin in origins], pa.int64()),
        pa.nulls(size, pa.int64()),
    ]
    return _struct(arrays, plan.source, [event.operation is None for event in events])


def _sequence(previous_lsn: int | None, lsn: int) -> str:
    """Return the end of the previous transaction and the event's own LSN, as JSON."""
    return json.dumps([None if previous_lsn is None else str(previous_lsn), str(lsn)], separators=(",", ":"))
