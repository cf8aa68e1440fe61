"""The recorded answers of Kafka's own classes (``tests/peers/connect_questions.py``), and our answers in the same
form."""

from __future__ import annotations

import datetime
import gzip
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from barnabas.connect_spark.converters.connect_schema import TIME, ConnectSchema, SchemaType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

    from barnabas.connect_spark.converters.record_batch import RecordBatch

__all__ = [
    "Answered",
    "Held",
    "answers",
    "as_number",
    "by_class",
    "described",
    "described_value",
    "header_described",
    "raw_frame",
    "typed_rows",
]

VECTORS = Path(__file__).resolve().parent.parent / "vectors" / "connect" / "answers-4.3.1.jsonl.gz"

Answered = tuple[int, dict[str, Any], Any]
"""Yield the line, the question, and Kafka's answer."""

_RAW = pa.schema(
    [
        ("topic", pa.string()),
        ("partition", pa.int32()),
        ("offset", pa.int64()),
        ("timestamp", pa.timestamp("us", tz="UTC")),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)


def answers(*asks: str) -> list[Answered]:
    with gzip.open(VECTORS, "rt", encoding="utf-8") as file:
        parsed = [json.loads(line) for line in file]
    return [
        (line, entry["question"], entry["answer"])
        for line, entry in enumerate(parsed)
        if entry["question"]["ask"] in asks
    ]


def by_class(answered: Iterable[Answered]) -> dict[tuple[str, tuple[tuple[str, str], ...]], list[Answered]]:
    """Questions for one class with the same settings share one DataFrame."""
    groups: dict[tuple[str, tuple[tuple[str, str], ...]], list[Answered]] = defaultdict(list)
    for entry in answered:
        question = entry[1]
        groups[question["class"], tuple(sorted(question.get("config", {}).items()))].append(entry)
    return dict(groups)


def raw_frame(spark: SparkSession, rows: Sequence[Mapping[str, Any]]) -> DataFrame:
    """Return records in the form of Spark's Kafka source. ``offset`` identifies the answers."""
    complete = [{"topic": "topic", "partition": 0, "headers": [], **row} for row in rows]
    return spark.createDataFrame(pa.Table.from_pylist(complete, schema=_RAW))


@dataclass(frozen=True)
class Held:
    """Decoded records as local data. Spark evaluates projections of local data during planning, without compilation or
    a job, so that data decoded once serves many questions quickly."""

    batches: Sequence[tuple[RecordBatch, frozenset[int]]]

    @classmethod
    def of(cls, batches: Iterable[RecordBatch]) -> Held:
        from pyspark.sql import DataFrame as Frame

        found = []
        for batch in batches:
            frame: Any = batch.frame
            rows = frame._jdf.collectAsList()
            local = Frame(
                frame.sparkSession._jsparkSession.createDataFrame(rows, frame._jdf.schema()), frame.sparkSession
            )
            lines = frozenset(row["offset"] for row in local.select("offset").collect())
            found.append((batch.with_frame(local), lines))
        return cls(found)

    def of_lines(self, lines: Iterable[int]) -> list[RecordBatch]:
        wanted = frozenset(lines)
        return [
            batch.with_frame(batch.frame.filter(batch.frame["offset"].isin(*(wanted & here))))
            for batch, here in self.batches
            if wanted & here
        ]


def typed_rows(batches: Iterable[RecordBatch]) -> dict[int, tuple[RecordBatch, Row]]:
    """Return the answers by offset."""
    return {row["offset"]: (batch, row) for batch in batches for row in batch.frame.collect()}


def described(schema: ConnectSchema | None, value: Any) -> dict[str, Any]:
    if value is None and schema is None:
        return {"schema": None, "value": None}
    schema_json = None if schema is None else schema.to_json()
    return {"schema": schema_json, "value": described_value(schema, value)}


def described_value(schema: ConnectSchema | None, value: Any) -> Any:
    """Describe the value as ConnectAnswers.java does."""
    if value is None:
        return None
    if schema is None:
        return _plain(value.toPython() if hasattr(value, "toPython") else value)
    if schema.type is SchemaType.STRUCT:
        return {field.name: described_value(field.schema, value[field.name]) for field in schema.fields}
    if schema.type is SchemaType.ARRAY:
        return [described_value(schema.item, item) for item in value]
    if schema.type is SchemaType.MAP:
        members = {str(key): described_value(schema.item, member) for key, member in value.items()}
        return dict(sorted(members.items()))
    if schema.logical == TIME:
        return {"$date": value}
    return _plain(value)


def _plain(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return {"$bytes": value.hex()}
    if isinstance(value, Decimal):
        return {"$decimal": format(value, "f")}
    if isinstance(value, float):
        return {"$double": repr(value)}
    if isinstance(value, datetime.datetime):
        return {"$date": round(value.timestamp() * 1000)}
    if isinstance(value, datetime.date):
        return {"$date": (value - datetime.date(1970, 1, 1)).days * 86_400_000}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(value[key]) for key in sorted(value)}
    return value


def header_described(header: Any) -> list[Any]:
    schema_json = header["schema"]
    schema = None if schema_json is None else ConnectSchema.from_json(json.loads(schema_json))
    value = None if header["value"] is None else header["value"].toPython()
    shown = {"$date": value} if schema is not None and schema.logical == TIME else _plain(value)
    return [header["key"], {"schema": None if schema is None else schema.to_json(), "value": shown}]


def as_number(described: Any) -> Any:
    """Return numbers by value for comparison: 1.5 equals 1.50, and a float equals the nearest double."""
    if isinstance(described, dict):
        if set(described) == {"$float"}:
            return float(pa.scalar(float(described["$float"]), pa.float32()).as_py()).__repr__()
        if set(described) in ({"$double"}, {"$decimal"}):
            return float(next(iter(described.values()))).__repr__()
        return {key: as_number(member) for key, member in described.items()}
    if isinstance(described, list):
        return [as_number(item) for item in described]
    return described
