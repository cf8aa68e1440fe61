"""The port of all converters: bytes of a key, value or header <-> a typed column.

Both directions are expressions of Spark: Python runs for no single row (except for Protobuf, whose decoder is in Python
and works on Arrow batches). An expression never raises; it reports in ``error`` which rows are bad and why, so that a
bad record is one bad row and not a failed task.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
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
    must check it."""


@dataclass(frozen=True)
class Encoded:
    """The result of from_connect."""

    column: Column
    """The bytes, as a binary column."""
    error: Column | None


@dataclass(frozen=True)
class DecodedHeader:
    """Headers of one record may have different types, so each row has its own schema."""

    value: Column
    """The value as VARIANT."""
    schema: Column
    """Connect's JSON schema as a string; null without a schema."""
    error: Column | None


class Converter(ABC):
    """Converts the keys, the values or the headers of one task."""

    java_class: ClassVar[str]
    """The class name in Connect; dead letters and error messages show it."""

    @classmethod
    @abstractmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        """Create it from the settings below the prefix (``value.converter.``), without it. Raise ConfigException."""

    def prepare(self, data: Column) -> Column:
        """Compute once per row what later expressions share, such as parsed JSON. By default return the bytes."""
        return data

    @property
    def prepares_once(self) -> bool:
        """Return whether the optimizer leaves ``prepare`` as it is: not if its result can be computed again."""
        return False

    def variety(self, prepared: Column) -> Column | None:
        """Return a string that distinguishes rows of different schemas; None if this converter has only one schema.

        Rows of one variety are passed to ``to_connect`` together. Null is a variety as well.
        """
        return None

    def frame(self, data: Column) -> Column | None:
        """Return the bytes by which a row names its schema (null: it names none); None if rows don't name schemas."""
        return None

    def reader(self, frames: Sequence[bytes]) -> Converter:
        """Return the converter that reads rows with these frames. Converters with ``frame`` need it.

        Raise TerminalError, or RegistryUnreachable, which a later try may not.
        """
        return self

    def stream_reader(self, topic: str) -> Converter:
        """Return the converter that reads a topic as a stream, whose schemas must be known before any record.

        Raise as ``reader``.
        """
        return self

    def writer(self, schema: ConnectSchema | None, topics: Callable[[], Iterable[str]]) -> Converter:
        """Return the converter that writes rows of this schema to these topics. Raise as ``reader``."""
        return self

    @abstractmethod
    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        """Return typed data of rows of this variety. Raise DataException if none of them can be read."""

    @abstractmethod
    def from_connect(self, datum: Datum) -> Encoded:
        """Return the bytes of typed data. Raise DataException if no row of this schema can be written."""

    def header_to_connect(self, data: Column) -> DecodedHeader:
        """Convert one header of a row, inside a lambda over all headers."""
        decoded = self.to_connect(self.prepare(data), None)
        if decoded.schema is None:
            return DecodedHeader(decoded.column, F.lit(None).cast("string"), decoded.error)
        schema = json.dumps(decoded.schema.to_json(), separators=(",", ":"))
        return DecodedHeader(variant_of(decoded.schema, decoded.column), F.lit(schema), decoded.error)

    @abstractmethod
    def header_from_connect(self, value: Column, schema: Column) -> Encoded:
        """Return the bytes of one header, from its VARIANT and the JSON of its schema."""


def refuse(converter: str, schema: ConnectSchema | None, takes: str) -> DataException:
    """Return the error for data that a converter does not accept at all."""
    found = "schemaless data" if schema is None else f"{schema.name or schema.type.name}"
    todo = "choose another converter, or cast the data first"
    return DataException(f"Invalid schema type for {converter}: {found}; it writes {takes}: {todo}")
