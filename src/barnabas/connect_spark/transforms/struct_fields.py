"""Copy fields of a struct to another one: their values, with or without defaults, and the new schema."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException, Field
from barnabas.connect_spark.converters.json_decoding import default_literal

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.transforms.transform import Settings

__all__ = ["default_within", "duplicate", "replaces_null", "struct_like", "with_default", "with_defaults"]


def replaces_null(settings: Settings) -> bool:
    """Whether a field that is null is read as its default."""
    return bool(settings["replace.null.with.default"])


def with_default(field: ConnectSchema, column: Column, replaces: bool) -> Column:
    """Return the value of a field: its default where it is null, if the transform is configured that way."""
    return column if field.default is None or not replaces else F.coalesce(column, default_literal(field))


def with_defaults(fields: Iterable[Field], columns: Mapping[str, Column], replaces: bool) -> dict[str, Column]:
    """Return the values of many fields, by name."""
    return {field.name: with_default(field.schema, columns[field.name], replaces) for field in fields}


def default_within(field: ConnectSchema, parent: Column, column: Column, *, replaces: bool) -> Column:
    """Apply ``with_default`` to a field of a nested struct. Where the struct is null, no default is read either."""
    found = with_default(field, column, replaces)
    return found if found is column else F.when(parent.isNotNull(), found)


def struct_like(schema: ConnectSchema, fields: tuple[Field, ...]) -> ConnectSchema:
    """Return a required struct schema without default, with the name, version, doc and parameters of another."""
    return replace(schema, fields=fields, optional=False, default=None)


def duplicate(name: str) -> DataException:
    return DataException(
        f"Cannot create field because of field name duplication {name}",
        "org.apache.kafka.connect.errors.SchemaBuilderException",
    )
