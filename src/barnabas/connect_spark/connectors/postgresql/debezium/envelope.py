"""The schemas of Debezium's events for PostgreSQL, and the names of its topics. No I/O.

Columns of the key are required, all others are optional: ``before`` of a deletion has only the key, unless the table
has REPLICA IDENTITY FULL.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from barnabas.connect_spark.connectors.postgresql.debezium.column_types import (
    Modes,
    PostgresType,
    ValuePlan,
    value_plan,
)
from barnabas.connect_spark.connectors.postgresql.debezium.events import Table
from barnabas.connect_spark.converters.connect_schema import ConnectSchema, Field, SchemaType

__all__ = ["EventPlan", "event_plan", "topic_of"]

_UNUSUAL_IN_TOPIC = re.compile(r"[^a-zA-Z0-9._-]")
_UNUSUAL_IN_NAME = re.compile(r"[^a-zA-Z0-9._]")


def _required(kind: SchemaType) -> ConnectSchema:
    return ConnectSchema(kind)


def _optional(kind: SchemaType) -> ConnectSchema:
    return ConnectSchema(kind, True)


_TEXT, _NUMBER = SchemaType.STRING, SchemaType.INT64
_SNAPSHOT = ConnectSchema(
    _TEXT,
    True,
    "io.debezium.data.Enum",
    1,
    parameters=(("allowed", "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"),),
    default='"false"',
)
_SOURCE = ConnectSchema(
    SchemaType.STRUCT,
    name="io.debezium.connector.postgresql.Source",
    version=1,
    fields=(
        Field("version", _required(_TEXT)),
        Field("connector", _required(_TEXT)),
        Field("name", _required(_TEXT)),
        Field("ts_ms", _required(_NUMBER)),
        Field("snapshot", _SNAPSHOT),
        Field("db", _required(_TEXT)),
        Field("sequence", _optional(_TEXT)),
        Field("ts_us", _optional(_NUMBER)),
        Field("ts_ns", _optional(_NUMBER)),
        Field("schema", _required(_TEXT)),
        Field("table", _required(_TEXT)),
        Field("txId", _optional(_NUMBER)),
        Field("lsn", _optional(_NUMBER)),
        Field("xmin", _optional(_NUMBER)),
    ),
)
_TRANSACTION = ConnectSchema(
    SchemaType.STRUCT,
    True,
    "event.block",
    1,
    fields=(
        Field("id", _required(_TEXT)),
        Field("total_order", _required(_NUMBER)),
        Field("data_collection_order", _required(_NUMBER)),
    ),
)


@dataclass(frozen=True, slots=True)
class EventPlan:
    """How the events of a table are written."""

    topic: str
    columns: tuple[ValuePlan, ...]
    key: ConnectSchema | None
    value: ConnectSchema

    @property
    def row(self) -> ConnectSchema:
        return self.value.field_by_name["after"].schema

    @property
    def source(self) -> ConnectSchema:
        return _SOURCE

    @property
    def transaction(self) -> ConnectSchema:
        return _TRANSACTION


def topic_of(prefix: str, table: Table) -> str:
    """Return the topic's name. Characters that a topic can't have become underscores."""
    return _UNUSUAL_IN_TOPIC.sub("_", f"{prefix}.{table.full_name}")


def event_plan(prefix: str, table: Table, types: Mapping[int, PostgresType], modes: Modes) -> EventPlan:
    plans = tuple([value_plan(column.type_oid, column.type_modifier, types, modes) for column in table.columns])
    fields = [
        Field(column.name, replace(plan.schema, optional=column.name not in table.key))
        for column, plan in zip(table.columns, plans, strict=True)
    ]
    name = _UNUSUAL_IN_NAME.sub("_", f"{prefix}.{table.full_name}")
    return EventPlan(topic_of(prefix, table), plans, _key(name, table, fields), _value(name, fields))


def _key(name: str, table: Table, fields: Sequence[Field]) -> ConnectSchema | None:
    if not table.key:
        return None
    keys = tuple([field for field in fields if field.name in table.key])
    return ConnectSchema(SchemaType.STRUCT, True, f"{name}.Key", fields=keys)


def _value(name: str, fields: Sequence[Field]) -> ConnectSchema:
    row = ConnectSchema(SchemaType.STRUCT, True, f"{name}.Value", fields=tuple(fields))
    return ConnectSchema(
        SchemaType.STRUCT,
        True,
        f"{name}.Envelope",
        2,
        fields=(
            Field("before", row),
            Field("after", row),
            Field("source", _SOURCE),
            Field("transaction", _TRANSACTION),
            Field("op", _required(_TEXT)),
            Field("ts_ms", _optional(_NUMBER)),
            Field("ts_us", _optional(_NUMBER)),
            Field("ts_ns", _optional(_NUMBER)),
        ),
    )
