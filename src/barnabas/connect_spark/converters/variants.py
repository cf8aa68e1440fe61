"""VARIANT, the type of schemaless data and of headers: conversion of typed data, its text, and its inner type."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from barnabas.connect_spark.converters.connect_schema import TIME, ConnectSchema, SchemaType

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["iso_time", "iso_timestamp", "null_variant", "object_of", "text_of", "variant_of"]


def null_variant() -> Column:
    """Return JSON's null, which is not the absence of a value."""
    return F.parse_json(F.lit("null"))


def object_of(members: Column) -> Column:
    """Return map<string,variant> as one VARIANT."""
    return F.to_variant_object(members)


def variant_of(schema: ConnectSchema | None, column: Column) -> Column:
    """Return typed data as schemaless data; null stays null."""
    if schema is None:
        return column
    if schema.type.is_primitive:
        return column.cast("variant")
    return F.to_variant_object(_with_text_keys(schema, column))


def _with_text_keys(schema: ConnectSchema, column: Column) -> Column:
    """Convert keys of maps to text, because objects of VARIANT have names."""
    if schema.type.is_primitive:
        return column
    if schema.type is SchemaType.ARRAY:
        return F.transform(column, lambda item: _with_text_keys(schema.item, item))
    if schema.type is SchemaType.MAP:
        inner = F.transform_values(column, lambda _, item: _with_text_keys(schema.item, item))
        return inner if schema.key.type is SchemaType.STRING else F.transform_keys(inner, lambda key, _: _text(key))
    if not schema.fields:
        return column
    fields = [_with_text_keys(field.schema, column.getField(field.name)).alias(field.name) for field in schema.fields]
    return F.when(column.isNotNull(), F.struct(*fields))


def _text(column: Column) -> Column:
    return F.coalesce(column.try_cast("string"), F.lit(""))


def iso_timestamp(moment: Column) -> Column:
    """Format a timestamp as Connect does: 2019-08-23T14:34:54.346Z."""
    return F.date_format(F.to_utc_timestamp(moment, F.current_timezone()), "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'")


def iso_time(millis: Column) -> Column:
    """Format a time as Connect does: 14:34:54.346Z, from milliseconds since midnight."""
    return F.format_string(
        "%02d:%02d:%02d.%03dZ",
        F.floor(millis / 3_600_000).cast("int"),
        F.floor(millis / 60_000).cast("int") % 60,
        F.floor(millis / 1000).cast("int") % 60,
        (millis % 1000).cast("int"),
    )


def text_of(value: Column, schema: Column | None = None) -> Column:
    """Return a VARIANT as Connect writes a header: text unchanged, other values as literals; null for null."""
    kind = F.schema_of_variant(value)
    known = F.lit("") if schema is None else F.coalesce(schema, F.lit(""))
    return (
        F.when(kind == "STRING", value.try_cast("string"))
        .when(F.is_variant_null(value), F.lit(None).cast("string"))
        .when(known.contains(TIME + '"'), iso_time(value.try_cast("int")))
        .when(kind == "TIMESTAMP", iso_timestamp(value.try_cast("timestamp")))
        .when(kind == "DATE", value.try_cast("date").cast("string"))
        .when(kind.startswith("DECIMAL"), _scaled(value.try_cast("string"), known))
        .when(kind == "BINARY", F.translate(F.base64(value.try_cast("binary")), "\r\n", ""))
        .otherwise(F.to_json(value))
    )


def _scaled(digits: Column, schema: Column) -> Column:
    """Format with all decimal places of the schema: VARIANT drops trailing zeros."""
    scale = F.regexp_extract(schema, r'"scale":\s*"([0-9]+)"', 1).try_cast("int")
    places = F.when(digits.contains("."), F.substring_index(digits, ".", -1)).otherwise(F.lit(""))
    padded = F.rpad(places, F.greatest(scale, F.length(places)), F.lit("0"))
    return F.when(scale > 0, F.concat(F.substring_index(digits, ".", 1), F.lit("."), padded)).otherwise(digits)
