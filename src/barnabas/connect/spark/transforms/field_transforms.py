"""Transforms that move fields as they are: ExtractField, HeaderFrom, HoistField, InsertField, ReplaceField, ValueToKey,
SetSchemaMetadata."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.common.config_value import ConfigException
from barnabas.connect.spark.converters.connect_schema import TIMESTAMP, ConnectSchema, DataException, Field, SchemaType
from barnabas.connect.spark.converters.json_decoding import default_literal, first_error
from barnabas.connect.spark.converters.simple_header_converter import schema_text
from barnabas.connect.spark.converters.variants import null_variant, variant_of
from barnabas.connect.spark.transforms.record import Operand, Outcome, Record, Side, members_of, require_struct
from barnabas.connect.spark.transforms.record_transforms import names, with_headers
from barnabas.connect.spark.transforms.transform import SidedTransform, Transform

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect.spark.transforms.transform import Settings

__all__ = [
    "ExtractField",
    "HeaderFrom",
    "HoistField",
    "InsertField",
    "ReplaceField",
    "SetSchemaMetadata",
    "ValueToKey",
    "default_within",
    "with_default",
]

_ILLEGAL = "java.lang.IllegalArgumentException"
_REPLACE = "replace.null.with.default"


def with_default(field: ConnectSchema, column: Column, replaces: bool) -> Column:
    """What reading a field gives: its default where it is null, if the transform is set to take that."""
    return column if field.default is None or not replaces else F.coalesce(column, default_literal(field))


def default_within(field: ConnectSchema, parent: Column, column: Column, *, replaces: bool) -> Column:
    """The same for a field of a nested struct. Where there is no struct, no default is read either."""
    found = with_default(field, column, replaces)
    return found if found is column else F.when(parent.isNotNull(), found)


def struct_like(schema: ConnectSchema, fields: tuple[Field, ...]) -> ConnectSchema:
    """A new struct with the name, version, documentation and parameters of another one: required, without default."""
    return replace(schema, fields=fields, optional=False, default=None)


def duplicate(name: str) -> DataException:
    return DataException(
        f"Cannot create field because of field name duplication {name}",
        "org.apache.kafka.connect.errors.SchemaBuilderException",
    )


@dataclass(frozen=True)
class ExtractField(SidedTransform):
    """One field becomes the whole. With V2 a path with dots reaches into nested structs (KIP-821)."""

    field: str
    path: tuple[str, ...]
    replaces: bool
    side: Side = Side.VALUE

    name: ClassVar[str] = "ExtractField"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        field = str(settings["field"])
        nested = str(settings["field.syntax.version"]).upper() == "V2"
        return cls(field, path_of("field", field) if nested else (field,), bool(settings[_REPLACE]))

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


def path_of(setting: str, text: str) -> tuple[str, ...]:
    """The steps of a path: dots between them, backticks around a name that has dots (KIP-821)."""
    steps: list[str] = []
    rest = text
    while True:
        if rest.startswith("`"):
            end = _closing(rest)
            if end < 0:
                raise ConfigException(
                    setting, text, "a ` is not closed: write a dot or the end of the path behind the next one"
                )
            steps.append(rest[1:end].replace("\\`", "`"))
            rest = rest[end + 1 :]
            if not rest:
                return tuple(steps)
            rest = rest[1:]
        else:
            step, dot, rest = rest.partition(".")
            steps.append(step)
            if not dot:
                return tuple(steps)


def _closing(text: str) -> int:
    at = 1
    while (at := text.find("`", at)) >= 0:
        if text[at - 1] != "\\" and text[at + 1 : at + 2] in ("", "."):
            return at
        at += 1
    return -1


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
class ReplaceField(SidedTransform):
    exclude: frozenset[str]
    include: frozenset[str]
    renames: tuple[tuple[str, str], ...]
    replaces: bool
    side: Side = Side.VALUE

    name: ClassVar[str] = "ReplaceField"
    passes_null: ClassVar[bool] = True

    @classmethod
    def of(cls, settings: Settings) -> Self:
        renames = []
        for each in names(settings["renames"]):
            old, _, new = each.partition(":")
            renames.append((old.strip(), new.strip()))
        return cls(
            frozenset(names(settings["exclude"])),
            frozenset(names(settings["include"])),
            tuple(renames),
            bool(settings[_REPLACE]),
        )

    def _keeps(self, name: str) -> bool:
        return name not in self.exclude and (not self.include or name in self.include)

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        if operand.schema is None:
            members, wrong = members_of(operand, "field replacement", null_allowed=True)
            return Outcome(
                record.with_operand(self.side, Operand.of_members(operand.present, self._members(members))), wrong
            )
        schema, columns, _ = require_struct(operand, "field replacement", null_allowed=True)
        renames = dict(self.renames)
        fields: list[Field] = []
        values: dict[str, Column] = {}
        for each in schema.fields:
            if self._keeps(each.name):
                name = renames.get(each.name, each.name)
                if name in values:
                    raise duplicate(name)
                fields.append(Field(name, each.schema))
                values[name] = with_default(each.schema, columns[each.name], self.replaces)
        replaced = struct_like(schema, tuple(fields))
        return Outcome(record.with_operand(self.side, Operand.of_fields(replaced, operand.present, values)))

    def _members(self, members: Column) -> Column:
        if self.exclude or self.include:
            members = F.map_filter(members, lambda name, _: self._condition(name))
        if not self.renames:
            return members
        # Who takes the new name replaces whoever had it: a map can't have it twice.
        taken = [new for _, new in self.renames]
        old_names = [old for old, _ in self.renames]
        renamed = F.map_filter(members, lambda name, _: name.isin(*old_names))
        moved = F.transform_keys(_last_of_each(renamed, dict(self.renames)), lambda name, _: self._renamed(name))
        stay = F.map_filter(
            members,
            lambda name, _: ~name.isin(*old_names) & ~(name.isin(*taken) & F.array_contains(F.map_keys(moved), name)),
        )
        return F.map_concat(stay, moved)

    def _condition(self, name: Column) -> Column:
        condition = F.lit(True)
        if self.exclude:
            condition = condition & ~name.isin(*sorted(self.exclude))
        if self.include:
            condition = condition & name.isin(*sorted(self.include))
        return condition

    def _renamed(self, name: Column) -> Column:
        renamed = F.when(F.lit(False), name)
        for old, new in self.renames:
            renamed = renamed.when(name == old, F.lit(new))
        return renamed.otherwise(name)


def _last_of_each(members: Column, renames: Mapping[str, str]) -> Column:
    """Of old names that get the same new one, only the last that is there."""
    by_new: dict[str, list[str]] = {}
    for old, new in renames.items():
        by_new.setdefault(new, []).append(old)
    for olds in by_new.values():
        for at, old in enumerate(olds[:-1]):
            members = _unless(members, old, olds[at + 1 :])
    return members


def _unless(members: Column, name: str, others: list[str]) -> Column:
    """Without the name where one of the others is there."""
    is_there = F.arrays_overlap(F.map_keys(members), F.array(*(F.lit(each) for each in others)))
    return F.map_filter(members, lambda each, _: ~((each == name) & is_there))


@dataclass(frozen=True)
class InsertField(SidedTransform):
    """``!`` behind a name makes the field required, ``?`` or nothing optional."""

    topic: str | None
    partition: str | None
    offset: str | None
    timestamp: str | None
    static: str | None
    static_value: str | None
    replaces: bool
    side: Side = Side.VALUE

    name: ClassVar[str] = "InsertField"
    passes_null: ClassVar[bool] = True

    @classmethod
    def of(cls, settings: Settings) -> Self:
        def text(name: str) -> str | None:
            return None if settings[name] is None else str(settings[name])

        inserted = cls(
            text("topic.field"),
            text("partition.field"),
            text("offset.field"),
            text("timestamp.field"),
            text("static.field"),
            text("static.value"),
            bool(settings[_REPLACE]),
        )
        if all(each is None for each, _, _ in inserted._insertions()) and inserted.static is None:
            raise ConfigException("topic.field", None, "No field insertion configured: set one of the names of fields")
        if inserted.static is not None and inserted.static_value is None:
            raise ConfigException(
                "static.value", None, "No value specified for static field: it is needed with static.field"
            )
        return inserted

    @staticmethod
    def _insertions_of() -> tuple[ConnectSchema, ConnectSchema, ConnectSchema, ConnectSchema]:
        return (
            ConnectSchema(SchemaType.STRING),
            ConnectSchema(SchemaType.INT32),
            ConnectSchema(SchemaType.INT64),
            ConnectSchema(SchemaType.INT64, name=TIMESTAMP, version=1),
        )

    def _insertions(self) -> list[tuple[str | None, ConnectSchema, str]]:
        told = (self.topic, self.partition, self.offset, self.timestamp)
        places = ("topic", "partition", "offset", "timestamp")
        return list(zip(told, self._insertions_of(), places, strict=True))

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        added: list[tuple[str, ConnectSchema, Column]] = []
        for told, schema, place in self._insertions():
            if told is not None:
                name, required = _suffixed(told)
                added.append((name, replace(schema, optional=not required), getattr(record, place)))
        if self.static is not None:
            name, required = _suffixed(self.static)
            schema = ConnectSchema(SchemaType.STRING, optional=not required)
            added.append((name, schema, F.lit(self.static_value)))
        if operand.schema is None:
            return self._schemaless(record, operand, added)
        return self._typed(record, operand, added)

    def _schemaless(self, record: Record, operand: Operand, added: list[tuple[str, ConnectSchema, Column]]) -> Outcome:
        # A tombstone stays one.
        members, wrong = members_of(operand, "field insertion", null_allowed=True)
        names = [name for name, _, _ in added]
        kept = F.map_filter(members, lambda name, _: ~name.isin(*names))
        unique = {name: (schema, column) for name, schema, column in added}
        pairs: list[Column] = []
        for name, (schema, column) in unique.items():
            # Without a schema a timestamp is its number.
            plain = F.unix_millis(column) if schema.logical == TIMESTAMP else column
            pairs += [F.lit(name), F.coalesce(plain.cast("variant"), null_variant())]
        created = F.create_map(*pairs)
        if self.timestamp is not None:
            # A record without a time gets no field for it.
            place = F.lit(_suffixed(self.timestamp)[0])
            created = F.map_filter(created, lambda name, _: (name != place) | record.timestamp.isNotNull())
        inserted = Operand.of_members(operand.present, F.map_concat(kept, created))
        return Outcome(record.with_operand(self.side, inserted), wrong)

    def _typed(self, record: Record, operand: Operand, added: list[tuple[str, ConnectSchema, Column]]) -> Outcome:
        schema, columns, _ = require_struct(operand, "field insertion", null_allowed=True)
        fields = list(schema.fields)
        values = {each.name: with_default(each.schema, columns[each.name], self.replaces) for each in schema.fields}
        errors = []
        for name, kind, column in added:
            if name in values:
                raise duplicate(name)
            fields.append(Field(name, kind))
            values[name] = column
            if not kind.optional:
                told = f'Invalid value: null used for required field: "{name}", schema type: {kind.type.name}'
                errors.append(F.when(operand.present & column.isNull(), F.lit(told)))
        inserted = struct_like(schema, tuple(fields))
        return Outcome(
            record.with_operand(self.side, Operand.of_fields(inserted, operand.present, values)), first_error(errors)
        )


def _suffixed(told: str) -> tuple[str, bool]:
    if told.endswith("!"):
        return told[:-1], True
    return told.removesuffix("?"), False


@dataclass(frozen=True)
class HeaderFrom(SidedTransform):
    fields: tuple[str, ...]
    headers: tuple[str, ...]
    moves: bool
    replaces: bool
    side: Side = Side.VALUE

    name: ClassVar[str] = "HeaderFrom"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        fields, headers = names(settings["fields"]), names(settings["headers"])
        if len(fields) != len(headers):
            raise ConfigException(
                "fields", list(fields), "'fields' config must have the same number of elements as 'headers' config."
            )
        return cls(fields, headers, settings["operation"] == "move", bool(settings[_REPLACE]))

    @property
    def _purpose(self) -> str:
        return "header move" if self.moves else "header copy"

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        if operand.schema is None:
            members, wrong = members_of(operand, self._purpose)
            values = [F.try_element_at(members, F.lit(each)) for each in self.fields]
            added = [
                _header(name, F.when(~F.is_variant_null(value), value), None)
                for name, value in zip(self.headers, values, strict=True)
            ]
            if self.moves:
                members = F.map_filter(members, lambda name, _: ~name.isin(*self.fields))
            changed = Operand.of_members(operand.present, members)
        else:
            schema, columns, wrong = require_struct(operand, self._purpose)
            added, changed = self._typed(schema, columns, operand)
        headers = with_headers(record.headers, *added)
        return Outcome(replace(record.with_operand(self.side, changed), headers=headers), wrong)

    def _typed(
        self, schema: ConnectSchema, columns: Mapping[str, Column], operand: Operand
    ) -> tuple[list[Column], Operand]:
        added = []
        for field, name in zip(self.fields, self.headers, strict=True):
            found = schema.field_by_name.get(field)
            if found is None:
                raise DataException(f"{field} is not a valid field name")
            column = with_default(found.schema, columns[field], self.replaces)
            added.append(_header(name, variant_of(found.schema, column), found.schema))
        if not self.moves:
            return added, operand
        kept = tuple(each for each in schema.fields if each.name not in self.fields)
        values = {each.name: with_default(each.schema, columns[each.name], self.replaces) for each in kept}
        return added, Operand.of_fields(struct_like(schema, kept), operand.present, values)


def _header(name: str, value: Column, schema: ConnectSchema | None) -> Column:
    told = F.lit(None if schema is None else schema_text(schema)).cast("string")
    return F.struct(F.lit(name).alias("key"), value.alias("value"), told.alias("schema"))


@dataclass(frozen=True)
class ValueToKey(Transform):
    fields: tuple[str, ...]
    replaces: bool

    name: ClassVar[str] = "ValueToKey"

    @classmethod
    def of(cls, settings: Settings) -> Self:
        return cls(names(settings["fields"]), bool(settings[_REPLACE]))

    def apply(self, record: Record) -> Outcome:
        purpose = "copying fields from value to key"
        if record.value.schema is None:
            members, wrong = members_of(record.value, purpose)
            pairs: list[Column] = []
            for each in dict.fromkeys(self.fields):
                pairs += [F.lit(each), F.coalesce(F.try_element_at(members, F.lit(each)), null_variant())]
            key = Operand.of_members(F.lit(True), F.create_map(*pairs))
            return Outcome(replace(record, key=key), wrong)
        schema, columns, wrong = require_struct(record.value, purpose)
        fields, values = [], {}
        for each in self.fields:
            found = schema.field_by_name.get(each)
            if found is None:
                raise DataException(f"Field does not exist: {each}")
            if each in values:
                raise duplicate(each)
            fields.append(found)
            values[each] = with_default(found.schema, columns[each], self.replaces)
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
            bool(settings[_REPLACE]),
        )

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        if operand.schema is None:
            told = "Schema required for [updating schema metadata]"
            return Outcome(record, F.when(operand.present, F.lit(told)))
        schema = replace(
            operand.schema,
            name=operand.schema.name if self.schema_name is None else self.schema_name,
            version=operand.schema.version if self.version is None else self.version,
        )
        if schema.logical != operand.schema.logical:
            raise DataException(
                f"the name {schema.name} would make another logical type of it: use Cast or TimestampConverter"
            )
        if operand.fields is None:
            return Outcome(record.with_operand(self.side, replace(operand, schema=schema)))
        values = {
            each.name: with_default(each.schema, operand.fields[each.name], self.replaces) for each in schema.fields
        }
        return Outcome(record.with_operand(self.side, Operand.of_fields(schema, operand.present, values)))
