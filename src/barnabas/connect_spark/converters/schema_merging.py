"""Merge records of several schemas into one DataFrame: the schema that holds all of them, and data converted to it.

Fields are joined by name, whole numbers and floating-point numbers widen, and types that don't fit together become
VARIANT (represented by None). Nothing is lost, but an absent field and a null one can't be distinguished.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.connect_spark.converters.spark_types import connect_schema
from barnabas.connect_spark.converters.variants import variant_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["inferred_type", "merged_type", "moved"]

_WHOLE = (t.ByteType(), t.ShortType(), t.IntegerType(), t.LongType())
_FLOATING = (t.FloatType(), t.DoubleType())
_NUMBERS = (*_WHOLE, *_FLOATING)


def inferred_type(frame: DataFrame, column: Column, *, keeps_void: bool = False) -> t.DataType:
    """Return the type that holds all VARIANTs of a column; NullType if it has none. Reads the frame once.

    A field that is null in all records has the type STRING, or with ``keeps_void`` NullType.
    """
    row = frame.select(F.schema_of_variant_agg(column)).first()
    type_text = "VOID" if row is None or row[0] is None else str(row[0])
    # The function calls a struct an object.
    found = t.DataType.fromDDL(type_text.replace("OBJECT<", "STRUCT<"))
    return found if keeps_void else _without_void(found)


def _without_void(kind: t.DataType, inside: bool = False) -> t.DataType:
    """Keep a field that is null in all records as a string: few targets accept a column without a type."""
    if isinstance(kind, t.NullType):
        return t.StringType() if inside else kind
    if isinstance(kind, t.StructType):
        return t.StructType([t.StructField(field.name, _without_void(field.dataType, True)) for field in kind.fields])
    if isinstance(kind, t.ArrayType):
        return t.ArrayType(_without_void(kind.elementType, True))
    return kind


def merged_type(kinds: Iterable[t.DataType], *, promotes: bool = False) -> t.DataType:
    """Return the merged type; NullType where all values are null. With ``promotes`` whole and floating-point numbers
    become DOUBLE, as in the rules of Avro."""
    merged: t.DataType = t.NullType()
    for kind in kinds:
        merged = _pair(merged, kind, promotes)
    return merged


def _pair(left: t.DataType, right: t.DataType, promotes: bool) -> t.DataType:
    if left == right or isinstance(right, t.NullType):
        return left
    if isinstance(left, t.NullType):
        return right
    for ladder in (_WHOLE, _FLOATING):
        if left in ladder and right in ladder:
            return ladder[max(ladder.index(left), ladder.index(right))]
    if promotes and left in _NUMBERS and right in _NUMBERS:
        return t.DoubleType()
    if isinstance(left, t.StructType) and isinstance(right, t.StructType):
        names = dict.fromkeys([*left.names, *right.names])
        return t.StructType(
            [t.StructField(name, merged_type(_fields(name, left, right), promotes=promotes)) for name in names]
        )
    if isinstance(left, t.ArrayType) and isinstance(right, t.ArrayType):
        return t.ArrayType(_pair(left.elementType, right.elementType, promotes))
    if isinstance(left, t.MapType) and isinstance(right, t.MapType) and left.keyType == right.keyType:
        return t.MapType(left.keyType, _pair(left.valueType, right.valueType, promotes))
    if isinstance(left, t.DecimalType) and isinstance(right, t.DecimalType):
        return _decimal(left, right)
    return t.VariantType()


def _fields(name: str, *structs: t.StructType) -> list[t.DataType]:
    return [struct[name].dataType for struct in structs if name in struct.names]


def _decimal(left: t.DecimalType, right: t.DecimalType) -> t.DataType:
    scale = max(left.scale, right.scale)
    precision = max(left.precision - left.scale, right.precision - right.scale) + scale
    return t.DecimalType(precision, scale) if precision <= 38 else t.VariantType()


def moved(column: Column, source: t.DataType, target: t.DataType) -> Column:
    """Return a column as the merged type."""
    if source == target:
        return column
    if isinstance(source, t.NullType):
        return F.lit(None).cast(target)
    if isinstance(target, t.VariantType):
        return _as_variant(column, source)
    if isinstance(source, t.VariantType):
        return column.try_cast(target)
    if isinstance(source, t.StructType) and isinstance(target, t.StructType):
        known = set(source.names)
        fields = [
            (moved(column.getField(field.name), source[field.name].dataType, field.dataType) if field.name in known
             else F.lit(None).cast(field.dataType)).alias(field.name)
            for field in target.fields
        ]  # fmt: skip
        return F.when(column.isNotNull(), F.struct(*fields))
    if isinstance(source, t.ArrayType) and isinstance(target, t.ArrayType):
        from_item, to_item = source.elementType, target.elementType
        return F.transform(column, lambda item: moved(item, from_item, to_item))
    if isinstance(source, t.MapType) and isinstance(target, t.MapType):
        from_value, to_value = source.valueType, target.valueType
        return F.transform_values(column, lambda _, item: moved(item, from_value, to_value))
    return column.cast(target)


def _as_variant(column: Column, source: t.DataType) -> Column:
    return variant_of(connect_schema(source), column)
