"""The converters of one type each: text, bytes, booleans and numbers, in the formats of Kafka's serializers.

Numbers are big-endian. Spark has no expression that reads the bits of a floating-point number, so these converters call
Java's method through ``reflect``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.connect_spark.converters.connect_schema import ConnectSchema, SchemaType
from barnabas.connect_spark.converters.converter import Converter, Decoded, Encoded, refuse
from barnabas.connect_spark.converters.spark_types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.converters.record_batch import Datum

__all__ = [
    "BooleanConverter",
    "ByteArrayConverter",
    "DoubleConverter",
    "FloatConverter",
    "IntegerConverter",
    "LongConverter",
    "ShortConverter",
]

_PACKAGE = "org.apache.kafka.connect.converters"


class _FixedTypeConverter(Converter):
    """A converter whose type is known without reading the bytes."""

    kind: ClassVar[SchemaType]
    size: ClassVar[int | None] = None
    """The size in bytes; None: any."""
    word: ClassVar[str]
    """The name of the type in Connect's messages and Kafka's serializers."""

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> Self:
        return cls()

    def to_connect(self, prepared: Column, variety: str | None) -> Decoded:
        return Decoded(ConnectSchema(self.kind, optional=True), self._read(prepared), self._error(prepared))

    def from_connect(self, datum: Datum) -> Encoded:
        if datum.schema is None:
            column, error = self._from_variant(datum.column)
            return Encoded(self._write(column), error)
        if datum.schema.type is not self.kind or datum.schema.logical is not None:
            raise refuse(type(self).__name__, datum.schema, f"only {self.kind}")
        return Encoded(self._write(datum.column), None)

    def header_from_connect(self, value: Column, schema: Column) -> Encoded:
        column, error = self._from_variant(value)
        return Encoded(self._write(column), error)

    def _from_variant(self, value: Column) -> tuple[Column, Column]:
        typed = F.when(self._fits(F.schema_of_variant(value)), value.try_cast(spark_type(ConnectSchema(self.kind))))
        absent = value.isNull() | F.is_variant_null(value)
        message = F.concat(F.lit(f"{type(self).__name__} writes only {self.kind}, not "), F.to_json(value))
        return typed, F.when(~absent & typed.isNull(), message)

    def _fits(self, kind: Column) -> Column:
        return kind == "BIGINT"

    def _error(self, data: Column) -> Column | None:
        return self._wrong_size(data)

    def _wrong_size(self, data: Column) -> Column:
        problem = f"Size of data received by {self.word}Deserializer is not {self.size}"
        return F.when(F.octet_length(data) != self.size, F.lit(f"Failed to deserialize {self.word.lower()}: {problem}"))

    def _read(self, data: Column) -> Column:
        raise NotImplementedError

    def _write(self, column: Column) -> Column:
        raise NotImplementedError


class ByteArrayConverter(_FixedTypeConverter):
    """Passes bytes unchanged."""

    java_class: ClassVar[str] = f"{_PACKAGE}.ByteArrayConverter"
    kind = SchemaType.BYTES
    word = "ByteArray"

    def _error(self, data: Column) -> Column | None:
        return None

    def _read(self, data: Column) -> Column:
        return data

    def _write(self, column: Column) -> Column:
        return column

    def _fits(self, kind: Column) -> Column:
        return kind == "BINARY"


class BooleanConverter(_FixedTypeConverter):
    java_class: ClassVar[str] = f"{_PACKAGE}.BooleanConverter"
    kind = SchemaType.BOOLEAN
    size = 1
    word = "Boolean"

    def _error(self, data: Column) -> Column | None:
        unknown = F.concat(
            F.lit("Failed to deserialize boolean: Unexpected byte received by BooleanDeserializer: 0x"), F.hex(data)
        )
        return F.coalesce(self._wrong_size(data), F.when(~F.hex(data).isin("00", "01"), unknown))

    def _read(self, data: Column) -> Column:
        return F.when(F.hex(data) == "01", F.lit(True)).when(F.hex(data) == "00", F.lit(False))

    def _write(self, column: Column) -> Column:
        return F.when(column.isNotNull(), F.unhex(F.when(column, F.lit("01")).otherwise(F.lit("00"))))

    def _fits(self, kind: Column) -> Column:
        return kind == "BOOLEAN"


class _WholeNumberConverter(_FixedTypeConverter):
    size: ClassVar[int]

    def _read(self, data: Column) -> Column:
        if self.size == 8:
            return F.when(F.octet_length(data) == 8, F.conv(F.hex(data), 16, -10).cast("bigint"))
        unsigned = F.when(F.octet_length(data) == self.size, F.conv(F.hex(data), 16, 10).cast("bigint"))
        half = 2 ** (8 * self.size - 1)
        signed = F.when(unsigned >= half, unsigned - 2 * half).otherwise(unsigned)
        return signed.cast(spark_type(ConnectSchema(self.kind)))

    def _write(self, column: Column) -> Column:
        return _big_endian(column.cast("bigint"), self.size)


class ShortConverter(_WholeNumberConverter):
    java_class: ClassVar[str] = f"{_PACKAGE}.ShortConverter"
    kind = SchemaType.INT16
    size = 2
    word = "Short"


class IntegerConverter(_WholeNumberConverter):
    java_class: ClassVar[str] = f"{_PACKAGE}.IntegerConverter"
    kind = SchemaType.INT32
    size = 4
    word = "Integer"


class LongConverter(_WholeNumberConverter):
    java_class: ClassVar[str] = f"{_PACKAGE}.LongConverter"
    kind = SchemaType.INT64
    size = 8
    word = "Long"


class _FloatingPointConverter(_FixedTypeConverter):
    size: ClassVar[int]
    java: ClassVar[tuple[str, str, str, str]]
    """The class, its methods to read and write bits, and the type of the bits in Spark."""

    def _read(self, data: Column) -> Column:
        owner, of_bits, _, whole = self.java
        half = 2 ** (8 * self.size - 1)
        if self.size == 8:
            bits = F.conv(F.hex(data), 16, -10).cast("bigint")
        else:
            unsigned = F.conv(F.hex(data), 16, 10).cast("bigint")
            bits = F.when(unsigned >= half, unsigned - 2 * half).otherwise(unsigned)
        read = F.reflect(F.lit(owner), F.lit(of_bits), bits.cast(whole))
        return F.when(F.octet_length(data) == self.size, read.try_cast(spark_type(ConnectSchema(self.kind))))

    def _write(self, column: Column) -> Column:
        owner, _, to_bits, _ = self.java
        bits = F.when(column.isNotNull(), F.reflect(F.lit(owner), F.lit(to_bits), column).try_cast("bigint"))
        return _big_endian(bits, self.size)

    def _fits(self, kind: Column) -> Column:
        return kind.isin("FLOAT", "DOUBLE") | kind.startswith("DECIMAL")


class FloatConverter(_FloatingPointConverter):
    java_class: ClassVar[str] = f"{_PACKAGE}.FloatConverter"
    kind = SchemaType.FLOAT32
    size = 4
    word = "Float"
    java = ("java.lang.Float", "intBitsToFloat", "floatToIntBits", "int")


class DoubleConverter(_FloatingPointConverter):
    java_class: ClassVar[str] = f"{_PACKAGE}.DoubleConverter"
    kind = SchemaType.FLOAT64
    size = 8
    word = "Double"
    java = ("java.lang.Double", "longBitsToDouble", "doubleToLongBits", "bigint")


def _big_endian(number: Column, size: int) -> Column:
    # hex of a negative number has all 16 digits; that of a positive one only as many as it needs.
    return F.unhex(F.right(F.lpad(F.hex(number), 16, "0"), F.lit(2 * size)))
