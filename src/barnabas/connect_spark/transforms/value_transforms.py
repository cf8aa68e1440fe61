"""Transforms that change the contents of fields: Cast, Flatten."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.common.config_value import ConfigException
from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException, Field, SchemaType
from barnabas.connect_spark.converters.json_decoding import Read, first_error
from barnabas.connect_spark.converters.spark_types import spark_type
from barnabas.connect_spark.transforms.casts import cast_typed, cast_variant
from barnabas.connect_spark.transforms.record_expressions import (
    Operand,
    Outcome,
    Record,
    Side,
    absent_as_null,
    members_of,
    require_struct,
)
from barnabas.connect_spark.transforms.struct_fields import (
    default_within,
    duplicate,
    replaces_null,
    struct_like,
    with_default,
)
from barnabas.connect_spark.transforms.transform import SidedTransform, names

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.transforms.transform import Settings

__all__ = ["Cast", "Flatten"]

_TYPES = {
    **{str(kind): kind for kind in SchemaType if kind.is_primitive and kind is not SchemaType.BYTES},
    "float32": SchemaType.FLOAT32,
    "float64": SchemaType.FLOAT64,
}
_DEEPEST = 10
"""How deep Flatten descends into schemaless data: an expression of Spark has no recursion."""


@dataclass(frozen=True)
class Cast(SidedTransform):
    whole: SchemaType | None
    types: tuple[tuple[str, SchemaType], ...]
    replaces: bool
    side: Side = Side.VALUE

    name: ClassVar[str] = "Cast"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        whole, types = None, []
        for name in names(settings["spec"]):
            field, colon, kind = name.rpartition(":")
            found = _TYPES.get(kind.strip().lower())
            if found is None:
                raise ConfigException("spec", name, f"it has no type to cast to; allowed: {', '.join(sorted(_TYPES))}")
            if colon:
                types.append((field.strip(), found))
            else:
                whole = found
        if whole is not None and types:
            raise ConfigException(
                "spec",
                settings["spec"],
                "Cast transformations that specify a type to cast the entire value to may only specify a single cast",
            )
        return cls(whole, tuple(types), replaces_null(settings))

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        if operand.schema is None:
            changed, error = self._schemaless(operand)
        elif self.whole is not None:
            read = _cast_or_error(operand.schema, operand.whole, self.whole)
            changed, error = Operand.of(_cast_schema(operand.schema, self.whole), read.value), read.error
        else:
            changed, error = self._fields(operand)
        return Outcome(record.with_operand(self.side, changed), F.when(operand.present, error))

    def _schemaless(self, operand: Operand) -> tuple[Operand, Column]:
        if self.whole is not None:
            read = cast_variant(operand.whole, self.whole)
            return Operand.of(None, F.when(operand.present, read.value)), read.error
        members, wrong = members_of(operand, "type casting", null_allowed=True)
        errors = [wrong]
        changed = members
        for name, kind in self.types:
            errors.append(cast_variant(F.try_element_at(members, F.lit(name)), kind).error)

        def value(name: Column, found: Column) -> Column:
            result = F.when(F.lit(False), found)
            for field, kind in self.types:
                result = result.when(name == field, cast_variant(found, kind).value)
            return result.otherwise(found)

        # A missing field is null afterwards, as in Connect.
        changed = F.map_concat(
            F.transform_values(members, value), absent_as_null(members, [name for name, _ in self.types])
        )
        return Operand.of_members(operand.present, changed), first_error(errors)

    def _fields(self, operand: Operand) -> tuple[Operand, Column]:
        schema, columns, _ = require_struct(operand, "type casting", null_allowed=True)
        types = dict(self.types)
        fields, values, errors = [], {}, []
        for field in schema.fields:
            kind = types.get(field.name)
            column = with_default(field.schema, columns[field.name], self.replaces)
            if kind is None:
                fields.append(field)
                values[field.name] = column
                continue
            read = _cast_or_error(field.schema, column, kind)
            fields.append(Field(field.name, _cast_schema(field.schema, kind, is_field=True)))
            values[field.name] = read.value
            errors.append(read.error)
        changed = replace(schema, fields=tuple(fields))
        return Operand.of_fields(changed, operand.present, values), first_error(errors)


def _cast_or_error(schema: ConnectSchema, column: Column, kind: SchemaType) -> Read:
    """Cast the value, or return its error. A null is cast even where other values can't be."""
    try:
        return cast_typed(schema, column, kind)
    except DataException as error:
        nothing = F.lit(None).cast(spark_type(ConnectSchema(kind)))
        return Read(nothing, F.when(column.isNotNull(), F.lit(str(error))))


