"""A schema with references becomes one that is complete in itself, and means the same."""

from __future__ import annotations

import datetime
import json
from io import BytesIO
from typing import Any

import pytest
from fastavro import parse_schema, schemaless_reader, schemaless_writer

from barnabas.clients.schema_registry.avro_references import complete_avro
from barnabas.clients.schema_registry.errors import SchemaError

KIND = {"type": "enum", "name": "Kind", "namespace": "shop", "symbols": ["A", "B"]}
ITEM = {
    "type": "record",
    "name": "shop.Item",
    "fields": [{"name": "kind", "type": "Kind"}, {"name": "n", "type": "int"}],
}
ORDER = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "item", "type": "Item"},
        {"name": "kind", "type": ["null", "shop.Kind"], "default": None},
        {"name": "items", "type": {"type": "array", "items": "Item"}},
        {"name": "by_name", "type": {"type": "map", "values": ["null", "Item"]}},
        {"name": "next", "type": ["null", "Order"]},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}  # fmt: skip
VALUE = {
    "item": {"kind": "A", "n": 1}, "kind": "B", "items": [{"kind": "B", "n": 2}],
    "by_name": {"x": {"kind": "A", "n": 3}},
    "next": None, "at": 5,
}  # fmt: skip


EPOCH_AND_5_MS = datetime.datetime(1970, 1, 1, 0, 0, 0, 5000, tzinfo=datetime.UTC)


def complete(schema: Any, *references: Any) -> Any:
    return complete_avro(json.dumps(schema), [json.dumps(used) for used in references])


def test_types_of_references_are_defined_where_they_occur_first() -> None:
    whole = complete(ORDER, KIND, ITEM)
    text = json.dumps(whole)
    assert (text.count('"symbols"'), text.count('"name": "shop.Item"')) == (1, 1)
    named: dict[str, Any] = {}
    for used in (KIND, ITEM):
        parse_schema(used, named_schemas=named)
    out = BytesIO()
    schemaless_writer(out, parse_schema(whole), VALUE)
    expected = BytesIO()
    schemaless_writer(expected, parse_schema(ORDER, named_schemas=named), VALUE)
    assert out.getvalue() == expected.getvalue()
    out.seek(0)
    assert schemaless_reader(out, parse_schema(whole), None) == VALUE | {"at": EPOCH_AND_5_MS}


@pytest.mark.parametrize("schema", ["int", ["null", "string"], {"type": "string", "avro.java.string": "String"}])
def test_a_schema_without_names_stays_as_it_is(schema: Any) -> None:
    assert complete(schema) == schema


def test_an_unknown_name_is_reported() -> None:
    with pytest.raises(SchemaError, match=r"uses shop\.Item, which neither it"):
        complete(ORDER)
    with pytest.raises(SchemaError, match="not JSON"):
        complete_avro("{", ())
    with pytest.raises(SchemaError, match="without a name"):
        complete({"type": "record", "fields": []})
    with pytest.raises(SchemaError, match="in place of a type"):
        complete({"name": "x"})
