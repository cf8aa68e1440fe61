"""Report fields of schemaless JSON that the given schema lacks, so that none is lost silently."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from barnabas.connect_spark.converters.connect_schema import ConnectSchema, SchemaType
from barnabas.connect_spark.converters.json_decoding import first_error, member

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["unknown_fields"]


def unknown_fields(schema: ConnectSchema, variant: Column) -> Column:
    """Return the error of the row (string), null if the schema has all of its fields."""
    found = _unknown(schema, variant, "")
    return first_error(found)


def _unknown(schema: ConnectSchema, variant: Column, path: str) -> list[Column]:
    if schema.type is SchemaType.STRUCT:
        names = F.map_keys(variant.try_cast("map<string,variant>"))
        extra = F.array_except(names, F.array(*(F.lit(field.name) for field in schema.fields)).cast("array<string>"))
        message = F.concat(
            F.lit(f"fields that barnabas.schema lacks{path}: "),
            F.array_join(F.sort_array(extra), ", "),
            F.lit(". Add them there, or set barnabas.schema.unknown.fields=ignore"),
        )
        inner = [
            name
            for field in schema.fields
            for name in _unknown(field.schema, member(variant, field.name), f"{path or ' in'} {field.name}")
        ]
        return [F.when(F.size(extra) > 0, message), *inner]
    if schema.type is SchemaType.ARRAY:
        return _among(schema.item, variant.try_cast("array<variant>"), path)
    if schema.type is SchemaType.MAP:
        return _among(schema.item, F.map_values(variant.try_cast("map<string,variant>")), path)
    return []


def _among(schema: ConnectSchema, items: Column, path: str) -> list[Column]:
    if schema.type.is_primitive:
        return []
    messages = F.transform(items, lambda item: first_error(_unknown(schema, item, path)))
    return [F.get(F.filter(messages, lambda message: message.isNotNull()), F.lit(0))]
