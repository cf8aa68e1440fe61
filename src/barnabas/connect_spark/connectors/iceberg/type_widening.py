"""The changes of a column's type that Iceberg can make without rewriting files."""

from __future__ import annotations

from pyspark.sql import types as t

__all__ = ["widened"]


def widened(known: t.DataType, found: t.DataType) -> t.DataType:
    """Return the type that a column of the type ``known`` becomes for values of the type ``found``.

    INT becomes BIGINT, FLOAT becomes DOUBLE, and a DECIMAL gets more digits. No other type changes: Iceberg's format
    does not allow it.
    """
    if isinstance(known, t.IntegerType) and isinstance(found, t.LongType):
        return found
    if isinstance(known, t.FloatType) and isinstance(found, t.DoubleType):
        return found
    if isinstance(known, t.DecimalType) and isinstance(found, t.DecimalType):
        is_wider = found.scale == known.scale and found.precision > known.precision
        return found if is_wider else known
    return known
