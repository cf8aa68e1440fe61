"""Connect's schemas as values, and their JSON form, which is the one in the envelope of JsonConverter.

Every record of a RecordBatch has the same two schemas, so a transform decides once for the batch how to change them,
and not for each row. A schema of None means schemaless: the value itself has its type.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import Any

__all__ = ["DATE", "DECIMAL", "SCALE", "TIME", "TIMESTAMP", "ConnectSchema", "DataException", "Field", "SchemaType"]

DECIMAL = "org.apache.kafka.connect.data.Decimal"
DATE = "org.apache.kafka.connect.data.Date"
TIME = "org.apache.kafka.connect.data.Time"
TIMESTAMP = "org.apache.kafka.connect.data.Timestamp"
SCALE = "scale"
"""The name of a Decimal's scale parameter."""

_BASE_OF_LOGICAL = {DECIMAL: "bytes", DATE: "int32", TIME: "int32", TIMESTAMP: "int64"}


class DataException(Exception):
    """Records of this kind can't be converted or transformed. ``exception_class`` is Java's exception class."""

    def __init__(self, message: str, exception_class: str = "org.apache.kafka.connect.errors.DataException") -> None:
        super().__init__(message)
        self.exception_class = exception_class


class SchemaType(StrEnum):
    """The names are those of the JSON form."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    FLOAT32 = "float"
    FLOAT64 = "double"
    BOOLEAN = "boolean"
    STRING = "string"
    BYTES = "bytes"
    ARRAY = "array"
    MAP = "map"
    STRUCT = "struct"

    @property
    def is_primitive(self) -> bool:
        return self not in (SchemaType.ARRAY, SchemaType.MAP, SchemaType.STRUCT)


@dataclass(frozen=True)
class Field:
    name: str
    schema: ConnectSchema


@dataclass(frozen=True)
class ConnectSchema:
    type: SchemaType
    optional: bool = False
    name: str | None = None
    version: int | None = None
    doc: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    default: str | None = None
    """The default as JSON text, as in the envelope; None if the schema has no default."""
    fields: tuple[Field, ...] = ()
    keys: ConnectSchema | None = None
    values: ConnectSchema | None = None
    """The schema of a map's values, or of an array's items."""

    @property
    def logical(self) -> str | None:
        """The logical type, if Connect knows the schema's name and its type is the one for that name."""
        return self.name if self.name is not None and _BASE_OF_LOGICAL.get(self.name) == self.type else None

    @property
    def scale(self) -> int:
        """The scale of a Decimal."""
        text = dict(self.parameters).get(SCALE)
        if text is None:
            raise DataException("Invalid Decimal schema: scale parameter not found.")
        try:
            return int(text)
        except ValueError:
            raise DataException("Invalid scale parameter found in Decimal schema: ") from None

    @cached_property
    def field_by_name(self) -> dict[str, Field]:
        return {field.name: field for field in self.fields}

    @property
    def item(self) -> ConnectSchema:
        """The schema of an array's items or a map's values."""
        if self.values is None:
            raise DataException(f"{self.type} schema has no schema of its elements")
        return self.values

    @property
    def key(self) -> ConnectSchema:
        """The schema of a map's keys."""
        if self.keys is None:
            raise DataException(f"{self.type} schema has no schema of its keys")
        return self.keys

    def to_json(self) -> dict[str, object]:
        """Return the schema as in the envelope, with the members in Connect's order."""
        form: dict[str, object] = {"type": str(self.type)}
        if self.type is SchemaType.ARRAY:
            form["items"] = self.item.to_json()
        elif self.type is SchemaType.MAP:
            form["keys"] = self.key.to_json()
            form["values"] = self.item.to_json()
        elif self.type is SchemaType.STRUCT:
            form["fields"] = [{**field.schema.to_json(), "field": field.name} for field in self.fields]
        form["optional"] = self.optional
        if self.name is not None:
            form["name"] = self.name
        if self.version is not None:
            form["version"] = self.version
        if self.doc is not None:
            form["doc"] = self.doc
        if self.parameters:
            form["parameters"] = dict(self.parameters)
        if self.default is not None:
            form["default"] = json.loads(self.default)
        return form

    @classmethod
    def from_json(cls, form: Any) -> ConnectSchema:
        """Parse the schema of an envelope. Raise DataException, with Connect's own text where one exists."""
        if not isinstance(form, dict) or not isinstance(form.get("type"), str):
            raise DataException("Schema must contain 'type' field")
        try:
            kind = SchemaType(form["type"])
        except ValueError:
            raise DataException(f"Unknown schema type: {form['type']}") from None
        default = form.get("default")
        return cls(
            type=kind,
            optional=form.get("optional") is True,
            name=_text(form, "name", "Invalid schema name: "),
            version=_version(form),
            doc=_text(form, "doc", "Invalid schema documentation: "),
            parameters=_parameters(form),
            default=None if default is None else json.dumps(default, separators=(",", ":")),
            **_children(kind, form),
        )


def _text(form: dict[str, object], member: str, otherwise: str) -> str | None:
    found = form.get(member)
    if found is not None and not isinstance(found, str):
        raise DataException(f"{otherwise}{json.dumps(found)} is not a string")
    return found


def _version(form: dict[str, object]) -> int | None:
    found = form.get("version")
    if found is None:
        return None
    if isinstance(found, bool) or not isinstance(found, int):
        raise DataException(f"Invalid schema version: {json.dumps(found)} is not an integer")
    return found


def _parameters(form: dict[str, object]) -> tuple[tuple[str, str], ...]:
    found = form.get("parameters")
    if found is None:
        return ()
    if not isinstance(found, dict):
        raise DataException("Invalid schema parameters: they must be an object")
    if not all(isinstance(value, str) for value in found.values()):
        raise DataException("Invalid schema parameters: every one must be a string")
    return tuple(found.items())


def _children(kind: SchemaType, form: dict[str, Any]) -> dict[str, Any]:
    if kind is SchemaType.ARRAY:
        if not isinstance(form.get("items"), dict):
            raise DataException("Array schema did not specify the element type")
        return {"values": ConnectSchema.from_json(form["items"])}
    if kind is SchemaType.MAP:
        for member, what in (("keys", "key"), ("values", "value")):
            if not isinstance(form.get(member), dict):
                raise DataException(f"Map schema did not specify the {what} type")
        return {"keys": ConnectSchema.from_json(form["keys"]), "values": ConnectSchema.from_json(form["values"])}
    if kind is SchemaType.STRUCT:
        if not isinstance(form.get("fields"), list):
            raise DataException('Struct schema\'s "fields" argument is not an array.')
        return {"fields": tuple(_field(field) for field in form["fields"])}
    return {}


def _field(form: object) -> Field:
    name = form.get("field") if isinstance(form, dict) else None
    if not isinstance(name, str):
        raise DataException("Struct schema's field name not specified properly")
    return Field(name, ConnectSchema.from_json(form))
