"""Avro, with ``fastavro``. Values are plain JSON: a union has no wrapper, bytes are a text of the characters 0 to 255.

Logical types are left out: a timestamp is its number, a decimal its bytes, as in the JSON encoding of Avro.
"""

from __future__ import annotations

import json
from io import BytesIO
from typing import TYPE_CHECKING, Any

from fastavro import parse_schema, schemaless_reader, schemaless_writer
from fastavro.schema import SchemaParseException, UnknownType
from fastavro.validation import validate

from barnabas.clients.schema_registry.errors import SchemaError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

__all__ = ["AvroCodec"]

_FEW = 60


class AvroCodec:
    def __init__(self, text: str, references: Sequence[str]) -> None:
        """``references`` are schemas that it uses, each before those that use it. Raise SchemaError."""
        named: dict[str, Any] = {}
        try:
            for used in references:
                parse_schema(_without_logical_types(json.loads(used)), named_schemas=named)
            schema = parse_schema(_without_logical_types(json.loads(text)), named_schemas=named)
            # A schema that is not a record is parsed again by the library when it is used, without the other ones.
            self._schema = parse_schema(_self_contained(schema, named, set())) if references else schema
        except (SchemaParseException, UnknownType, ValueError, TypeError, KeyError) as error:
            raise SchemaError(f"the Avro schema can't be read: {error}") from error
        self._named = named

    def read(self, payload: bytes) -> object:
        """Return the value as JSON has it. Raise SchemaError."""
        stream = BytesIO(payload)
        try:
            found = schemaless_reader(stream, self._schema, None)
        except (EOFError, ValueError, IndexError, KeyError, TypeError, MemoryError, OverflowError) as error:
            raise SchemaError(f"it does not fit its Avro schema: {error or type(error).__name__}") from error
        if stream.tell() != len(payload):
            raise SchemaError(f"{len(payload) - stream.tell()} bytes follow the Avro value")
        return _as_json(found)

    def write(self, value: object) -> bytes:
        """Return the bytes of a value from JSON. Raise SchemaError."""
        out = BytesIO()
        try:
            schemaless_writer(out, self._schema, self._as_avro(value, self._schema, "value"))
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise SchemaError(f"it does not fit the Avro schema: {error}") from error
        return out.getvalue()

    def _as_avro(self, value: Any, schema: Any, path: str) -> Any:
        """Return the value as fastavro has it: bytes instead of texts, and the branch of each union."""
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        if isinstance(schema, list):
            return self._of_union(value, schema, path)
        kind = schema["type"] if isinstance(schema, dict) else schema
        if kind in ("record", "error") and isinstance(value, dict):
            fields = {field["name"]: field for field in schema["fields"]}
            if unknown := value.keys() - fields.keys():
                raise SchemaError(f"{path} has no field {min(unknown)!r} in the schema; it has {', '.join(fields)}")
            missing = [name for name, field in fields.items() if name not in value and "default" not in field]
            if missing:
                raise SchemaError(f"{path} lacks the field {missing[0]!r}, which has no default in the schema")
            given = {name: value.get(name, field.get("default")) for name, field in fields.items()}
            return {name: self._as_avro(part, fields[name]["type"], f"{path}.{name}") for name, part in given.items()}
        if kind == "array" and isinstance(value, list):
            return [self._as_avro(part, schema["items"], f"{path}[{index}]") for index, part in enumerate(value)]
        if kind == "map" and isinstance(value, dict):
            return {name: self._as_avro(part, schema["values"], f"{path}.{name}") for name, part in value.items()}
        if kind in ("bytes", "fixed") and isinstance(value, str):
            try:
                return value.encode("latin-1")
            except UnicodeEncodeError:
                raise SchemaError(f"{path} is {kind}: write each byte as a character from 0 to 255") from None
        if isinstance(kind, (dict, list)):
            return self._as_avro(value, kind, path)
        if not self._fits(value, schema):
            raise SchemaError(f"{path} is {json.dumps(value)[:_FEW]}, but the schema needs {_name_of(schema)}")
        return value

    def _of_union(self, value: Any, branches: list[Any], path: str) -> Any:
        if isinstance(value, dict) and len(value) == 1:  # The JSON encoding of Avro names the branch.
            ((name, inner),) = value.items()
            for branch in branches:
                if _name_of(branch) in (name, name.rpartition(".")[2]) or _name_of(branch).endswith(f".{name}"):
                    return self._as_avro(inner, branch, path)
        for branch in branches:
            try:
                converted = self._as_avro(value, branch, path)
            except SchemaError:
                continue
            if self._fits(converted, branch):
                return converted
        names = ", ".join(map(_name_of, branches))
        raise SchemaError(f"{path} is {json.dumps(value)[:_FEW]}, but the schema needs one of {names}")

    def _fits(self, value: object, schema: Any) -> bool:
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        return bool(validate(value, schema, raise_errors=False))


def _name_of(schema: Any) -> str:
    if isinstance(schema, dict):
        return str(schema.get("name", schema["type"]))
    return schema if isinstance(schema, str) else "a union"


def _without_logical_types(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {
            name: part if name in ("default", "symbols", "doc") else _without_logical_types(part)
            for name, part in schema.items()
            if name != "logicalType"
        }
    return [_without_logical_types(part) for part in schema] if isinstance(schema, list) else schema


def _self_contained(schema: Any, named: Mapping[str, Any], defined: set[str]) -> Any:
    """Return the schema with the definition of each named type at its first use."""
    if isinstance(schema, str):
        if schema not in named or schema in defined:
            return schema
        schema = named[schema]
    if isinstance(schema, list):
        return [_self_contained(branch, named, defined) for branch in schema]
    if schema["type"] in ("record", "error", "enum", "fixed"):
        defined.add(schema["name"])
    whole = {name: part for name, part in schema.items() if not name.startswith("__")}
    for name in ("type", "items", "values"):
        if name in whole and whole[name] not in ("record", "error", "enum", "fixed", "array", "map"):
            whole[name] = _self_contained(whole[name], named, defined)
    if "fields" in whole:
        whole["fields"] = [
            field | {"type": _self_contained(field["type"], named, defined)} for field in whole["fields"]
        ]
    return whole


def _as_json(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("latin-1")
    if isinstance(value, dict):
        return {name: _as_json(part) for name, part in value.items()}
    return [_as_json(part) for part in value] if isinstance(value, list) else value
