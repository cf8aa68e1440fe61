"""Cast values to a table's types where no information is lost, and report the other values.

Types that are inferred from records change with their data: 1 and 1.5 are a long and a double. The types of a table do
not. A number fits another numeric type if its value is the same there (except for the precision of float and double).
Text fits the type that it represents. Everything fits text: objects, lists and maps as JSON, bytes as Base64.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

from barnabas.connect_spark.connectors.columns.variant_fitting import fitted_variant

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["Fitted", "Widening", "fitted", "known_type", "new_fields"]

Widening = Callable[[t.DataType, t.DataType], t.DataType]
"""Return the type that a column of the first type becomes for values of the second one: itself, or a wider one."""


@dataclass(frozen=True, slots=True)
class Fitted:
    column: Column
    misfit: Column | None
    """Whether a value does not fit; it is null in ``column`` then. None if all values fit."""


def fitted(column: Column, found: t.DataType, wanted: t.DataType) -> Fitted:
    if found.simpleString() == wanted.simpleString():
        return Fitted(column, None)
    if isinstance(found, t.NullType):
        return Fitted(column.cast(wanted), None)
    if isinstance(found, t.StructType) and isinstance(wanted, t.StructType):
        return _struct(column, found, wanted)
    if isinstance(found, t.ArrayType) and isinstance(wanted, t.ArrayType):
        return _array(column, found, wanted)
    if isinstance(found, t.MapType) and isinstance(wanted, t.MapType):
        return _map(column, found, wanted)
    if isinstance(found, t.VariantType):
        return Fitted(*fitted_variant(column, wanted))
    if isinstance(wanted, t.StringType):
        return Fitted(_text(column, found), None)
    return _atomic(column, found, wanted)


def _text(column: Column, found: t.DataType) -> Column:
    if isinstance(found, t.StructType | t.ArrayType | t.MapType | t.VariantType):
        return F.to_json(column)
    return F.base64(column) if isinstance(found, t.BinaryType) else column.cast("string")


def _checked(column: Column, made: Column) -> Fitted:
    return Fitted(made, column.isNotNull() & made.isNull())


def _atomic(column: Column, found: t.DataType, wanted: t.DataType) -> Fitted:
    times = (t.DateType, t.TimestampType, t.TimestampNTZType)
    readable = (t.NumericType, t.BooleanType, *times)
    if isinstance(found, t.StringType) and isinstance(wanted, readable):
        return _checked(column, column.try_cast(wanted))
    both_numbers = isinstance(found, t.NumericType) and isinstance(wanted, t.NumericType)
    if both_numbers or (isinstance(found, times) and isinstance(wanted, times)):
        made = column.try_cast(wanted)
        if isinstance(found, t.FloatType | t.DoubleType) and isinstance(wanted, t.FloatType | t.DoubleType):
            return Fitted(made, None)
        back = made.try_cast(found)
        is_same = F.coalesce(back == column, F.lit(False))
        return Fitted(F.when(is_same, made), column.isNotNull() & ~is_same)
    return Fitted(F.lit(None).cast(wanted), column.isNotNull())


def _struct(column: Column, found: t.StructType, wanted: t.StructType) -> Fitted:
    names = {name.lower(): name for name in found.fieldNames()}
    fields, misfits = [], []
    for field in wanted:
        name = names.get(field.name.lower())
        if name is None:
            fields.append(F.lit(None).cast(field.dataType).alias(field.name))
            continue
        inner = fitted(column.getField(name), found[name].dataType, field.dataType)
        fields.append(inner.column.alias(field.name))
        if inner.misfit is not None:
            misfits.append(inner.misfit)
    made = F.when(column.isNotNull(), F.struct(*fields))
    return Fitted(made, reduce(or_, misfits) if misfits else None)


def _array(column: Column, found: t.ArrayType, wanted: t.ArrayType) -> Fitted:
    def inner(item: Column) -> Fitted:
        return fitted(item, found.elementType, wanted.elementType)

    made = F.transform(column, lambda item: inner(item).column)
    if inner(column).misfit is None:
        return Fitted(made, None)
    return Fitted(made, F.coalesce(F.exists(column, lambda item: _told(inner(item))), F.lit(False)))


def _map(column: Column, found: t.MapType, wanted: t.MapType) -> Fitted:
    def inner(item: Column) -> Fitted:
        return fitted(item, found.valueType, wanted.valueType)

    if found.keyType != wanted.keyType:
        return Fitted(F.lit(None).cast(wanted), column.isNotNull())
    made = F.transform_values(column, lambda _, item: inner(item).column)
    if inner(column).misfit is None:
        return Fitted(made, None)
    return Fitted(made, F.coalesce(F.exists(F.map_values(column), lambda item: _told(inner(item))), F.lit(False)))


def _told(found: Fitted) -> Column:
    return F.lit(False) if found.misfit is None else found.misfit


def known_type(kind: t.DataType) -> t.DataType | None:
    """Return the type without the parts that no record determines, such as a field that is null in all; None if empty.

    A part with a different type in each record is text, because a table needs one type.
    """
    if isinstance(kind, t.NullType):
        return None
    if isinstance(kind, t.VariantType):
        return t.StringType()
    if isinstance(kind, t.StructType):
        known = [(field, known_type(field.dataType)) for field in kind]
        fields = [t.StructField(field.name, inner) for field, inner in known if inner is not None]
        return t.StructType(fields) if fields else None
    if isinstance(kind, t.ArrayType):
        element = known_type(kind.elementType)
        return None if element is None else t.ArrayType(element)
    if isinstance(kind, t.MapType):
        value = known_type(kind.valueType)
        return None if value is None else t.MapType(kind.keyType, value)
    return kind


def new_fields(
    known: t.StructType, found: t.StructType, *, path: str = "", widens: Widening | None = None
) -> tuple[t.StructType, list[str]]:
    """Return the known type followed by the found fields that it lacks, and the names of these fields."""
    names = {field.name.lower(): field for field in found}
    merged, added = t.StructType(), []
    for field in known:
        other = names.pop(field.name.lower(), None)
        kind = field.dataType
        if other is not None:
            kind, inner = _with_new_fields(kind, other.dataType, f"{path}{field.name}", widens)
            added += inner
        merged.add(t.StructField(field.name, kind, field.nullable, field.metadata))
    for same_field in names.values():
        merged.add(t.StructField(same_field.name, same_field.dataType))
        added.append(f"{path}{same_field.name}")
    return merged, added


def _with_new_fields(
    known: t.DataType, found: t.DataType, path: str, widens: Widening | None
) -> tuple[t.DataType, list[str]]:
    if isinstance(known, t.StructType) and isinstance(found, t.StructType):
        return new_fields(known, found, path=f"{path}.", widens=widens)
    if isinstance(known, t.ArrayType) and isinstance(found, t.ArrayType):
        element, added = _with_new_fields(known.elementType, found.elementType, path, widens)
        return t.ArrayType(element, known.containsNull), added
    if isinstance(known, t.MapType) and isinstance(found, t.MapType):
        value, added = _with_new_fields(known.valueType, found.valueType, path, widens)
        return t.MapType(known.keyType, value, known.valueContainsNull), added
    return known if widens is None else widens(known, found), []
