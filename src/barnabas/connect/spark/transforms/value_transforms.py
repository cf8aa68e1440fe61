"""Transforms that change what fields have in them: Cast, Flatten, MaskField."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F
from pyspark.sql.types import DecimalType

from barnabas.common.config_value import ConfigException
from barnabas.connect.spark.converters.connect_schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    DataException,
    Field,
    SchemaType,
)
from barnabas.connect.spark.converters.json_decoding import Read, first_error
from barnabas.connect.spark.converters.spark_types import spark_type
from barnabas.connect.spark.transforms.casts import cast_typed, cast_variant
from barnabas.connect.spark.transforms.record import (
    Operand,
    Outcome,
    Record,
    Side,
    absent_as_null,
    members_of,
    require_struct,
)
from barnabas.connect.spark.transforms.struct_fields import (
    default_within,
    duplicate,
    replaces_null,
    struct_like,
    with_default,
)
from barnabas.connect.spark.transforms.transform import SidedTransform, names

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect.spark.transforms.transform import Settings

__all__ = ["Cast", "Flatten", "MaskField"]

_TYPES = {
    **{str(each): each for each in SchemaType if each.is_primitive and each is not SchemaType.BYTES},
    "float32": SchemaType.FLOAT32,
    "float64": SchemaType.FLOAT64,
}
_DEEPEST = 10
"""How far Flatten goes into schemaless data: an expression of Spark has no recursion."""


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
        for each in names(settings["spec"]):
            field, colon, kind = each.rpartition(":")
            found = _TYPES.get(kind.strip().lower())
            if found is None:
                raise ConfigException("spec", each, f"it has no type to cast to; there are {', '.join(sorted(_TYPES))}")
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

        # A field that isn't there is there afterwards, as null: so does Connect.
        changed = F.map_concat(
            F.transform_values(members, value), absent_as_null(members, [name for name, _ in self.types])
        )
        return Operand.of_members(operand.present, changed), first_error(errors)

    def _fields(self, operand: Operand) -> tuple[Operand, Column]:
        schema, columns, _ = require_struct(operand, "type casting", null_allowed=True)
        types = dict(self.types)
        fields, values, errors = [], {}, []
        for each in schema.fields:
            kind = types.get(each.name)
            column = with_default(each.schema, columns[each.name], self.replaces)
            if kind is None:
                fields.append(each)
                values[each.name] = column
                continue
            read = _cast_or_error(each.schema, column, kind)
            fields.append(Field(each.name, _cast_schema(each.schema, kind, is_field=True)))
            values[each.name] = read.value
            errors.append(read.error)
        changed = replace(schema, fields=tuple(fields))
        return Operand.of_fields(changed, operand.present, values), first_error(errors)


def _cast_or_error(schema: ConnectSchema, column: Column, kind: SchemaType) -> Read:
    """Also of what can't be cast, a null can."""
    try:
        return cast_typed(schema, column, kind)
    except DataException as error:
        nothing = F.lit(None).cast(spark_type(ConnectSchema(kind)))
        return Read(nothing, F.when(column.isNotNull(), F.lit(str(error))))


def _cast_schema(schema: ConnectSchema, kind: SchemaType, *, is_field: bool = False) -> ConnectSchema:
    """The new type keeps whether it is optional, and the default if that can be said in the new type."""
    default = None if schema.default is None else _cast_default(schema, kind)
    if is_field or schema.logical is not None:
        return ConnectSchema(kind, schema.optional, default=default)
    return replace(schema, type=kind, default=default, keys=None, values=None, fields=())


