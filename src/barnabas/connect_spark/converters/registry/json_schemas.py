"""JSON Schema and Connect's schemas: the types of Confluent's converter.

A field that may be of several types, or of any, is a column of JSON text (``JSON_TEXT``). A schema that as a whole says
no type is none: its data is VARIANT.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from barnabas.connect_spark.converters.connect_schema import (
    DATE,
    DECIMAL,
    SCALE,
    TIME,
    TIMESTAMP,
    ConnectSchema,
    DataException,
    Field,
    SchemaType,
)
from barnabas.connect_spark.converters.json_decoding import JSON_TEXT

__all__ = ["connect_of_json_schema", "json_schema_of"]

_TYPE = "connect.type"
_INDEX = "connect.index"
_ANY = ConnectSchema(SchemaType.STRING, optional=True, name=JSON_TEXT)
_NAMED = {"float32": SchemaType.FLOAT32, "float64": SchemaType.FLOAT64}
_PLAIN = {
    "integer": SchemaType.INT64,
    "number": SchemaType.FLOAT64,
    "string": SchemaType.STRING,
    "boolean": SchemaType.BOOLEAN,
}
_PRIMITIVES = frozenset(str(kind) for kind in SchemaType if kind.is_primitive)
_LOGICAL = (DATE, DECIMAL, TIME, TIMESTAMP)
_WRITTEN: dict[SchemaType, dict[str, str]] = {
    **{kind: {"type": "integer", _TYPE: str(kind)} for kind in SchemaType if kind.startswith("int")},
    SchemaType.FLOAT32: {"type": "number", _TYPE: "float32"},
    SchemaType.FLOAT64: {"type": "number", _TYPE: "float64"},
    SchemaType.BOOLEAN: {"type": "boolean"},
    SchemaType.STRING: {"type": "string"},
    SchemaType.BYTES: {"type": "string", _TYPE: "bytes"},
}


def connect_of_json_schema(text: str, references: Mapping[str, str]) -> ConnectSchema | None:
    """Return the schema; None if it says no single type. ``references`` are the texts of other schemas by name.

    Raise DataException.
    """
    documents = {name: _parsed(used) for name, used in references.items()}
    found = _Reading(documents).of(_parsed(text), "", ())
    return None if found.name == JSON_TEXT else replace(found, optional=True)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise DataException(f"it is not JSON: {error}") from None


class _Reading:
    def __init__(self, documents: Mapping[str, Any]) -> None:
        self._documents = dict(documents)

    def of(self, schema: Any, document: str, outer: tuple[str, ...]) -> ConnectSchema:
        """``document`` is the name of the document that the schema is part of, ``outer`` the references around it."""
        if not isinstance(schema, dict):
            return _ANY
        if document == "" and not outer:
            self._documents.setdefault("", schema)
        if "$ref" in schema:
            return self._referenced(str(schema["$ref"]), document, outer)
        for word in ("oneOf", "anyOf"):
            if word in schema:
                return self._alternatives(schema[word], document, outer)
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._alternatives([{**schema, "type": name} for name in kind], document, outer)
        if "allOf" in schema:
            return self.of(self._merged(schema, document), document, outer)
        if kind is None and all(isinstance(value, str) for value in schema.get("enum", [None])):
            kind = "string"
        return self._typed(schema, kind, document, outer)

    def _referenced(self, reference: str, document: str, outer: tuple[str, ...]) -> ConnectSchema:
        name, target = self._target(reference, document)
        place = f"{name}#{reference.partition('#')[2]}"
        if place in outer:
            raise DataException(f"it contains itself ({reference}), and a column of Spark has no type for that")
        return self.of(target, name, (*outer, place))

    def _target(self, reference: str, document: str) -> tuple[str, Any]:
        file, _, pointer = reference.partition("#")
        name = file or document
        if name not in self._documents:
            raise DataException(f"it uses {reference}, which is not one of its references")
        target = self._documents[name]
        for part in pointer.strip("/").split("/") if pointer.strip("/") else ():
            key = part.replace("~1", "/").replace("~0", "~")
            if not isinstance(target, dict) or key not in target:
                raise DataException(f"it uses {reference}, which does not exist")
            target = target[key]
        return name, target

    def _merged(self, schema: dict[str, Any], document: str) -> dict[str, Any]:
        """Return the schema of which all parts hold. Only objects and single parts are merged."""
        whole = {key: part for key, part in schema.items() if key != "allOf"}
        parts = [whole] if whole.keys() & {"type", "properties"} else []
        for part in schema["allOf"]:
            if isinstance(part, dict) and "$ref" in part:
                name, part = self._target(str(part["$ref"]), document)
                if name != document:
                    return {}
            if isinstance(part, dict):
                parts.append(part)
        if len(parts) == 1:
            return parts[0]
        if not all("properties" in part for part in parts):
            return {}
        properties = {name: kind for part in parts for name, kind in part["properties"].items()}
        required = [name for part in parts for name in part.get("required", ())]
        return {**whole, "type": "object", "properties": properties, "required": required}

    def _alternatives(self, branches: list[Any], document: str, outer: tuple[str, ...]) -> ConnectSchema:
        others = [branch for branch in branches if not (isinstance(branch, dict) and branch.get("type") == "null")]
        if len(others) != 1:
            return _ANY
        found = self.of(others[0], document, outer)
        return replace(found, optional=found.optional or len(others) < len(branches))

    def _typed(self, schema: dict[str, Any], kind: Any, document: str, outer: tuple[str, ...]) -> ConnectSchema:
        connect = schema.get(_TYPE)
        if kind == "array" and connect != "map":
            items = self.of(schema.get("items"), document, outer)
            return ConnectSchema(SchemaType.ARRAY, values=items)
        if kind == "object" or (kind is None and "properties" in schema):
            return self._object(schema, document, outer)
        if kind not in _PLAIN:
            return _ANY
        found = _NAMED.get(str(connect)) or _PLAIN[kind]
        if connect in _PRIMITIVES:
            found = SchemaType(str(connect))
        title = schema.get("title")
        if title not in _LOGICAL:
            return ConnectSchema(found)
        parameters = tuple((str(name), str(value)) for name, value in schema.get("connect.parameters", {}).items())
        return ConnectSchema(found, name=title, version=1, parameters=parameters)

    def _object(self, schema: dict[str, Any], document: str, outer: tuple[str, ...]) -> ConnectSchema:
        properties, additional = schema.get("properties"), schema.get("additionalProperties")
        if not properties:
            if not isinstance(additional, dict):
                return _ANY
            values = self.of(additional, document, outer)
            return ConnectSchema(SchemaType.MAP, keys=ConnectSchema(SchemaType.STRING), values=values)
        required = set(schema.get("required", ()))
        ordered = sorted(properties.items(), key=lambda named: _index(named[1]))
        fields = []
        for name, kind in ordered:
            found = self.of(kind, document, outer)
            fields.append(Field(name, replace(found, optional=found.optional or name not in required)))
        return ConnectSchema(SchemaType.STRUCT, name=schema.get("title"), fields=tuple(fields))


def _index(kind: Any) -> int:
    found = kind.get(_INDEX) if isinstance(kind, dict) else None
    return found if isinstance(found, int) else 0


def json_schema_of(schema: ConnectSchema, *, decimals_as_numbers: bool) -> dict[str, Any]:
    """Return the JSON Schema of what JsonConverter writes for data of this schema. Raise DataException."""
    return _written(replace(schema, optional=False), decimals_as_numbers)


def _written(schema: ConnectSchema, as_numbers: bool) -> dict[str, Any]:
    kind = _required(schema, as_numbers)
    return {"oneOf": [{"type": "null"}, kind]} if schema.optional else kind


def _required(schema: ConnectSchema, as_numbers: bool) -> dict[str, Any]:
    if schema.name == JSON_TEXT:
        return {}
    if schema.logical is not None:
        base = {**_WRITTEN[schema.type], "title": schema.logical, "connect.version": 1}
        if schema.logical == DECIMAL:
            base["connect.parameters"] = {SCALE: str(schema.scale)}
            base["type"] = "number" if as_numbers else "string"
        return base
    if schema.type is SchemaType.ARRAY:
        return {"type": "array", "items": _written(schema.item, as_numbers)}
    if schema.type is SchemaType.MAP:
        if schema.key.type is not SchemaType.STRING:
            raise DataException(f"JSON's objects have names of strings, and this map has keys of {schema.key.type}")
        values = _written(schema.item, as_numbers)
        return {"type": "object", _TYPE: "map", "additionalProperties": values}
    if schema.type is not SchemaType.STRUCT:
        return dict(_WRITTEN[schema.type])
    written: dict[str, Any] = {"type": "object"}
    if schema.name is not None:
        written["title"] = schema.name
    written["properties"] = {
        field.name: {**_written(field.schema, as_numbers), _INDEX: index} for index, field in enumerate(schema.fields)
    }
    written["required"] = [field.name for field in schema.fields if not field.schema.optional]
    return written
