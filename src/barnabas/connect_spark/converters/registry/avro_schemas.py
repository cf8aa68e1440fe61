"""Avro schemas of Connect's schemas, as Confluent's converter writes them, and Connect's names of Avro's records."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

from barnabas.connect_spark.converters.connect_schema import (
    DATE,
    DECIMAL,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    DataException,
    Field,
    SchemaType,
)
from barnabas.connect_spark.converters.spark_types import decimal_type

__all__ = ["avro_of", "named_by_avro", "record_name", "text_of"]

_DEFAULT_NAME = "ConnectDefault"
_DEFAULT_NAMESPACE = "io.confluent.connect.avro"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_FULL_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*")

_PRIMITIVES: dict[SchemaType, Any] = {
    SchemaType.INT8: {"type": "int", "connect.type": "int8"},
    SchemaType.INT16: {"type": "int", "connect.type": "int16"},
    SchemaType.INT32: "int",
    SchemaType.INT64: "long",
    SchemaType.FLOAT32: "float",
    SchemaType.FLOAT64: "double",
    SchemaType.BOOLEAN: "boolean",
    SchemaType.STRING: "string",
    SchemaType.BYTES: "bytes",
}
_LOGICAL = {DATE: ("int", "date"), TIME: ("int", "time-millis"), TIMESTAMP: ("long", "timestamp-millis")}


def avro_of(schema: ConnectSchema) -> Any:
    """Return the parsed Avro schema of data with this one. Raise DataException for data that Avro has no type for.

    Null data is null bytes, so an optional schema as a whole is the same as one that is required.
    """
    return _Writing().of(replace(schema, optional=False))


def record_name(avro: Any) -> str | None:
    """Return the full name of a record; None for other schemas."""
    if not isinstance(avro, dict) or avro.get("type") != "record":
        return None
    name, namespace = str(avro["name"]), avro.get("namespace")
    return f"{namespace}.{name}" if namespace and "." not in name else name


class _Writing:
    """Names the records of one schema."""

    def __init__(self) -> None:
        self._unnamed = 0
        self._defined: dict[str, ConnectSchema] = {}

    def of(self, schema: ConnectSchema) -> Any:
        kind = self._required(schema)
        if not schema.optional:
            return kind
        return ["null", kind]

    def _required(self, schema: ConnectSchema) -> Any:
        if schema.logical == DECIMAL:
            return _decimal(schema)
        if schema.logical in _LOGICAL:
            base, logical = _LOGICAL[str(schema.logical)]
            return {"type": base, "connect.version": 1, "connect.name": schema.logical, "logicalType": logical}
        if schema.type is SchemaType.STRUCT:
            return self._record(schema)
        if schema.type is SchemaType.ARRAY:
            return {"type": "array", "items": self.of(schema.item)}
        if schema.type is SchemaType.MAP:
            if schema.key.type is not SchemaType.STRING or schema.key.optional:
                raise DataException(
                    f"a map with keys of {schema.key.type} can't be written as Avro: its keys are strings"
                )
            return {"type": "map", "values": self.of(schema.item)}
        return _PRIMITIVES[schema.type]

    def _record(self, schema: ConnectSchema) -> Any:
        namespace, name = self._name(schema)
        full = f"{namespace}.{name}" if namespace else name
        known = self._defined.get(full)
        if known is not None:
            if replace(known, optional=False) != replace(schema, optional=False):
                raise DataException(f"two structs with different fields have the name {full}")
            return full
        self._defined[full] = schema
        written: dict[str, Any] = {"type": "record", "name": name}
        if namespace:
            written["namespace"] = namespace
        written["fields"] = [self._field(field) for field in schema.fields]
        if schema.name is not None:
            written["connect.name"] = schema.name
        return written

    def _name(self, schema: ConnectSchema) -> tuple[str, str]:
        if schema.name is None:
            self._unnamed += 1
            return _DEFAULT_NAMESPACE, _DEFAULT_NAME + (str(self._unnamed) if self._unnamed > 1 else "")
        if not _FULL_NAME.fullmatch(schema.name):
            raise DataException(f"{schema.name!r} is not a name of Avro: set another one with SetSchemaMetadata")
        namespace, _, name = schema.name.rpartition(".")
        return namespace, name

    def _field(self, field: Field) -> dict[str, Any]:
        if not _NAME.fullmatch(field.name):
            raise DataException(
                f"Avro has no field {field.name!r} (names have letters, digits and _): rename it with ReplaceField"
            )
        written: dict[str, Any] = {"name": field.name, "type": self.of(field.schema)}
        if field.schema.optional:
            written["default"] = None
        return written


def _decimal(schema: ConnectSchema) -> dict[str, Any]:
    kind = decimal_type(schema)
    return {
        "type": "bytes",
        "scale": kind.scale,
        "precision": kind.precision,
        "connect.version": 1,
        "connect.parameters": {"scale": str(kind.scale), "connect.decimal.precision": str(kind.precision)},
        "connect.name": DECIMAL,
        "logicalType": "decimal",
    }


def named_by_avro(schema: ConnectSchema, avro: Any) -> ConnectSchema:
    """Return the schema with the names of Avro's records."""
    return _Naming().of(schema, avro)


class _Naming:
    def __init__(self) -> None:
        self._records: dict[str, Any] = {}

    def of(self, schema: ConnectSchema, avro: Any) -> ConnectSchema:
        avro = self._one(avro)
        if not isinstance(avro, dict):
            return schema
        if schema.type is SchemaType.STRUCT and avro.get("type") in ("record", "error"):
            name = record_name({**avro, "type": "record"})
            self._records[str(name)] = avro
            kinds = {field["name"]: field["type"] for field in avro["fields"]}
            fields = tuple(
                Field(field.name, self.of(field.schema, kinds[field.name])) if field.name in kinds else field
                for field in schema.fields
            )
            return replace(schema, name=name, fields=fields)
        inner = avro.get("items") if schema.type is SchemaType.ARRAY else avro.get("values")
        if schema.values is not None and inner is not None:
            return replace(schema, values=self.of(schema.values, inner))
        return schema

    def _one(self, avro: Any) -> Any:
        """Return the type itself: the only branch of a union besides null, or the definition of a name."""
        if isinstance(avro, list):
            branches = [branch for branch in avro if branch != "null"]
            return self._one(branches[0]) if len(branches) == 1 else None
        if isinstance(avro, str):
            return self._records.get(avro, avro)
        if isinstance(avro, dict) and isinstance(avro.get("type"), dict | list):
            return self._one(avro["type"])
        return avro


def text_of(avro: Any) -> str:
    """Return the schema as it is registered."""
    return json.dumps(avro, separators=(",", ":"), ensure_ascii=False)