def _cast_default(schema: ConnectSchema, kind: SchemaType) -> str | None:
    """Only for plain JSON numbers, text and truth values."""
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
        for each in schema.fields:
            column = columns[each.name]
            name = f"{prefix}{self.delimiter}{each.name}" if prefix else each.name
            may_lack = optional or each.schema.optional
            if each.schema.type is SchemaType.STRUCT:
                inner = {below.name: column.getField(below.name) for below in each.schema.fields}
                self._collect(each.schema, inner, name, column, optional=may_lack, fields=fields, values=values)
                continue
            if each.schema.type is SchemaType.MAP:
                told = "Flatten transformation does not support MAP for record with schemas"
                raise DataException(f"{told} (for field {each.name}).")
            if name in values:
                raise duplicate(name)
            fields.append(Field(name, replace(each.schema, optional=may_lack)))
            if parent is None:
                values[name] = with_default(each.schema, column, replaces=True)
            else:
                values[name] = default_within(each.schema, parent, column, replaces=True)

    def _members(self, members: Column) -> tuple[Column, Column]:
        entries = F.map_entries(members)
        for _ in range(_DEEPEST):
            entries = F.flatten(F.transform(entries, self._opened))
        too_deep = F.exists(entries, lambda entry: _is_object(entry["value"]))
        told = F.lit(f"objects are nested more than {_DEEPEST} deep, and schemaless ones can't be flattened further")
        names_of = F.transform(entries, lambda entry: entry["key"])
        # Of equal names the last one stays.
        unique = F.filter(
            entries,
            lambda entry, index: index == F.size(names_of) - F.array_position(F.reverse(names_of), entry["key"]),
        )
        return F.map_from_entries(unique), F.when(too_deep, told)

    def _opened(self, entry: Column) -> Column:
        inner = F.map_entries(entry["value"].try_cast("map<string,variant>"))
        below = F.transform(
            inner,
            lambda each: F.struct(
                F.concat(entry["key"], F.lit(self.delimiter), each["key"]).alias("key"), each["value"].alias("value")
            ),
        )
        return F.coalesce(below, F.array(F.struct(entry["key"].alias("key"), entry["value"].alias("value"))))


def _is_object(value: Column) -> Column:
    return F.schema_of_variant(value).startswith("OBJECT")


@dataclass(frozen=True)
class MaskField(SidedTransform):
    fields: frozenset[str]
    replacement: str | None
    replaces: bool
    side: Side = Side.VALUE

    name: ClassVar[str] = "MaskField"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        told = settings["replacement"]
        return cls(frozenset(names(settings["fields"])), None if told is None else str(told), replaces_null(settings))

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        if operand.schema is None:
            return self._schemaless(record, operand)
        schema, columns, wrong = require_struct(operand, "field replacement")
        values, errors = {}, [wrong]
        for each in schema.fields:
            column = with_default(each.schema, columns[each.name], self.replaces)
            values[each.name] = column
            if each.name in self.fields:
                try:
                    masked = self._masked(each.schema)
                except DataException as error:
                    # A null is masked by null, whatever its type.
                    errors.append(F.when(column.isNotNull(), F.lit(str(error))))
                else:
                    values[each.name] = F.when(column.isNotNull(), masked)
        changed = Operand.of_fields(schema, operand.present, values)
        return Outcome(record.with_operand(self.side, changed), first_error(errors))

    def _masked(self, schema: ConnectSchema) -> Column:
        """The same for all rows. Raises DataException."""
        kind = spark_type(schema)
        if self.replacement is None:
            return _zero(schema).cast(kind)
        if schema.logical != DECIMAL and (schema.logical or schema.type not in _REPLACEABLE):
            told = _JAVA_NAMES.get(
                str(schema.logical), _REFUSED.get(schema.type, "org.apache.kafka.connect.data.Struct")
            )
            raise DataException(f"Cannot mask value of type class {told} with custom replacement.")
        if schema.type is SchemaType.STRING:
            return F.lit(self.replacement)
        if not _fits(self.replacement, schema):
            raise DataException(f"Unable to convert {self.replacement} to a number of type {schema.type}")
        return F.lit(self.replacement).try_cast(kind)

    def _schemaless(self, record: Record, operand: Operand) -> Outcome:
        members, wrong = members_of(operand, "field replacement")
        chosen = F.map_filter(members, lambda name, _: name.isin(*sorted(self.fields)))
        refused = F.filter(F.map_values(chosen), lambda value: self._variant(value).isNull())
        told = F.concat(
            F.lit("Cannot mask value of type "),
            F.schema_of_variant(F.get(refused, F.lit(0))),
            F.lit("" if self.replacement is None else f" with custom replacement {self.replacement}"),
        )
        masked = F.transform_values(
            members,
            lambda name, value: F.when(name.isin(*sorted(self.fields)), self._variant(value)).otherwise(value),
        )
        # A field that isn't there is there afterwards, as null: so does Connect.
        changed = Operand.of_members(
            operand.present, F.map_concat(masked, absent_as_null(members, sorted(self.fields)))
        )
        error = F.coalesce(wrong, F.when(F.size(refused) > 0, told))
        return Outcome(record.with_operand(self.side, changed), error)

    def _variant(self, value: Column) -> Column:
        """Null for what can't be masked."""
        kind = F.schema_of_variant(value)
        floating = kind.isin("FLOAT", "DOUBLE") | kind.startswith("DECIMAL")
        absent = F.when(F.is_variant_null(value), value)
        if self.replacement is None:
            return (
                absent.when(kind == "STRING", F.lit("").cast("variant"))
                .when(kind == "BOOLEAN", F.lit(False).cast("variant"))
                .when(kind == "BIGINT", F.lit(0).cast("bigint").cast("variant"))
                .when(floating, F.lit(0.0).cast("variant"))
                .when(kind.startswith("ARRAY"), F.parse_json(F.lit("[]")))
                .when(kind.startswith("OBJECT"), F.parse_json(F.lit("{}")))
            )
        text = F.lit(self.replacement)
        return (
            absent.when(kind == "STRING", text.cast("variant"))
            .when(kind == "BIGINT", text.try_cast("bigint").cast("variant"))
            .when(floating, text.try_cast("double").cast("variant"))
        )


