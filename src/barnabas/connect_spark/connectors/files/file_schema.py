"""The common schema of all files that a connector writes, and how it grows.

Spark reads the files of a folder together only if a column has one type in all of them: it does not merge INT and
BIGINT of two Parquet files, with ``mergeSchema`` or without. A column that some files lack is null there. So one rule
applies: **a column's type never changes; new columns, and new fields of objects, follow the existing ones.** The
types of data without a schema are chosen so that later records are likely to fit:

=================================== ===================
found in the first batch            column
=================================== ===================
whole numbers                       BIGINT, or DECIMAL(38,0) beyond its range
numbers with a fraction or exponent DOUBLE
truth values                        BOOLEAN
text; values of several types       STRING
objects, lists                      of columns like these
null, {} or [] in all records       none, until a record has more
=================================== ===================

Names that differ only in case can't be two columns, because readers don't distinguish them by default.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, field

from pyspark.sql import types as t

__all__ = ["FileSchema", "Growth", "grown", "settled", "settled_fields"]


@dataclass(frozen=True, slots=True)
class FileSchema:
    """``is_object``: whether fields of the value are columns (otherwise it is the column ``value``). None until a value
    was seen."""

    columns: t.StructType = field(default_factory=t.StructType)
    is_object: bool | None = None

    def to_json(self) -> str:
        return json.dumps({"version": 1, "is_object": self.is_object, "columns": self.columns.jsonValue()})

    @classmethod
    def from_json(cls, text: str) -> FileSchema:
        """Parse the schema. Raise ValueError."""
        try:
            found = json.loads(text)
            if found["version"] != 1:
                raise ValueError(f"version {found['version']} is unknown")
            return cls(t.StructType.fromJson(found["columns"]), found["is_object"])
        except (KeyError, TypeError) as error:
            raise ValueError(f"{type(error).__name__}: {error}") from error


@dataclass(frozen=True, slots=True)
class Growth:
    columns: t.StructType
    added: tuple[str, ...]
    clashing: tuple[str, ...]
    """Fields that can't be columns, because their names differ from those of columns only in case."""


def grown(known: t.StructType, found: t.StructType, *, path: str = "") -> Growth:
    """Return the known columns, followed by the fields of ``found`` that they lack."""
    others = {field.name: field for field in found}
    by_lower = {field.name.lower(): field.name for field in known}
    columns, added, clashing = [], list[str](), list[str]()
    for column in known:
        other = others.pop(column.name, None)
        kind = column.dataType
        if other is not None:
            inner = _grown_inside(kind, other.dataType, f"{path}{column.name}")
            kind = inner[0]
            added += inner[1]
            clashing += inner[2]
        columns.append(t.StructField(column.name, kind))
    for other in others.values():
        if other.name.lower() in by_lower:
            clashing.append(f"{path}{other.name}")
            continue
        by_lower[other.name.lower()] = other.name
        kind, dropped = _without_clashes(other.dataType, f"{path}{other.name}")
        clashing += dropped
        columns.append(t.StructField(other.name, kind))
        added.append(f"{path}{other.name}")
    return Growth(t.StructType(columns), tuple(added), tuple(clashing))


def _grown_inside(
    known: t.DataType, found: t.DataType, path: str
) -> tuple[t.DataType, tuple[str, ...], tuple[str, ...]]:
    if isinstance(known, t.StructType) and isinstance(found, t.StructType):
        growth = grown(known, found, path=f"{path}.")
        return growth.columns, growth.added, growth.clashing
    if isinstance(known, t.ArrayType) and isinstance(found, t.ArrayType):
        element, added, clashing = _grown_inside(known.elementType, found.elementType, path)
        return t.ArrayType(element), added, clashing
    if isinstance(known, t.MapType) and isinstance(found, t.MapType):
        value, added, clashing = _grown_inside(known.valueType, found.valueType, path)
        return t.MapType(known.keyType, value), added, clashing
    return known, (), ()


def _without_clashes(kind: t.DataType, path: str) -> tuple[t.DataType, tuple[str, ...]]:
    """Return a new column. Of fields whose names differ only in case it keeps the first."""
    if isinstance(kind, t.StructType):
        growth = grown(t.StructType(), kind, path=f"{path}.")
        return growth.columns, growth.clashing
    if isinstance(kind, t.ArrayType):
        element, clashing = _without_clashes(kind.elementType, path)
        return t.ArrayType(element), clashing
    if isinstance(kind, t.MapType):
        value, clashing = _without_clashes(kind.valueType, path)
        return t.MapType(kind.keyType, value), clashing
    return kind, ()


def settled(kind: t.DataType, *, is_schemaless: bool) -> t.DataType | None:
    """Return the type of a column for the found type; None if it has no type yet.

    Types from a schema stay, except VARIANT, which not every reader supports.
    """
    if isinstance(kind, t.NullType):
        return None
    if isinstance(kind, t.VariantType):
        return t.StringType()
    if isinstance(kind, t.StructType):
        fields = settled_fields(kind, is_schemaless=is_schemaless)
        return fields if len(fields) else None
    if isinstance(kind, t.ArrayType):
        element = settled(kind.elementType, is_schemaless=is_schemaless)
        return None if element is None else t.ArrayType(element)
    if isinstance(kind, t.MapType):
        value = settled(kind.valueType, is_schemaless=is_schemaless)
        return None if value is None else t.MapType(kind.keyType, value)
    return _wide(kind) if is_schemaless else kind


def settled_fields(kind: Iterable[t.StructField], *, is_schemaless: bool) -> t.StructType:
    found = ((field.name, settled(field.dataType, is_schemaless=is_schemaless)) for field in kind)
    return t.StructType([t.StructField(name, inner) for name, inner in found if inner is not None])


def _wide(kind: t.DataType) -> t.DataType:
    if isinstance(kind, t.ByteType | t.ShortType | t.IntegerType | t.LongType):
        return t.LongType()
    if isinstance(kind, t.DecimalType):
        return t.DoubleType() if kind.scale else t.DecimalType(38, 0)
    return t.DoubleType() if isinstance(kind, t.FloatType) else kind
