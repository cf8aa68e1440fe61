"""Convert VARIANT, from parsed JSON, to a typed column, by a Connect schema and by the rules of JsonConverter.

Numbers out of range, text in place of a number and similar values are errors of the row. (Java's converter accepts
Jackson's conversions: 0 for text, a wrapped number.) A Decoding walks the schema once and creates two expressions: the
value, and its first error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.connect_spark.converters.connect_schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    SchemaType,
)
from barnabas.connect_spark.converters.decimals import decimal_of_bytes
from barnabas.connect_spark.converters.spark_types import decimal_type, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["JSON_TEXT", "MILLIS_OF_DAY", "JsonDecoding", "Read", "default_literal", "first_error", "member", "no_error"]

MILLIS_OF_DAY = 86_400_000
JSON_TEXT = "barnabas.connect.data.Json"
"""The name of a string's schema whose value is any JSON, as text."""
_MAX_MILLIS = (2**63 - 1) // 1000
_RANGES = {
    SchemaType.INT8: (-(2**7), 2**7 - 1),
    SchemaType.INT16: (-(2**15), 2**15 - 1),
    SchemaType.INT32: (-(2**31), 2**31 - 1),
    SchemaType.INT64: (-(2**63), 2**63 - 1),
}


@dataclass(frozen=True)
class Read:
    """A typed value, and its error (string, null without an error)."""

    value: Column
    error: Column


def no_error() -> Column:
    return F.lit(None).cast("string")


def first_error(errors: list[Column]) -> Column:
    return F.coalesce(*errors) if errors else no_error()


def member(variant: Column, name: str) -> Column:
    """Return a member of an object as VARIANT; null if the member is absent (JSON's null is not SQL null)."""
    quote = next((character for character in "\"'" if character not in name), None)
    if quote is None or not name or "\\" in name:
        return F.try_element_at(variant.try_cast("map<string,variant>"), F.lit(name))
    return F.try_variant_get(variant, f"$[{quote}{name}{quote}]", "variant")


def is_object(variant: Column) -> Column:
    return variant.try_cast(t.StructType([])).isNotNull()


def default_literal(schema: ConnectSchema) -> Column:
    """Return the default of a schema as a constant of its type. Raise DataException if it has another type."""
    # Connect's defaults have the same form as data of the envelope.
    read = JsonDecoding(replace_null_with_default=False).read(schema, F.parse_json(F.lit(schema.default)))
    return read.value


