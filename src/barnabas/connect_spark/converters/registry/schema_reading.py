"""How data of one registered schema is read, and how data of several is read into one column.

A reader's ``prepare`` runs once for each record, inside a generator; ``value`` and ``error`` use its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from pyspark.sql import types as t

from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException, Field, SchemaType
from barnabas.connect_spark.converters.schema_merging import merged_type
from barnabas.connect_spark.converters.spark_types import connect_schema, spark_type

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["SchemaGroup", "SchemaReader", "grouped", "with_names"]


class SchemaReader(Protocol):
    """Reads data of one schema."""

    @property
    def schema(self) -> ConnectSchema | None:
        """The schema in Connect; None for data without one (VARIANT)."""

    def prepare(self, payload: Column) -> Column:
        """Parse the bytes after the frame."""

    def value(self, payload: Column, prepared: Column) -> Column:
        """Return the value of the type of ``schema``; null for data with an error."""

    def error(self, payload: Column, prepared: Column) -> Column:
        """Return the error; null without one. Both are null for data of another schema."""


@dataclass(frozen=True)
class SchemaGroup:
    """Schemas that are read as one, by the indexes of their readers."""

    indexes: tuple[int, ...]
    type: t.DataType
    schema: ConnectSchema | None


def grouped(schemas: Sequence[ConnectSchema | None]) -> list[SchemaGroup]:
    """Return groups of schemas whose columns fit into one type; the later schemas are the newer ones.

    Fields are joined by name, and numbers widen. Schemas of which a field has types that don't fit together are in
    different groups, and their records in different batches.
    """
    groups: list[SchemaGroup] = []
    for index, schema in enumerate(schemas):
        kind = spark_type(schema)
        for at, group in enumerate(groups):
            merged = merged_type((group.type, kind), promotes=True)
            if _fits(merged, schema is None and group.schema is None):
                joined = None if schema is None else _joined(group.schema, schema, merged)
                groups[at] = SchemaGroup((*group.indexes, index), merged, joined)
                break
        else:
            groups.append(SchemaGroup((index,), kind, schema))
    return groups


def _fits(merged: t.DataType, is_schemaless: bool) -> bool:
    """Return whether no part has become VARIANT."""
    if isinstance(merged, t.VariantType):
        return is_schemaless
    if isinstance(merged, t.StructType):
        return all(_fits(field.dataType, False) for field in merged.fields)
    if isinstance(merged, t.ArrayType):
        return _fits(merged.elementType, False)
    return not isinstance(merged, t.MapType) or _fits(merged.valueType, False)


def _joined(older: ConnectSchema | None, newer: ConnectSchema, merged: t.DataType) -> ConnectSchema:
    if older == newer:
        return newer
    schema = connect_schema(merged)
    if schema is None:
        raise DataException("a schema can't be joined with data that has none")
    return with_names(schema, newer)


def with_names(schema: ConnectSchema, named: ConnectSchema) -> ConnectSchema:
    """Return the schema with the names of another one, where both have the same parts."""
    if schema.type is not named.type:
        return schema
    name = schema.name or (named.name if schema.type is SchemaType.STRUCT else None)
    known = named.field_by_name
    fields = tuple(
        Field(field.name, with_names(field.schema, known[field.name].schema)) if field.name in known else field
        for field in schema.fields
    )
    values = schema.values
    if values is not None and named.values is not None:
        values = with_names(values, named.values)
    return replace(schema, name=name, fields=fields, values=values)
