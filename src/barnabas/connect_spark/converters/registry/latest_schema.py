"""Fit records into the latest schema of a subject, which their own need not equal (``use.latest.version``)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.connect_spark.converters.schema_merging import merged_type, moved

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["fitted", "misfits"]

_NUMBERS = (t.ByteType(), t.ShortType(), t.IntegerType(), t.LongType(), t.FloatType(), t.DoubleType())


def misfits(
    source: t.DataType, target: t.DataType, defaults: Mapping[str, str], *, is_strict: bool, path: str = "value"
) -> list[str]:
    """Return why records of a type can't be written as another one, by field. ``defaults`` are of its own fields."""
    if isinstance(source, t.StructType) and isinstance(target, t.StructType):
        found = []
        for field in target.fields:
            if field.name in source.names:
                kind, inner = source[field.name].dataType, f"{path}.{field.name}"
                found += misfits(kind, field.dataType, {}, is_strict=is_strict, path=inner)
            elif not field.nullable and field.name not in defaults:
                found.append(f"they lack {path}.{field.name}, which has no default")
        if is_strict:
            found += [
                f"it does not have {path}.{name} (latest.compatibility.strict=false leaves such fields out)"
                for name in source.names
                if name not in target.names
            ]
        return found
    if isinstance(source, t.ArrayType) and isinstance(target, t.ArrayType):
        return misfits(source.elementType, target.elementType, {}, is_strict=is_strict, path=f"{path}[]")
    if isinstance(source, t.MapType) and isinstance(target, t.MapType):
        return misfits(source.valueType, target.valueType, {}, is_strict=is_strict, path=f"{path}[]")
    if _holds(target, source):
        return []
    return [f"{path} is {source.simpleString()}, and the schema has {target.simpleString()}"]


def _holds(target: t.DataType, source: t.DataType) -> bool:
    """Return whether every value of a type is one of another type."""
    if isinstance(target, t.DecimalType) and isinstance(source, t.DecimalType):
        return bool(merged_type((target, source)) == target)
    return bool(merged_type((target, source), promotes=target in _NUMBERS) == target)


def fitted(column: Column, source: t.DataType, target: t.DataType, defaults: Mapping[str, str]) -> Column:
    """Return records as another type: other fields are left out, and absent ones have their defaults."""
    moved_column = moved(column, source, target)
    if not isinstance(source, t.StructType) or not isinstance(target, t.StructType):
        return moved_column
    absent = {name for name in defaults if name in target.names and name not in source.names}
    if not absent:
        return moved_column
    fields = [
        (_default(defaults[field.name], field.dataType) if field.name in absent else moved_column.getField(field.name))
        .alias(field.name)
        for field in target.fields
    ]  # fmt: skip
    return F.when(column.isNotNull(), F.struct(*fields))


def _default(text: str, kind: t.DataType) -> Column:
    wrapped = t.StructType([t.StructField("value", kind)])
    return F.from_json(F.lit(f'{{"value":{text}}}'), wrapped)["value"]