@dataclass(frozen=True)
class JsonDecoding:
    replace_null_with_default: bool = True
    text_of_time: bool = False
    """Whether dates and timestamps may be written as ISO 8601 text, for JSON that doesn't come from Connect."""

    def read(self, schema: ConnectSchema, variant: Column) -> Read:
        """Read the value. That of a row with an error is unused, so values are not guarded, which keeps plans small."""
        found = self._present(schema, variant)
        absent = variant.isNull() | F.is_variant_null(variant)
        if schema.default is not None and self.replace_null_with_default:
            return Read(F.coalesce(found.value, default_literal(schema)), F.when(~absent, found.error))
        if schema.optional:
            return Read(found.value, F.when(~absent, found.error))
        # Connect's text.
        missing = F.lit(f"Invalid null value for required {schema.type.name} field")
        return Read(found.value, F.when(absent, missing).otherwise(found.error))

    def _present(self, schema: ConnectSchema, variant: Column) -> Read:
        if schema.logical is not None:
            return self._logical(schema, schema.logical, variant)
        if schema.name == JSON_TEXT:
            return Read(F.when(~F.is_variant_null(variant), F.to_json(variant)), no_error())
        if schema.type is SchemaType.STRUCT:
            return self._struct(schema, variant)
        if schema.type is SchemaType.ARRAY:
            return self._array(schema, variant)
        if schema.type is SchemaType.MAP:
            return self._map(schema, variant)
        return _SCALARS[schema.type](variant, schema.type)

    def _struct(self, schema: ConnectSchema, variant: Column) -> Read:
        spark_type(schema)  # Refuses duplicate names.
        reads = [(field.name, self.read(field.schema, member(variant, field.name))) for field in schema.fields]
        wrong = F.when(
            ~is_object(variant),
            F.concat(F.lit("Structs should be encoded as JSON objects, but found "), _kind(variant)),
        )
        named = [
            F.when(read.error.isNotNull(), F.concat(F.lit(f"{_shown(name)}: "), read.error)) for name, read in reads
        ]
        value = F.struct(*(read.value.alias(name) for name, read in reads)) if reads else F.expr("struct()")
        return Read(F.when(variant.isNotNull() & ~F.is_variant_null(variant), value), first_error([wrong, *named]))

    def _array(self, schema: ConnectSchema, variant: Column) -> Read:
        items = variant.try_cast("array<variant>")
        wrong = F.when(
            items.isNull(), F.concat(F.lit("Arrays should be encoded as JSON arrays, but found "), _kind(variant))
        )
        value = F.transform(items, lambda item: self.read(schema.item, item).value)
        return Read(value, F.coalesce(wrong, _first(items, lambda item: self.read(schema.item, item).error)))

    def _map(self, schema: ConnectSchema, variant: Column) -> Read:
        if schema.key.type is SchemaType.STRING:
            members = variant.try_cast("map<string,variant>")
            wrong = F.when(
                members.isNull(),
                F.concat(
                    F.lit("Maps with string fields should be encoded as JSON objects, but found "), _kind(variant)
                ),
            )
            value = F.transform_values(members, lambda _, item: self.read(schema.item, item).value)
            bad = _first(F.map_values(members), lambda item: self.read(schema.item, item).error)
            return Read(value, F.coalesce(wrong, bad))
        spark_type(schema)
        return self._pairs(schema, variant)

    def _pairs(self, schema: ConnectSchema, variant: Column) -> Read:
        """Read a map whose keys aren't strings: an array of [key, value]. Of equal keys the last one counts."""
        pairs = variant.try_cast("array<array<variant>>")
        wrong = F.when(
            pairs.isNull(),
            F.concat(
                F.lit("Maps with non-string fields should be encoded as JSON array of tuples, but found "),
                _kind(variant),
            ),
        )
        odd = F.when(
            F.exists(pairs, lambda pair: F.coalesce(F.size(pair) != 2, F.lit(True))),
            F.lit("Found invalid map entry: every one must be an array of a key and a value"),
        )
        keys = F.transform(pairs, lambda pair: self.read(schema.key, F.get(pair, F.lit(0))).value)
        values = F.transform(pairs, lambda pair: self.read(schema.item, F.get(pair, F.lit(1))).value)
        nameless = F.when(F.exists(keys, lambda key: key.isNull()), F.lit("A key of a map is null"))
        bad_key = _first(pairs, lambda pair: self.read(schema.key, F.get(pair, F.lit(0))).error)
        bad_value = _first(pairs, lambda pair: self.read(schema.item, F.get(pair, F.lit(1))).error)
        entries = F.filter(
            F.arrays_zip(keys.alias("key"), values.alias("value")),
            lambda entry, index: index == F.size(keys) - F.array_position(F.reverse(keys), entry["key"]),
        )
        error = F.coalesce(wrong, odd, bad_key, nameless, bad_value)
        return Read(F.when(error.isNull(), F.map_from_entries(entries)), error)

    def _logical(self, schema: ConnectSchema, logical: str, variant: Column) -> Read:
        if logical == DECIMAL:
            return _decimal(schema, variant)
        kind = F.schema_of_variant(variant)
        number = _integer(variant, SchemaType.INT64 if logical == TIMESTAMP else SchemaType.INT32)
        if logical == DATE:
            message = F.concat(
                F.lit("Invalid type for Date, underlying representation should be integer but was "), _kind(variant)
            )
            read = Read(F.date_from_unix_date(number.value), F.when(number.error.isNotNull(), message))
            text = variant.try_cast("string").try_cast("date")
        elif logical == TIME:
            outside = (number.value < 0) | (number.value > MILLIS_OF_DAY)
            message = F.lit(
                "Time values must use number of milliseconds greater than 0 and less than 86400000: it is not in range"
            )
            return Read(number.value, F.coalesce(number.error, F.when(outside, message)))
        else:
            outside = F.abs(F.try_divide(number.value, F.lit(1000))) > _MAX_MILLIS / 1000
            message = F.lit("the timestamp is out of the range of Spark's")
            read = Read(
                F.when(~outside, F.timestamp_millis(F.when(~outside, number.value))),
                F.coalesce(number.error, F.when(outside, message)),
            )
            text = variant.try_cast("string").try_cast("timestamp")
        if not self.text_of_time:
            return read
        is_text = kind == "STRING"
        unread = F.concat(F.lit(f"no {schema.type}: "), variant.try_cast("string"))
        return Read(
            F.when(is_text, text).otherwise(read.value),
            F.when(is_text, F.when(text.isNull(), unread)).otherwise(read.error),
        )


