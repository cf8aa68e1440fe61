"""Records between Kafka's bytes and a connector: created by converters, changed by transforms, passed to sinks.

A RecordBatch is a DataFrame, of a micro-batch or of the records of a source, whose rows all have the same schemas. It
has exactly these columns:

- ``topic`` string, ``partition`` int, ``offset`` bigint, ``timestamp`` timestamp (each may be null for a source);
- ``key`` and ``value``, typed by their Connect schemas (see ``spark_types``), or VARIANT without a schema;
- ``headers``: array<struct<key string, value variant, schema string>>, the schema as Connect's JSON;
- ``failure``: null, or the error of this row: ``FAILURE``. Steps after the failed one don't change the row;
- ``original``: the row as it was read from Kafka (``ORIGINAL``), for dead letters; null for a source. It costs nothing
unless it is used: Spark omits columns that no step selects.

One micro-batch becomes as many RecordBatches as it has pairs of schemas: usually one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING

from barnabas.connect_spark.converters.connect_schema import ConnectSchema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["FAILURE", "HEADERS", "ORIGINAL", "ORIGINAL_TYPES", "RAW_HEADERS", "Datum", "RecordBatch", "Stage"]

RAW_HEADERS = "array<struct<key: string, value: binary>>"
HEADERS = "array<struct<key: string, value: variant, schema: string>>"
ORIGINAL_TYPES = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
    "headers": RAW_HEADERS,
}
ORIGINAL = f"struct<{', '.join(f'{name}: {kind}' for name, kind in ORIGINAL_TYPES.items())}>"
FAILURE = "struct<stage: string, executing_class: string, exception_class: string, message: string>"
"""The contents of a dead letter's headers ``__connect.errors.*``: stage, converter or transform, and error."""


class Stage(StrEnum):
    """The stage in which a record failed; the values are those of ``__connect.errors.stage``."""

    TRANSFORMATION = "TRANSFORMATION"
    KEY_CONVERTER = "KEY_CONVERTER"
    VALUE_CONVERTER = "VALUE_CONVERTER"
    HEADER_CONVERTER = "HEADER_CONVERTER"


@dataclass(frozen=True)
class Datum:
    """A key, a value or a field: a column, and the schema of all its rows."""

    schema: ConnectSchema | None
    column: Column


@dataclass(frozen=True)
class RecordBatch:
    frame: DataFrame
    key_schema: ConnectSchema | None
    value_schema: ConnectSchema | None
    can_fail: bool = True
    """False where ``failure`` is null for all rows; then it need not be checked."""
    absent: frozenset[str] = frozenset()
    """Which of ``key`` and ``headers`` no row has; they are not converted."""

    def with_frame(self, frame: DataFrame) -> RecordBatch:
        return replace(self, frame=frame)

    @property
    def good(self) -> DataFrame:
        """The rows without an error."""
        return self.frame.filter("failure IS NULL") if self.can_fail else self.frame

    @property
    def failed(self) -> DataFrame:
        """The rows that a converter or transform rejected. Their columns key, value and headers must not be used."""
        return self.frame.filter("failure IS NOT NULL")
