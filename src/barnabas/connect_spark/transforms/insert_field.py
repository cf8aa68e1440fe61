"""InsertField: the origin of a record, or a fixed text, as fields of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Self

from pyspark.sql import functions as F

from barnabas.common.config_value import ConfigException
from barnabas.connect_spark.converters.connect_schema import TIMESTAMP, ConnectSchema, Field, SchemaType
from barnabas.connect_spark.converters.json_decoding import first_error
from barnabas.connect_spark.converters.variants import null_variant
from barnabas.connect_spark.transforms.record_expressions import (
    Operand,
    Outcome,
    Record,
    Side,
    members_of,
    require_struct,
)
from barnabas.connect_spark.transforms.struct_fields import duplicate, replaces_null, struct_like, with_defaults
from barnabas.connect_spark.transforms.transform import SidedTransform

if TYPE_CHECKING:
    from pyspark.sql import Column

    from barnabas.connect_spark.transforms.transform import Settings

__all__ = ["InsertField"]


@dataclass(frozen=True)
class InsertField(SidedTransform):
    """``!`` after a name makes the field required; ``?`` or nothing makes it optional."""

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
            replaces_null(settings),
        )
        if all(insertion is None for insertion, _, _ in inserted._insertions()) and inserted.static is None:
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
        names = (self.topic, self.partition, self.offset, self.timestamp)
        places = ("topic", "partition", "offset", "timestamp")
        return list(zip(names, self._insertions_of(), places, strict=True))

    def apply(self, record: Record) -> Outcome:
        operand = record.operand(self.side)
        added: list[tuple[str, ConnectSchema, Column]] = []
        for text, schema, place in self._insertions():
            if text is not None:
                name, required = _suffixed(text)
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
            # A record without a timestamp gets no such field.
            place = F.lit(_suffixed(self.timestamp)[0])
            created = F.map_filter(created, lambda name, _: (name != place) | record.timestamp.isNotNull())
        inserted = Operand.of_members(operand.present, F.map_concat(kept, created))
        return Outcome(record.with_operand(self.side, inserted), wrong)

    def _typed(self, record: Record, operand: Operand, added: list[tuple[str, ConnectSchema, Column]]) -> Outcome:
        schema, columns, _ = require_struct(operand, "field insertion", null_allowed=True)
        fields = list(schema.fields)
        values = with_defaults(schema.fields, columns, self.replaces)
        errors = []
        for name, kind, column in added:
            if name in values:
                raise duplicate(name)
            fields.append(Field(name, kind))
            values[name] = column
            if not kind.optional:
                message = f'Invalid value: null used for required field: "{name}", schema type: {kind.type.name}'
                errors.append(F.when(operand.present & column.isNull(), F.lit(message)))
        inserted = struct_like(schema, tuple(fields))
        return Outcome(
            record.with_operand(self.side, Operand.of_fields(inserted, operand.present, values)), first_error(errors)
        )


def _suffixed(text: str) -> tuple[str, bool]:
    if text.endswith("!"):
        return text[:-1], True
    return text.removesuffix("?"), False