def _shown(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)


def _kind(variant: Column) -> Column:
    """Return the readable type name, as Jackson names nodes."""
    kind = F.schema_of_variant(variant)
    return (
        F.when(kind == "STRING", F.lit("STRING"))
        .when(kind == "BOOLEAN", F.lit("BOOLEAN"))
        .when(kind == "VOID", F.lit("NULL"))
        .when(kind.startswith("OBJECT"), F.lit("OBJECT"))
        .when(kind.startswith("ARRAY"), F.lit("ARRAY"))
        .otherwise(F.lit("NUMBER"))
    )


def _first(items: Column, error: Callable[[Column], Column]) -> Column:
    return F.get(F.filter(F.transform(items, error), lambda message: message.isNotNull()), F.lit(0))


def _expected(what: str, variant: Column) -> Column:
    return F.concat(F.lit(f"Invalid type for {what}, received "), _kind(variant), F.lit(" "), F.to_json(variant))


def _integer(variant: Column, kind: SchemaType) -> Read:
    """Read a whole number of the type's range; 1.0 and 1e3 are whole numbers too."""
    value = variant.try_cast(spark_type(ConnectSchema(kind)))
    described = F.schema_of_variant(variant)
    unread = _expected(f"{kind}, expected a whole number of its range", variant)
    is_whole = ~described.isin("STRING", "BOOLEAN") & (variant.try_cast("double") == value.cast("double"))
    return Read(
        value, F.when(~F.coalesce((described == "BIGINT") & value.isNotNull() | is_whole, F.lit(False)), unread)
    )


def _floating(variant: Column, kind: SchemaType) -> Read:
    value = variant.try_cast("double").cast(spark_type(ConnectSchema(kind)))
    described = F.schema_of_variant(variant)
    special = variant.try_cast("string").isin("NaN", "Infinity", "-Infinity")
    good = described.isin("BIGINT", "DOUBLE") | described.startswith("DECIMAL") | special
    return Read(value, F.when(~good | value.isNull(), _expected(f"{kind}, expected a number", variant)))


def _boolean(variant: Column, kind: SchemaType) -> Read:
    wrong = F.schema_of_variant(variant) != "BOOLEAN"
    return Read(variant.try_cast("boolean"), F.when(wrong, _expected("boolean", variant)))


def _string(variant: Column, kind: SchemaType) -> Read:
    wrong = F.schema_of_variant(variant) != "STRING"
    return Read(variant.try_cast("string"), F.when(wrong, _expected("string", variant)))


def _bytes(variant: Column, kind: SchemaType) -> Read:
    text = F.when(F.schema_of_variant(variant) == "STRING", variant.try_cast("string"))
    value = F.try_to_binary(text, F.lit("base64"))
    return Read(value, F.when(value.isNull(), F.concat(F.lit("Invalid bytes field: not Base64: "), F.to_json(variant))))


def _decimal(schema: ConnectSchema, variant: Column) -> Read:
    """Read a decimal. Text is the Base64 of the bytes; a number is itself, if the type holds all its digits."""
    kind = decimal_type(schema)
    is_text = F.schema_of_variant(variant) == "STRING"
    content = F.try_to_binary(F.when(is_text, variant.try_cast("string")), F.lit("base64"))
    number = F.when(~is_text, F.to_json(variant)).try_cast(kind)
    value = F.coalesce(decimal_of_bytes(content, kind), number)
    exact = number.cast("double") == variant.try_cast("double")
    unread = (
        F.when(is_text & content.isNull(), F.lit("Invalid bytes for Decimal field"))
        .when(
            is_text | variant.try_cast("double").isNotNull(),
            F.concat(F.lit(f"a Decimal does not fit into {kind.simpleString()}: "), F.to_json(variant)),
        )
        .otherwise(
            F.concat(
                F.lit("Invalid type for Decimal, underlying representation should be numeric or bytes but was "),
                _kind(variant),
            )
        )
    )
    is_number = ~F.schema_of_variant(variant).isin("STRING", "BOOLEAN")
    return Read(value, F.when(~F.coalesce(is_text & value.isNotNull() | is_number & exact, F.lit(False)), unread))


_SCALARS: dict[SchemaType, Callable[[Column, SchemaType], Read]] = {
    **dict.fromkeys(_RANGES, _integer),
    SchemaType.FLOAT32: _floating,
    SchemaType.FLOAT64: _floating,
    SchemaType.BOOLEAN: _boolean,
    SchemaType.STRING: _string,
    SchemaType.BYTES: _bytes,
}
