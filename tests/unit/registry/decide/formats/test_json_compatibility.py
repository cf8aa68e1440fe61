"""What a reader's JSON Schema must accept. Each row: writer, reader, the kinds of problems."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from barnabas.registry.decide.formats.json_format import JsonFormat
from barnabas.registry.decide.formats.parsed_schema import ReferencedText, UnreadableSchema


def kinds(writer: Any, reader: Any) -> list[str]:
    formats = JsonFormat()
    parsed = [formats.parse(json.dumps(schema), ()) for schema in (writer, reader)]
    return re.findall(r'errorType:"(\w+)"', "".join(parsed[1].problems_reading(parsed[0])))


def obj(properties: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties or {}, **more}


CLOSED: dict[str, Any] = {"additionalProperties": False}
A: dict[str, Any] = {"a": {"type": "string"}}
AB: dict[str, Any] = {**A, "b": {"type": "integer"}}
NUMBERS: dict[str, Any] = {"additionalProperties": {"type": "integer"}}

ROWS: list[tuple[Any, Any, list[str]]] = [
    # Types.
    ({"type": "integer"}, {"type": "number"}, []),
    ({"type": "number"}, {"type": "integer"}, ["TYPE_NARROWED"]),
    ({"type": "string"}, {"type": "integer"}, ["TYPE_CHANGED"]),
    ({"type": "string"}, {"type": ["string", "null"]}, []),
    ({"type": ["string", "null"]}, {"type": "string"}, ["TYPE_NARROWED"]),
    ({"type": "string"}, {}, []),
    ({"type": "string"}, True, []),
    ({"type": "string"}, False, ["TYPE_CHANGED"]),
    (False, {"type": "string"}, []),
    ({}, {"type": "string"}, ["TYPE_NARROWED"]),
    # Annotations and formats.
    ({"type": "string", "title": "x", "format": "date"}, {"type": "string", "description": "y", "default": ""}, []),
    # Texts and numbers.
    ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 6}, []),
    ({"type": "string", "maxLength": 5}, {"type": "string", "maxLength": 4}, ["MAX_LENGTH_DECREASED"]),
    ({"type": "string"}, {"type": "string", "maxLength": 4}, ["MAX_LENGTH_ADDED"]),
    ({"type": "string", "minLength": 1}, {"type": "string"}, []),
    ({"type": "string", "minLength": 1}, {"type": "string", "minLength": 2}, ["MIN_LENGTH_INCREASED"]),
    ({"type": "string"}, {"type": "string", "pattern": "a"}, ["PATTERN_ADDED"]),
    ({"type": "string", "pattern": "b"}, {"type": "string", "pattern": "a"}, ["PATTERN_CHANGED"]),
    ({"type": "string", "pattern": "b"}, {"type": "string"}, []),
    ({"type": "number", "maximum": 5}, {"type": "number", "maximum": 4}, ["MAXIMUM_DECREASED"]),
    ({"type": "number", "minimum": 5}, {"type": "number", "minimum": 4}, []),
    ({"type": "integer"}, {"type": "integer", "exclusiveMinimum": 0}, ["EXCLUSIVE_MINIMUM_ADDED"]),
    ({"type": "number", "multipleOf": 10}, {"type": "number", "multipleOf": 5}, []),
    ({"type": "number", "multipleOf": 5}, {"type": "number", "multipleOf": 10}, ["MULTIPLE_OF_EXPANDED"]),
    ({"type": "number", "multipleOf": 5}, {"type": "number", "multipleOf": 3}, ["MULTIPLE_OF_CHANGED"]),
    # Enums.
    ({"enum": ["a"]}, {"enum": ["a", "b"]}, []),
    ({"enum": ["a", "b"]}, {"enum": ["a"]}, ["ENUM_ARRAY_NARROWED"]),
    ({"enum": ["a"]}, {"enum": ["b"]}, ["ENUM_ARRAY_CHANGED"]),
    ({"type": "string"}, {"type": "string", "enum": ["a"]}, ["ENUM_ARRAY_NARROWED"]),
    ({"const": "a"}, {"type": "string"}, []),
    ({"const": 1}, {"enum": [True]}, ["TYPE_CHANGED", "ENUM_ARRAY_CHANGED"]),
    # Objects.
    (obj(A), obj(AB), ["PROPERTY_ADDED_TO_OPEN_CONTENT_MODEL"]),
    (obj(A), obj({**A, "b": {}}), []),
    (obj(AB), obj(A), []),
    (obj(A, **CLOSED), obj(AB, **CLOSED), []),
    (obj(A, **CLOSED), obj(AB), []),
    (obj(AB, **CLOSED), obj(A, **CLOSED), ["PROPERTY_REMOVED_FROM_CLOSED_CONTENT_MODEL"]),
    (obj(A, **CLOSED), obj(AB, **CLOSED, required=["b"]), ["REQUIRED_PROPERTY_ADDED_TO_UNOPEN_CONTENT_MODEL"]),
    (obj(A, **CLOSED), obj({**A, "b": {"type": "integer", "default": 0}}, **CLOSED, required=["b"]), []),
    (obj(A, **NUMBERS), obj(AB, **NUMBERS), []),
    (
        obj(**NUMBERS),
        obj(A, **NUMBERS),
        ["TYPE_CHANGED", "PROPERTY_ADDED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    (obj(AB, **NUMBERS), obj(A, **NUMBERS), []),
    (
        obj(A, **NUMBERS),
        obj(**NUMBERS),
        ["TYPE_CHANGED", "PROPERTY_REMOVED_NOT_COVERED_BY_PARTIALLY_OPEN_CONTENT_MODEL"],
    ),
    (obj(A), obj(A, **CLOSED), ["ADDITIONAL_PROPERTIES_REMOVED"]),
    (obj(A), obj(A, **NUMBERS), ["ADDITIONAL_PROPERTIES_NARROWED"]),
    (obj(A, **CLOSED), obj(A), []),
    (obj(A), obj(A, required=["a"]), ["REQUIRED_ATTRIBUTE_ADDED"]),
    (obj(A, required=["a"]), obj(A), []),
    (obj(A), obj({"a": {"type": "string", "default": ""}}, required=["a"]), []),
    (obj(A), obj(A, required=["z"]), ["REQUIRED_ATTRIBUTE_ADDED"]),
    (obj(A), obj(A, maxProperties=1), ["MAX_PROPERTIES_ADDED"]),
    (obj(A), obj(A, dependencies={"a": ["b"]}), ["DEPENDENCY_ARRAY_ADDED"]),
    (obj(A, dependencies={"a": ["b"]}), obj(A, dependencies={"a": ["b", "c"]}), ["DEPENDENCY_ARRAY_EXTENDED"]),
    (obj({"a": obj(A)}), obj({"a": obj(A, required=["a"])}), ["REQUIRED_ATTRIBUTE_ADDED"]),
    # Lists.
    ({"type": "array", "items": {"type": "integer"}}, {"type": "array", "items": {"type": "number"}}, []),
    (
        {"type": "array", "items": {"type": "number"}},
        {"type": "array", "items": {"type": "integer"}},
        ["TYPE_NARROWED"],
    ),
    ({"type": "array"}, {"type": "array", "uniqueItems": True}, ["UNIQUE_ITEMS_ADDED"]),
    ({"type": "array", "items": [{"type": "string"}]}, {"type": "array"}, []),
    (
        {"type": "array"},
        {"type": "array", "items": [{"type": "string"}]},
        ["ITEM_ADDED_TO_OPEN_CONTENT_MODEL"],
    ),
    (
        {"type": "array", "items": [{"type": "string"}, {"type": "string"}], "additionalItems": False},
        {"type": "array", "items": [{"type": "string"}], "additionalItems": False},
        ["ITEM_REMOVED_FROM_CLOSED_CONTENT_MODEL"],
    ),
    # Combinations.
    ({"type": "string"}, {"anyOf": [{"type": "string"}, {"type": "integer"}]}, []),
    ({"type": "boolean"}, {"oneOf": [{"type": "string"}, {"type": "integer"}]}, ["TYPE_CHANGED"]),
    ({"oneOf": [{"type": "string"}]}, {"oneOf": [{"type": "integer"}, {"type": "string"}]}, []),
    (
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        {"oneOf": [{"type": "string"}]},
        ["SUM_TYPE_NARROWED"],
    ),
    ({"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"type": ["integer", "string"]}, []),
    (
        {"anyOf": [{"type": "string"}, {"type": "null"}]},
        {"oneOf": [{"type": "string"}, {"type": "null"}]},
        ["COMBINED_TYPE_CHANGED"],
    ),
    (
        {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        {"oneOf": [{"type": "string"}, {"type": "boolean"}]},
        ["COMBINED_TYPE_SUBSCHEMAS_CHANGED"],
    ),
    ({"allOf": [obj(A)]}, {"allOf": [obj(A)]}, []),
    ({"allOf": [obj(A)]}, {"allOf": [obj(A), obj(required=["z"])]}, ["PRODUCT_TYPE_EXTENDED"]),
    ({"allOf": [obj(A), obj(required=["z"])]}, {"allOf": [obj(A)]}, []),
    ({"type": "string"}, {"type": "string", "not": {"const": "a"}}, ["NOT_TYPE_EXTENDED"]),
    ({"type": "string", "not": {"enum": ["a", "b"]}}, {"type": "string", "not": {"const": "a"}}, []),
    ({"type": "string"}, {"type": "string", "if": {"const": "a"}}, ["IF_CHANGED"]),
]


@pytest.mark.parametrize(("writer", "reader", "expected"), ROWS, ids=[str(place) for place in range(len(ROWS))])
def test_problems_of_a_reader(writer: Any, reader: Any, expected: list[str]) -> None:
    assert kinds(writer, reader) == expected


@pytest.mark.parametrize("schema", [row[0] for row in ROWS], ids=[str(place) for place in range(len(ROWS))])
def test_a_schema_reads_its_own_data(schema: Any) -> None:
    assert kinds(schema, schema) == []


def test_a_recursive_schema_is_compared() -> None:
    tree = {"$ref": "#/definitions/node", "definitions": {"node": obj({"next": {"$ref": "#/definitions/node"}})}}
    closed = {
        "$ref": "#/definitions/node",
        "definitions": {"node": obj({"next": {"$ref": "#/definitions/node"}}, **CLOSED)},
    }
    assert kinds(tree, tree) == []
    assert kinds(tree, closed) == ["ADDITIONAL_PROPERTIES_REMOVED"]


def test_a_reference_to_another_schema_is_followed() -> None:
    formats = JsonFormat()

    def parsed(kind: str) -> Any:
        used = ReferencedText("id.json", json.dumps({"type": kind}))
        return formats.parse(json.dumps(obj({"id": {"$ref": "id.json"}})), [used])

    assert parsed("number").problems_reading(parsed("integer")) == []
    assert len(parsed("integer").problems_reading(parsed("string"))) == 1


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nothing", "the schema: Expecting value"),
        ("[]", "neither a JSON object"),
        ('{"type": "strin"}', "not a valid JSON Schema"),
        ('{"$ref": "other.json"}', "uses other.json, which it does not contain"),
        ("[" * 5000 + "]" * 5000, "too deeply|levels deep|recursion"),
    ],
)
def test_an_invalid_schema_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UnreadableSchema, match=reason):
        JsonFormat().parse(text, ())


def test_the_stored_text_is_compact_and_sorted_only_on_request() -> None:
    text = '{ "type": "object",\n "b": 1, "a": "é" }'
    assert JsonFormat().parse(text, ()).canonical == '{"type":"object","b":1,"a":"é"}'
    assert JsonFormat().parse(text, (), normalize=True).canonical == '{"a":"é","b":1,"type":"object"}'
