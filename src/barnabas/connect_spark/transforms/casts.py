"""Cast one value of a Connect type to another, by Java's numeric conversions.

A whole number that is too large for its new type loses its upper bits. A floating-point number is first limited to the
range of int or long. Text that is not a number of the type is an error of the row.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from barnabas.connect_spark.converters.connect_schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    DataException,
    SchemaType,
)
from barnabas.connect_spark.converters.json_decoding import Read, no_error
from barnabas.connect_spark.converters.spark_types import spark_type
from barnabas.connect_spark.converters.variants import iso_time, iso_timestamp

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["cast_typed", "cast_variant"]

_BITS = {SchemaType.INT8: 8, SchemaType.INT16: 16, SchemaType.INT32: 32, SchemaType.INT64: 64}
_FLOATING = (SchemaType.FLOAT32, SchemaType.FLOAT64)


def cast_typed(schema: ConnectSchema, column: Column, target: SchemaType) -> Read:
    """Cast typed data; null stays null. Raise DataException for a type that can't be cast at all."""
    if schema.logical in (DATE, TIME, TIMESTAMP):
        return _moment(schema, column, target)
    if schema.logical == DECIMAL:
        if target is SchemaType.STRING:
            return Read(column.cast("string"), no_error())
        return _number(column.cast("double"), target, is_floating=True)
    if schema.type is SchemaType.STRING:
        return _text(column, target)
    if schema.type is SchemaType.BOOLEAN:
        return _truth(column, target)
    if schema.type in _BITS or schema.type in _FLOATING:
        return _number(column, target, is_floating=schema.type in _FLOATING)
    if schema.type is SchemaType.BYTES and target is SchemaType.STRING:
        return Read(F.translate(F.base64(column), "\r\n", ""), no_error())
    if schema.type is SchemaType.BYTES:
        raise DataException("Unexpected type in Cast transformation: class [B")
    raise DataException(f"Cast transformation does not support casting to/from {schema.type.name}")


def cast_variant(value: Column, target: SchemaType) -> Read:
    """Cast schemaless data, whose type differs by row; the result is VARIANT."""
    kind = F.schema_of_variant(value)
    cases = [
        (kind == "BIGINT", _number(value.try_cast("bigint"), target, is_floating=False)),
        (kind == "STRING", _text(value.try_cast("string"), target)),
        (kind == "BOOLEAN", _truth(value.try_cast("boolean"), target)),
        (
            kind.isin("FLOAT", "DOUBLE") | kind.startswith("DECIMAL"),
            _number(value.try_cast("double"), target, is_floating=True),
        ),
    ]
    absent = value.isNull() | F.is_variant_null(value)
    result, error = F.when(absent, value), F.when(absent, no_error())
    for condition, read in cases:
        result, error = result.when(condition, read.value.cast("variant")), error.when(condition, read.error)
    message = F.concat(F.lit("Cast transformation does not support casting to/from "), kind)
    return Read(result, error.otherwise(message))


def _spark(column: Column, target: SchemaType) -> Column:
    return column.try_cast(spark_type(ConnectSchema(target)))


def _moment(schema: ConnectSchema, column: Column, target: SchemaType) -> Read:
    if target is SchemaType.STRING:
        texts = {DATE: lambda: column.cast("string"), TIME: lambda: iso_time(column)}
        return Read(texts.get(str(schema.logical), lambda: iso_timestamp(column))(), no_error())
    if schema.logical == DATE:
        column = F.unix_date(column)
    elif schema.logical == TIMESTAMP:
        column = F.unix_millis(column)
    return _number(column, target, is_floating=False)


def _number(column: Column, target: SchemaType, *, is_floating: bool) -> Read:
    if target is SchemaType.STRING:
        return Read(column.cast("string"), no_error())
    if target is SchemaType.BOOLEAN:
        whole = _saturated(column, 64) if is_floating else column
        return Read(whole != 0, no_error())
    if target in _FLOATING:
        return Read(_spark(column, target), no_error())
    bits = _BITS[target]
    whole = _saturated(column, max(bits, 32)) if is_floating else column.cast("bigint")
    return Read(_spark(_wrapped(whole, bits), target), no_error())


def _saturated(column: Column, bits: int) -> Column:
    """Cast a double to int or long as Java does."""
    least, most = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    number = column.cast("double")
    return (
        F.when(F.isnan(number), F.lit(0).cast("bigint"))
        .when(number >= float(most), F.lit(most).cast("bigint"))
        .when(number <= float(least), F.lit(least).cast("bigint"))
        .otherwise(number.try_cast("bigint"))
    )


def _wrapped(whole: Column, bits: int) -> Column:
    if bits == 64:
        return whole
    size = F.lit(2**bits).cast("bigint")
    rest = F.pmod(whole, size)
    return F.when(rest >= 2 ** (bits - 1), rest - size).otherwise(rest)


def _truth(column: Column, target: SchemaType) -> Read:
    if target in (SchemaType.STRING, SchemaType.BOOLEAN):
        return Read(_spark(column, target), no_error())
    return Read(_spark(column.cast("int"), target), no_error())


def _text(column: Column, target: SchemaType) -> Read:
    if target is SchemaType.STRING:
        return Read(column, no_error())
    if target is SchemaType.BOOLEAN:
        return Read(F.lower(column) == "true", no_error())
    if target in _FLOATING:
        number = _spark(column, target)
    else:
        number = F.when(column.rlike(r"\A[+-]?[0-9]+\z"), _spark(column, target))
    message = F.concat(F.lit("Value ("), column, F.lit(") was out of range for requested data type"))
    return Read(number, F.when(column.isNotNull() & number.isNull(), message))
