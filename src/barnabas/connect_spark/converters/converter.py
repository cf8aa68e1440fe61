"""The port that every converter implements: bytes of a key, value or header <-> a typed column.

Both directions are expressions of Spark: nothing runs in Python for each row (Protobuf excepted, whose decoder is
Python's and works on Arrow batches). An expression never raises; it tells with ``error`` which rows are bad and why,
so that a bad record is one bad row and not a failed task.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException
from barnabas.connect_spark.converters.record_batch import Datum
from barnabas.connect_spark.converters.variants import variant_of

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["Converter", "Decoded", "DecodedHeader", "Encoded"]


@dataclass(frozen=True)
class Decoded:
    """The result of to_connect."""

    schema: ConnectSchema | None
    column: Column
    error: Column | None
    """The error of the row as a string; null without one. None if no row can fail: then no step
    has to check it."""


@dataclass(frozen=True)
class Encoded:
    """The result of from_connect."""

    column: Column
    """Binary."""
    error: Column | None


@dataclass(frozen=True)
class DecodedHeader:
    """Headers of one record may be of different types, so theirs is returned row by row."""

    value: Column
    """VARIANT."""
    schema: Column
    """Connect's JSON as a string; null without a schema."""
    error: Column | None


class Converter(ABC):
    """One object serves the keys, the values or the headers of one task."""

    java_class: ClassVar[str]
    """The full name under which Connect knows it; dead letters and error messages show it."""

    @classmethod
    @abstractmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """``settings`` are those below the prefix (``value.converter.``), without it. Raises ConfigException."""

    def prepare(self, data: Column) -> Column:
        """Compute once per row what later expressions share, such as parsed JSON. By default the bytes themselves."""
        return data

    def variety(self, prepared: Column) -> Column | None:
        """Return a string that distinguishes rows of different schemas; None if this converter has only one schema.

        Rows of one variety go together through ``to_connect``. Null is a variety as well.
        """
        return None

    @abstractmethod
    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        """Typed data of rows that are all of this variety. Raises DataException if none of them can be read."""

    @abstractmethod
    def from_connect(self, datum: Datum) -> Encoded:
        """Bytes of typed data. Raises DataException if no row of this schema can be written."""

    def header_to_connect(self, data: Column) -> DecodedHeader:
        """One header of a row, inside a lambda over all of them."""
        decoded = self.to_connect(self.prepare(data), None)
        if decoded.schema is None:
            return DecodedHeader(decoded.column, F.lit(None).cast("string"), decoded.error)
        schema = json.dumps(decoded.schema.to_json(), separators=(",", ":"))
        return DecodedHeader(variant_of(decoded.schema, decoded.column), F.lit(schema), decoded.error)

    @abstractmethod
    def header_from_connect(self, value: Column, schema: Column) -> Encoded:
        """The bytes of one header, from VARIANT and the JSON of its schema."""


def refuse(converter: str, schema: ConnectSchema | None, takes: str) -> DataException:
    """The error for data that a converter does not take at all."""
    found = "schemaless data" if schema is None else f"{schema.name or schema.type.name}"
    todo = "choose another converter, or cast the data first"
    return DataException(f"Invalid schema type for {converter}: {found}; it writes {takes}: {todo}")
