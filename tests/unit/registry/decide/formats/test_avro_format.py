"""Avro schemas: the text that is stored, and what Apache's library says of two schemas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.registry.decide.formats.avro_format import AvroFormat, ParsedAvro
from barnabas.registry.decide.formats.parsed_schema import ReferencedText, UnreadableSchema


def parsed(schema: Any, *references: ReferencedText, normalize: bool = False) -> ParsedAvro:
    text = schema if isinstance(schema, str) else json.dumps(schema)
    return AvroFormat().parse(text, references, normalize=normalize)


def record(*fields: dict[str, Any], name: str = "R", **more: Any) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields), **more}


@pytest.mark.parametrize(
    ("given", "stored"),
    [
        ('"string"', '"string"'),
        ("string", '"string"'),
        ("null", '"null"'),
        ('{"type": "string"}', '"string"'),
        ('{"type":"int","logicalType":"date"}', '{"type":"int","logicalType":"date"}'),
        (
            '{"fields": [{"type": "int", "name": "a"}], "doc": "d", "namespace": "x", "name": "R", "type": "record"}',
            '{"type":"record","name":"R","namespace":"x","doc":"d","fields":[{"name":"a","type":"int"}]}',
        ),
        (
            '{"type":"record","name":"x.R","fields":[{"name":"next","type":["null","x.R"],"order":"ascending"}]}',
            '{"type":"record","name":"R","namespace":"x","fields":[{"name":"next","type":["null","R"]}]}',
        ),
        (
            '{"type":"record","name":"x.R","fields":[{"name":"e","type":'
            '{"type":"enum","name":"y.E","symbols":["A"],"default":"A"}}]}',
            '{"type":"record","name":"R","namespace":"x","fields":[{"name":"e","type":'
            '{"type":"enum","name":"E","namespace":"y","symbols":["A"],"default":"A"}}]}',
        ),
        ('{"type":"map","values":{"type":"array","items":"int"}}',) * 2,
        ('{"type":"fixed","name":"F","size":4,"aliases":["G"]}',) * 2,
    ],
)
def test_the_stored_text_is_javas(given: str, stored: str) -> None:
    assert parsed(given).canonical == stored
    assert parsed(stored).canonical == stored


def test_normalized_texts_are_equal_where_their_order_differs() -> None:
    texts = ['{"type":"int","b":1,"a":2}', '{"a":2,"b":1,"type":"int"}']
    assert parsed(texts[0]).canonical != parsed(texts[1]).canonical
    assert parsed(texts[0], normalize=True).canonical == parsed(texts[1], normalize=True).canonical


@pytest.mark.parametrize(
    ("writer", "reader", "is_readable"),
    [
        ("int", "long", True),
        ("long", "int", False),
        ("string", "bytes", True),
        ("int", ["null", "int"], True),
        (["null", "int"], "int", False),
        (record(), record({"name": "a", "type": "int"}), False),
        (record(), record({"name": "a", "type": "int", "default": 0}), True),
        (record({"name": "a", "type": "int"}), record(), True),
        (record({"name": "a", "type": "int"}), record({"name": "a", "type": "string"}), False),
        (record(), record(name="Other"), False),
        (
            {"type": "enum", "name": "E", "symbols": ["A", "B"]},
            {"type": "enum", "name": "E", "symbols": ["A"]},
            False,
        ),
    ],
)
def test_who_reads_what(writer: Any, reader: Any, is_readable: bool) -> None:
    assert (parsed(reader).problems_reading(parsed(writer)) == []) == is_readable


def test_a_problem_names_the_field_and_its_place() -> None:
    [problem] = parsed(record({"name": "a", "type": "int"})).problems_reading(parsed(record()))
    assert problem == (
        "{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'the reader needs the field a, which the writer "
        "lacks, and which has no default', additionalInfo:'/fields/0'}"
    )


def test_a_schema_may_use_types_of_its_references() -> None:
    address = ReferencedText("shop.Address", json.dumps(record(name="shop.Address")))
    assert "shop.Address" in parsed(record({"name": "a", "type": "shop.Address"}), address).canonical
    with pytest.raises(UnreadableSchema, match=r"shop\.Address"):
        parsed(record({"name": "a", "type": "shop.Address"}))


@pytest.mark.parametrize(
    "text",
    ["", "{}", '{"type":"record"}', '{"type":"recor"}', "[[]]", "nothing", "1", '{"type":[]' + "]" * 3],
)
def test_an_invalid_schema_is_refused(text: str) -> None:
    with pytest.raises(UnreadableSchema, match="not a valid Avro schema"):
        parsed(text)


def test_a_deep_schema_is_refused() -> None:
    with pytest.raises(UnreadableSchema, match="deep"):
        parsed('{"type":"array","items":' * 1000 + '"int"' + "}" * 1000)
