"""Transforms of structs whose fields stay as they are: ExtractField, HoistField, SetSchemaMetadata, ValueToKey."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.common.config_value import ConfigException
from barnabas.connect_spark.converters.connect_schema import ConnectSchema, DataException, Field, SchemaType
from barnabas.connect_spark.converters.variants import null_variant
from barnabas.connect_spark.transforms.field_path import path_of
from barnabas.connect_spark.transforms.record_expressions import (
    Operand,
    Outcome,
    Record,
    Side,
    members_of,
    require_struct,
)
from barnabas.connect_spark.transforms.struct_fields import (
    default_within,
    duplicate,
    replaces_null,
    with_default,
    with_defaults,
)
from barnabas.connect_spark.transforms.transform import SidedTransform, Transform, names

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.transforms.transform import Settings

__all__ = ["ExtractField", "HoistField", "SetSchemaMetadata", "ValueToKey"]

_ILLEGAL = "java.lang.IllegalArgumentException"


@dataclass(frozen=True)
class ExtractField(SidedTransform):
    """Replaces the whole by one of its fields. With V2 a path with dots reaches into nested structs (KIP-821)."""

    field: str
    path: tuple[str, ...]
    replaces: bool
    side: Side = Side.VALUE

    name: ClassVar[str] = "ExtractField"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        field = str(settings["field"])
        nested = str(settings["field.syntax.version"]).upper() == "V2"
        return cls(field, path_of("field", field) if nested else (field,), replaces_null(settings))

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        if operand.schema is None:
            members, wrong = members_of(operand, "field extraction", null_allowed=True)
            found = F.try_element_at(members, F.lit(self.path[0]))
            for name in self.path[1:]:
                found = F.try_element_at(found.try_cast("map<string,variant>"), F.lit(name))
            found = F.when(~F.is_variant_null(found), found)
            return Outcome(record.with_operand(self.side, Operand.of(None, found)), wrong)
        schema, fields, _ = require_struct(operand, "field extraction", null_allowed=True)
        first = schema.field_by_name.get(self.path[0])
        if first is None:
            raise DataException(f"Unknown field: {self.field}", _ILLEGAL)
        inner = first.schema
        column = with_default(inner, fields[self.path[0]], self.replaces)
        for name in self.path[1:]:
            below = inner.field_by_name.get(name)
            if below is None:
                raise DataException(f"Unknown field: {self.field}", _ILLEGAL)
            inner = below.schema
            column = default_within(inner, column, column.getField(name), replaces=self.replaces)
        return Outcome(record.with_operand(self.side, Operand.of(inner, F.when(operand.present, column))))


@dataclass(frozen=True)
class HoistField(SidedTransform):
    field: str
    side: Side = Side.VALUE

    name: ClassVar[str] = "HoistField"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(str(settings["field"]))

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        always = F.lit(True)
        if operand.schema is None:
            inner = F.coalesce(operand.whole, null_variant())
            hoisted = Operand.of_members(always, F.create_map(F.lit(self.field), inner))
        else:
            schema = ConnectSchema(SchemaType.STRUCT, fields=(Field(self.field, operand.schema),))
            hoisted = Operand.of_fields(schema, always, {self.field: operand.whole})
        return Outcome(record.with_operand(self.side, hoisted))


@dataclass(frozen=True)
class ValueToKey(Transform):
    fields: tuple[str, ...]
    replaces: bool

    name: ClassVar[str] = "ValueToKey"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(names(settings["fields"]), replaces_null(settings))

    def apply(self, record: Record) -> Outcome:
        purpose = "copying fields from value to key"
        if record.value.schema is None:
            members, wrong = members_of(record.value, purpose)
            pairs: list[Column] = []
            for field in dict.fromkeys(self.fields):
                pairs += [F.lit(field), F.coalesce(F.try_element_at(members, F.lit(field)), null_variant())]
            key = Operand.of_members(F.lit(True), F.create_map(*pairs))
            return Outcome(replace(record, key=key), wrong)
        schema, columns, wrong = require_struct(record.value, purpose)
        fields, values = [], {}
        for field in self.fields:
            found = schema.field_by_name.get(field)
            if found is None:
                raise DataException(f"Field does not exist: {field}")
            if field in values:
                raise duplicate(field)
            fields.append(found)
            values[field] = with_default(found.schema, columns[field], self.replaces)
        key = Operand.of_fields(ConnectSchema(SchemaType.STRUCT, fields=tuple(fields)), F.lit(True), values)
        return Outcome(replace(record, key=key), wrong)


@dataclass(frozen=True)
class SetSchemaMetadata(SidedTransform):
    schema_name: str | None
    version: int | None
    replaces: bool
    side: Side = Side.VALUE

    name: ClassVar[str] = "SetSchemaMetadata"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        name, version = settings["schema.name"], settings["schema.version"]
        if name is None and version is None:
            raise ConfigException("schema.name", None, "Neither schema name nor version configured: set one of them")
        return cls(
            None if name is None else str(name),
            None if version is None else int(str(version)),
            replaces_null(settings),
        )

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        if operand.schema is None:
            message = "Schema required for [updating schema metadata]"
            return Outcome(record, F.when(operand.present, F.lit(message)))
        schema = replace(
            operand.schema,
            name=operand.schema.name if self.schema_name is None else self.schema_name,
            version=operand.schema.version if self.version is None else self.version,
        )
        if schema.logical != operand.schema.logical:
            raise DataException(
                f"the name {schema.name} would turn it into another logical type: use Cast or TimestampConverter"
            )
        if operand.fields is None:
            return Outcome(record.with_operand(self.side, replace(operand, schema=schema)))
        values = with_defaults(schema.fields, operand.fields, self.replaces)
        return Outcome(record.with_operand(self.side, Operand.of_fields(schema, operand.present, values)))