def _cast_schema(schema: ConnectSchema, kind: SchemaType, *, is_field: bool = False) -> ConnectSchema:
    """Return the new type. It stays optional, and keeps the default if the new type can represent it."""
    default = None if schema.default is None else _cast_default(schema, kind)
    if is_field or schema.logical is not None:
        return ConnectSchema(kind, schema.optional, default=default)
    return replace(schema, type=kind, default=default, keys=None, values=None, fields=())


def _cast_default(schema: ConnectSchema, kind: SchemaType) -> str | None:
    """Cast a default: only plain JSON numbers, text and booleans."""
    found = json.loads(str(schema.default))
    if schema.logical is not None or isinstance(found, dict | list):
        return None
    if kind is SchemaType.STRING:
        return json.dumps(found if isinstance(found, str) else json.dumps(found))
    if kind is SchemaType.BOOLEAN:
        return json.dumps(found.lower() == "true" if isinstance(found, str) else bool(found))
    try:
        number = float(found)
    except ValueError:
        raise DataException(f"Value ({found}) was out of range for requested data type") from None
    return json.dumps(number if kind in (SchemaType.FLOAT32, SchemaType.FLOAT64) else int(number))


@dataclass(frozen=True)
class Flatten(SidedTransform):
    delimiter: str
    side: Side = Side.VALUE

    name: ClassVar[str] = "Flatten"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(str(settings["delimiter"]))

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        if operand.schema is None:
            members, wrong = members_of(operand, "flattening", null_allowed=True)
            flat, too_deep = self._members(members)
            error = F.coalesce(wrong, F.when(operand.present, too_deep))
            return Outcome(record.with_operand(self.side, Operand.of_members(operand.present, flat)), error)
        schema, columns, _ = require_struct(operand, "flattening", null_allowed=True)
        fields: list[Field] = []
        values: dict[str, Column] = {}
        try:
            self._collect(schema, columns, optional=schema.optional, fields=fields, values=values)
        except DataException as error:
            return Outcome(record, F.when(operand.present, F.lit(str(error))), exception_class=error.exception_class)
        flattened = Operand.of_fields(struct_like(schema, tuple(fields)), operand.present, values)
        return Outcome(record.with_operand(self.side, flattened))

    def _collect(
        self,
        schema: ConnectSchema,
        columns: Mapping[str, Column],
        prefix: str = "",
        parent: Column | None = None,
        *,
        optional: bool,
        fields: list[Field],
        values: dict[str, Column],
    ) -> None:
        for field in schema.fields:
            column = columns[field.name]
            name = f"{prefix}{self.delimiter}{field.name}" if prefix else field.name
            may_lack = optional or field.schema.optional
            if field.schema.type is SchemaType.STRUCT:
                inner = {below.name: column.getField(below.name) for below in field.schema.fields}
                self._collect(field.schema, inner, name, column, optional=may_lack, fields=fields, values=values)
                continue
            if field.schema.type is SchemaType.MAP:
                message = "Flatten transformation does not support MAP for record with schemas"
                raise DataException(f"{message} (for field {field.name}).")
            if name in values:
                raise duplicate(name)
            fields.append(Field(name, replace(field.schema, optional=may_lack)))
            if parent is None:
                values[name] = with_default(field.schema, column, replaces=True)
            else:
                values[name] = default_within(field.schema, parent, column, replaces=True)

    def _members(self, members: Column) -> tuple[Column, Column]:
        entries = F.map_entries(members)
        for _ in range(_DEEPEST):
            entries = F.flatten(F.transform(entries, self._opened))
        too_deep = F.exists(entries, lambda entry: _is_object(entry["value"]))
        message = F.lit(f"objects are nested more than {_DEEPEST} deep, and schemaless ones can't be flattened further")
        names_of = F.transform(entries, lambda entry: entry["key"])
        # Of equal names the last one stays.
        unique = F.filter(
            entries,
            lambda entry, index: index == F.size(names_of) - F.array_position(F.reverse(names_of), entry["key"]),
        )
        return F.map_from_entries(unique), F.when(too_deep, message)

    def _opened(self, entry: Column) -> Column:
        inner = F.map_entries(entry["value"].try_cast("map<string,variant>"))
        below = F.transform(
            inner,
            lambda item: F.struct(
                F.concat(entry["key"], F.lit(self.delimiter), item["key"]).alias("key"), item["value"].alias("value")
            ),
        )
        return F.coalesce(below, F.array(F.struct(entry["key"].alias("key"), entry["value"].alias("value"))))


def _is_object(value: Column) -> Column:
    return F.schema_of_variant(value).startswith("OBJECT")
