"""Convert schemaless values to the types of a target. A value that would lose information is a misfit.

Spark's own cast of a VARIANT is more lenient: it turns 1.5 into 1, and booleans into numbers. Here a number fits
another numeric type if its value is the same there. Text fits the type that it represents, and everything fits text
(objects and lists as JSON). Null fits everything.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as t

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["fitted_variant", "is_object", "members"]

_WHOLE = (t.ByteType, t.ShortType, t.IntegerType, t.LongType)
_VARIANT = t.VariantType()


def members(column: Column, names: list[str]) -> Column:
    """Return an object's fields as a struct of VARIANTs; null for values that are not objects."""
    return column.try_cast(t.StructType([t.StructField(name, _VARIANT) for name in names]))


def is_object(column: Column) -> Column:
    return members(column, ["_"]).isNotNull()


def fitted_variant(column: Column, wanted: t.DataType) -> tuple[Column, Column | None]:
    """Return the value in the wanted type, and whether it is a misfit (never null). None if no value can be one."""
    if isinstance(wanted, t.VariantType):
        return column, None
    if isinstance(wanted, t.StringType):
        return _text(column), None
    if isinstance(wanted, t.StructType):
        return _struct(column, wanted)
    if isinstance(wanted, t.ArrayType):
        return _items(column, wanted.elementType, t.ArrayType(_VARIANT), F.transform, lambda items: items)
    if isinstance(wanted, t.MapType):
        return _items(
            column,
            wanted.valueType,
            t.MapType(t.StringType(), _VARIANT),
            lambda found, make: F.transform_values(found, lambda _, item: make(item)),
            F.map_values,
        )
    made = F.try_variant_get(column, "$", wanted.simpleString())
    return made, _is_something(column) & ~F.coalesce(_is_same(column, made, wanted), F.lit(False))


def _kind(column: Column) -> Column:
    """Return the kind, such as BIGINT, DECIMAL(2,1), STRING or OBJECT<...>."""
    return F.schema_of_variant(column)


def _is_something(column: Column) -> Column:
    return column.isNotNull() & ~F.is_variant_null(column)


def _text(column: Column) -> Column:
    text = F.when(_kind(column) == "STRING", F.try_variant_get(column, "$", "string")).otherwise(F.to_json(column))
    return F.when(_is_something(column), text)


def _is_same(column: Column, made: Column, wanted: t.DataType) -> Column:
    kind = _kind(column)
    is_text = kind == "STRING"
    if isinstance(wanted, t.NumericType):
        is_number = kind.rlike("^(TINYINT|SMALLINT|INT|BIGINT|FLOAT|DOUBLE|DECIMAL.*)$")
        given = F.try_variant_get(column, "$", "double")
        is_equal = made.cast("double") == given
        if not isinstance(wanted, (*_WHOLE, t.DecimalType)):
            # A double can't represent every whole number of more than 53 bits.
            is_equal = F.when(kind == "BIGINT", made.cast("bigint") == F.try_variant_get(column, "$", "bigint"))
            is_equal = is_equal.otherwise(made.isNotNull())
        return (is_number | is_text) & is_equal
    if isinstance(wanted, t.BooleanType):
        return ((kind == "BOOLEAN") | is_text) & made.isNotNull()
    return is_text & made.isNotNull()  # JSON has no dates, times or bytes of its own.


def _struct(column: Column, wanted: t.StructType) -> tuple[Column, Column | None]:
    found = members(column, wanted.fieldNames())
    fields, misfits = [], [_is_something(column) & found.isNull()]
    for field in wanted:
        made, misfit = fitted_variant(found.getField(field.name), field.dataType)
        fields.append(made.alias(field.name))
        if misfit is not None:
            misfits.append(F.coalesce(misfit, F.lit(False)))
    return F.when(found.isNotNull(), F.struct(*fields)), reduce(or_, misfits)


def _items(
    column: Column,
    wanted: t.DataType,
    container: t.DataType,
    change: Callable[[Column, Callable[[Column], Column]], Column],
    items_of: Callable[[Column], Column],
) -> tuple[Column, Column | None]:
    found = column.try_cast(container)

    def is_misfit(item: Column) -> Column:
        misfit = fitted_variant(item, wanted)[1]
        return F.lit(False) if misfit is None else F.coalesce(misfit, F.lit(False))

    made = change(found, lambda item: fitted_variant(item, wanted)[0])
    inner = F.coalesce(F.exists(items_of(found), is_misfit), F.lit(False))
    return made, (_is_something(column) & found.isNull()) | inner