_FLOATING = (SchemaType.FLOAT32, SchemaType.FLOAT64)
_REPLACEABLE = {
    SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64, *_FLOATING, SchemaType.STRING,
}  # fmt: skip
_BOUNDS = {SchemaType.INT8: 2**7, SchemaType.INT16: 2**15, SchemaType.INT32: 2**31, SchemaType.INT64: 2**63}
_WHOLE = re.compile(r"[+-]?[0-9]+")
_NUMBER = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?")
_JAVA_NAMES = {DATE: "java.util.Date", TIME: "java.util.Date", TIMESTAMP: "java.util.Date"}
_REFUSED = {
    SchemaType.BOOLEAN: "java.lang.Boolean",
    SchemaType.BYTES: "[B",
    SchemaType.ARRAY: "java.util.ArrayList",
    SchemaType.MAP: "java.util.HashMap",
}


def _fits(replacement: str, schema: ConnectSchema) -> bool:
    if schema.type in _FLOATING or schema.logical == DECIMAL:
        return _NUMBER.fullmatch(replacement) is not None and (schema.logical is None or _is_exact(replacement, schema))
    bound = _BOUNDS[schema.type]
    return _WHOLE.fullmatch(replacement) is not None and -bound <= int(replacement) < bound


def _is_exact(number: str, schema: ConnectSchema) -> bool:
    """Whether a Decimal has all of its digits."""
    kind = spark_type(schema)
    assert isinstance(kind, DecimalType)
    exact = Decimal(number).normalize()
    places = -int(exact.as_tuple().exponent)
    return places <= kind.scale and exact.adjusted() < kind.precision - kind.scale


def _zero(schema: ConnectSchema) -> Column:
    """Connect's idea of nothing, for each type that has one."""
    if schema.logical == TIMESTAMP:
        return F.timestamp_millis(F.lit(0).cast("bigint"))
    if schema.logical == DATE:
        return F.date_from_unix_date(F.lit(0))
    if schema.type is SchemaType.STRING:
        return F.lit("")
    if schema.type is SchemaType.BOOLEAN:
        return F.lit(False)
    if schema.type is SchemaType.ARRAY:
        return F.array()
    if schema.type is SchemaType.MAP:
        return F.create_map()
    if schema.logical == DECIMAL or schema.type in _REPLACEABLE:
        return F.lit(0)
    told = _REFUSED.get(schema.type, "org.apache.kafka.connect.data.Struct")
    raise DataException(f"Cannot mask value of type: class {told}")
