"""Read JSON of a known flat schema in one pass of Spark's parser, where that gives what ``json_decoding`` would give.

Spark's parser is several times as fast as VARIANT, whose fields are looked up one by one, but it accepts other values:
it turns a number into text where text is wanted, for example. So each record has a check, ``is_plain``. Records that
fail it, and only these, are read by the rules of ``json_decoding``, which also states their errors.

If an object has a field twice, the last value counts, as in Connect.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import and_, or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.connect_spark.converters.connect_schema import DATE, TIMESTAMP, ConnectSchema, SchemaType
from barnabas.connect_spark.converters.json_decoding import JSON_TEXT
from barnabas.connect_spark.converters.spark_types import spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["PlainJson", "plain_json"]

_UNREAD = "__barnabas_unread"
_STRICT = {
    "mode": "PERMISSIVE",
    "columnNameOfCorruptRecord": _UNREAD,
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
"""Only JSON, as VARIANT's parser accepts it."""

_NOT_TEXT = r'(?s)\A(?:-?[0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?|true|false|["{\[].*)\z'
"""Text that Spark's parser also writes for values that are not text."""

_TEXT_STARTS = (("A", "["), ("a", "f"), ("g", "t"), ("u", "{"), ("|", None))
"""Ranges of first characters that only text has. Comparing costs much less than matching."""

_TIME_BYTES_MIN = 10
"""Numbers of so many digits are not cast to dates or timestamps; those of four to seven digits are, as years."""

_TYPES: dict[SchemaType, t.DataType] = {
    SchemaType.INT8: t.ByteType(),
    SchemaType.INT16: t.ShortType(),
    SchemaType.INT32: t.IntegerType(),
    SchemaType.INT64: t.LongType(),
    SchemaType.FLOAT64: t.DoubleType(),
    SchemaType.BOOLEAN: t.BooleanType(),
    SchemaType.STRING: t.StringType(),
}


@dataclass(frozen=True)
class PlainJson:
    schema: ConnectSchema
    refuses_unknown: bool

    def parse(self, text: Column) -> Column:
        """Return what ``value`` and ``is_plain`` use. It should be evaluated once for each record."""
        fields = [t.StructField(field.name, _parsed_type(field.schema)) for field in self.schema.fields]
        return F.from_json(text, t.StructType([*fields, t.StructField(_UNREAD, t.StringType())]), _STRICT)

    def value(self, parsed: Column) -> Column:
        """Return the record's value. It is right if the record is plain."""
        columns = [_value(field.schema, parsed.getField(field.name)).alias(field.name) for field in self.schema.fields]
        return F.struct(*columns).cast(spark_type(self.schema))

    def is_plain(self, text: Column, parsed: Column) -> Column:
        """Return whether ``value`` is the record's value, and the record has no error. Never null."""
        checks = [text.startswith("{"), parsed.getField(_UNREAD).isNull()]
        for field in self.schema.fields:
            checks += _checks(field.schema, parsed.getField(field.name))
        if self.refuses_unknown:
            names = F.array(*(F.lit(field.name) for field in self.schema.fields)).cast("array<string>")
            checks.append(F.size(F.array_except(F.json_object_keys(text), names)) == 0)
        return F.coalesce(reduce(and_, checks), F.lit(False))


def plain_json(schema: ConnectSchema | None, *, refuses_unknown: bool) -> PlainJson | None:
    """Return the quick reader of a schema; None for schemas that it can't read."""
    if schema is None or schema.type is not SchemaType.STRUCT or schema.logical is not None or not schema.fields:
        return None
    names = [field.name for field in schema.fields]
    if _UNREAD in names or len({name.lower() for name in names}) < len(names):
        return None
    if not all(_is_simple(field.schema) for field in schema.fields):
        return None
    return PlainJson(schema, refuses_unknown)


def _is_simple(schema: ConnectSchema) -> bool:
    if schema.default is not None or schema.name == JSON_TEXT:
        return False
    return schema.type in _TYPES if schema.logical is None else schema.logical in (DATE, TIMESTAMP)


def _parsed_type(schema: ConnectSchema) -> t.DataType:
    """Return the type that the parser produces. Dates and times are cast afterwards, by the rules of a cast."""
    return _TYPES[schema.type] if schema.logical is None else t.StringType()


def _value(schema: ConnectSchema, parsed: Column) -> Column:
    if schema.logical is not None:
        return parsed.try_cast("date" if schema.logical == DATE else "timestamp")
    if schema.type is SchemaType.FLOAT64:
        return parsed + F.lit(0.0)  # VARIANT has no negative zero.
    return parsed


def _checks(schema: ConnectSchema, parsed: Column) -> list[Column]:
    checks = [] if schema.optional else [parsed.isNotNull()]
    if schema.logical is not None:
        is_text = (F.octet_length(parsed) >= _TIME_BYTES_MIN) | ~parsed.rlike(_NOT_TEXT)
        checks.append(parsed.isNull() | (is_text & _value(schema, parsed).isNotNull()))
    elif schema.type is SchemaType.STRING:
        starts = [parsed >= low if high is None else (parsed >= low) & (parsed < high) for low, high in _TEXT_STARTS]
        checks.append(parsed.isNull() | reduce(or_, starts) | ~parsed.rlike(_NOT_TEXT))
    return checks
