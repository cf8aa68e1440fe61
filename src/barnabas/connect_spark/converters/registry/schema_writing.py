"""Write records to topics whose schemas are registered: an expression for each schema, after the bytes that name it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import functions as F

from barnabas.connect_spark.converters.connect_schema import DataException
from barnabas.connect_spark.converters.converter import Converter, Decoded, Encoded
from barnabas.connect_spark.converters.json_decoding import first_error, no_error

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.converters.record_batch import Datum

__all__ = ["SchemaWriter", "WriterOfBatch"]


class SchemaWriter(Protocol):
    """Writes data with one registered schema. Equal writers write equal bytes."""

    @property
    def frame(self) -> bytes:
        """The bytes before the data."""

    def write(self, datum: Datum) -> Encoded:
        """Return the bytes after the frame; null for null."""


class WriterOfBatch(Converter):
    """Compared by identity: one is kept for each schema and set of topics."""

    def __init__(
        self, java_class: str, writers: Mapping[str, SchemaWriter], refused: Mapping[str, str], *, by_topic: bool
    ) -> None:
        """``writers`` and ``refused`` (errors) are by topic. Without ``by_topic`` the topic does not matter."""
        self._name = java_class
        self._writers = writers
        self._refused = refused
        self._by_topic = by_topic

    @property
    def java_class(self) -> str:  # type: ignore[override]
        return self._name

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> WriterOfBatch:
        raise NotImplementedError("a converter with a registry makes it")

    def writes_like(self, writers: Mapping[str, SchemaWriter]) -> bool:
        return self._writers == writers

    def from_connect(self, datum: Datum) -> Encoded:
        data, errors = F.lit(None).cast("binary"), []
        for writer in dict.fromkeys(self._writers.values()):
            encoded = writer.write(datum)
            error = no_error() if encoded.error is None else encoded.error
            framed = F.when(error.isNull(), F.concat(F.lit(writer.frame), encoded.column))
            is_its = self._is_of([topic for topic, other in self._writers.items() if other == writer])
            data = F.when(is_its, framed).otherwise(data)
            errors.append(F.when(is_its, error))
        for topic, message in self._refused.items():
            errors.append(F.when(self._is_of([topic]) & datum.column.isNotNull(), F.lit(message)))
        if self._by_topic:
            known = [*self._writers, *self._refused]
            late = F.lit("the topic of this record was not among those of its batch; the next try reads it again")
            errors.append(F.when(~F.col("topic").isin(*known) & datum.column.isNotNull(), late))
        return Encoded(data, first_error(errors))

    def _is_of(self, topics: list[str]) -> Column:
        return F.col("topic").isin(*topics) if self._by_topic else F.lit(True)

    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        raise DataException("a writer of records does not read them")

    def header_from_connect(self, value: Column, schema: Column) -> Encoded:
        raise DataException("a writer of records does not write headers")
