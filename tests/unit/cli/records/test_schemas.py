"""Values with a schema are encoded in Confluent's wire format and decoded again; what does not fit is named."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from hypothesis import given
from hypothesis import strategies as st

from barnabas.cli.records.schemas.codecs import SchemaReader, SchemaWriter, chosen_schema
from barnabas.clients.schema_registry.errors import SchemaError
from barnabas.clients.schema_registry.registry_client import Reference, RegisteredSchema
from barnabas.clients.schema_registry.wire_format import framed, read_indexes, schema_id_of, write_indexes

ORDER = {
    "type": "record", "name": "Order", "namespace": "shop",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "data", "type": "bytes", "default": "\u00ff"},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}, "default": 0},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["A", "B"]}, "default": "A"},
        {"name": "tags", "type": {"type": "map", "values": "int"}, "default": {}},
        {"name": "items", "type": {"type": "array", "items": ["string", "double", "Kind"]}, "default": []},
        {"name": "next", "type": ["null", "Order"], "default": None},
    ],
}  # fmt: skip
FULL = {
    "id": 1, "note": "x", "data": "a\u0000", "at": 5, "kind": "B", "tags": {"a": 1}, "items": ["s", 1.5], "next": None,
}  # fmt: skip


class FakeRegistry:
    """Schemas by id, without HTTP."""

    def __init__(self, *schemas: RegisteredSchema) -> None:
        self.schemas = {schema.schema_id: schema for schema in schemas}
        self.by_subject: dict[str, RegisteredSchema] = {}

    def schema(self, schema_id: int) -> RegisteredSchema:
        return self.schemas[schema_id]

    def latest(self, subject: str) -> RegisteredSchema:
        return self.by_subject[subject]

    def referenced(self, reference: Reference, *, is_protobuf: bool) -> RegisteredSchema:
        return self.by_subject[reference.subject]

    def register(self, subject: str, kind: str, text: str) -> RegisteredSchema:
        found = RegisteredSchema(len(self.schemas) + 1, kind, text)
        self.schemas[found.schema_id] = self.by_subject[subject] = found
        return found


def codecs(schema: RegisteredSchema, registry: Any = None, **options: Any) -> tuple[SchemaReader, SchemaWriter]:
    registry = registry or FakeRegistry(schema)
    registry.schemas[schema.schema_id] = schema
    return SchemaReader(registry), SchemaWriter(registry, schema, **options)


def avro(schema: Any = ORDER, registry: Any = None) -> tuple[SchemaReader, SchemaWriter]:
    return codecs(RegisteredSchema(7, "AVRO", json.dumps(schema)), registry)


# --- the wire format


def test_the_id_is_after_the_magic_byte() -> None:
    assert framed(0x01020304, b"x") == b"\0\1\2\3\4x"
    assert schema_id_of(b"\0\1\2\3\4x") == (0x01020304, b"x")
    for data in (b"", b"\0\0\0\0", b'{"id": 1}'):
        with pytest.raises(SchemaError, match="not with the byte 0"):
            schema_id_of(data)


def test_the_usual_index_is_one_byte() -> None:
    assert write_indexes([0]) == b"\0"
    assert read_indexes(b"\0x") == ([0], b"x")
    assert write_indexes([1, 0]) == b"\4\2\0"
    for damaged in (b"", b"\x04\x02", b"\xff" * 6, b"\x01"):
        with pytest.raises(SchemaError):
            read_indexes(damaged)


@given(st.lists(st.integers(0, 1000), min_size=1, max_size=5), st.binary(max_size=5))
def test_indexes_are_read_as_written(indexes: list[int], rest: bytes) -> None:
    assert read_indexes(write_indexes(indexes) + rest) == (indexes, rest)


# --- Avro


def test_an_avro_value_is_plain_json() -> None:
    reader, writer = avro()
    data = writer.write(FULL)
    assert data[:5] == b"\0\0\0\0\7"
    assert reader.read(data) == FULL
    assert writer.write_text(json.dumps(FULL).encode()) == data


def test_missing_fields_have_their_defaults_and_nested_records_too() -> None:
    reader, writer = avro()
    found = reader.read(writer.write({"id": 1, "next": {"id": 2}}))
    assert isinstance(found, dict)
    assert found["next"] == {
        "id": 2, "note": None, "data": "\u00ff", "at": 0, "kind": "A", "tags": {}, "items": [], "next": None,
    }  # fmt: skip


def test_a_union_may_name_its_branch() -> None:
    reader, writer = avro()
    plain = writer.write({"id": 1, "note": "x", "next": {"id": 2}, "items": [1.5, "A"]})
    wrapped = {"id": 1, "note": {"string": "x"}, "next": {"shop.Order": {"id": 2}}, "items": [{"double": 1.5}, "A"]}
    assert writer.write(wrapped) == plain
    assert reader.read(writer.write({"id": 1, "items": [{"Kind": "A"}]}))["items"] == ["A"]  # type: ignore[index]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"id": "x"}, 'value.id is "x", but the schema needs long'),
        ({}, "value lacks the field 'id', which has no default"),
        ({"id": 1, "nmae": 1}, "value has no field 'nmae' in the schema; it has id, note"),
        ({"id": 1, "note": 5}, "value.note is 5, but the schema needs one of null, string"),
        ({"id": 1, "data": "\u0100"}, "value.data is bytes: write each byte as a character"),
        ({"id": 1, "kind": "C"}, 'value.kind is "C", but the schema needs'),
        ({"id": 1, "items": [True]}, r"value.items\[0\] is true"),
        (5, "value is 5, but the schema needs"),
    ],
)
def test_a_value_that_does_not_fit_avro_is_named(value: object, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        avro()[1].write(value)


def test_damaged_avro_is_refused() -> None:
    reader, writer = avro()
    data = writer.write(FULL)
    with pytest.raises(SchemaError, match="does not fit its Avro schema"):
        reader.read(data[:-3])
    with pytest.raises(SchemaError, match="2 bytes follow"):
        reader.read(data + b"xx")


@given(st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(payload: bytes) -> None:
    try:
        avro()[0].read(framed(7, payload))
    except SchemaError:
        pass


def test_avro_schemas_use_each_other() -> None:
    registry = FakeRegistry()
    registry.by_subject["item"] = RegisteredSchema(
        1, "AVRO", '{"type":"record","name":"shop.Item","fields":[{"name":"sku","type":"string"}]}'
    )
    schema = RegisteredSchema(2, "AVRO", '{"type":"array","items":"shop.Item"}', (Reference("shop.Item", "item", 1),))
    reader, writer = codecs(schema, registry)
    assert reader.read(writer.write([{"sku": "a"}])) == [{"sku": "a"}]


def test_a_used_schema_may_be_used_again() -> None:
    registry = FakeRegistry()
    registry.by_subject["kind"] = RegisteredSchema(1, "AVRO", '{"type":"enum","name":"shop.Kind","symbols":["A"]}')
    fields = [{"name": "a", "type": "Kind"}, {"name": "b", "type": {"type": "map", "values": ["null", "Kind"]}}]
    text = json.dumps({"type": "record", "name": "shop.Order", "fields": fields})
    reader, writer = codecs(RegisteredSchema(2, "AVRO", text, (Reference("shop.Kind", "kind", 1),)), registry)
    value = {"a": "A", "b": {"x": "A", "y": None}}
    assert reader.read(writer.write(value)) == value


def test_a_bad_avro_schema_is_explained() -> None:
    for text in ("{", '{"type":"record"}', '"strange"'):
        with pytest.raises(SchemaError, match="the Avro schema can't be read"):
            codecs(RegisteredSchema(7, "AVRO", text))


# --- JSON Schema


def test_a_json_value_is_validated_when_it_is_written() -> None:
    text = json.dumps({"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}}})
    reader, writer = codecs(RegisteredSchema(7, "JSON", text))
    assert reader.read(writer.write({"id": 1})) == {"id": 1}
    with pytest.raises(SchemaError, match=r"\$: 'id' is a required property"):
        writer.write({})
    with pytest.raises(SchemaError, match=r"\$\.id: 'x' is not of type 'integer'"):
        writer.write({"id": "x"})
    with pytest.raises(SchemaError, match="it is not JSON"):
        reader.read(framed(7, b"{"))


def test_json_schemas_use_each_other() -> None:
    registry = FakeRegistry()
    registry.by_subject["id"] = RegisteredSchema(1, "JSON", '{"type": "integer"}')
    schema = RegisteredSchema(
        2, "JSON", '{"properties": {"id": {"$ref": "id.json"}}}', (Reference("id.json", "id", 1),)
    )
    _, writer = codecs(schema, registry)
    writer.write({"id": 1})
    with pytest.raises(SchemaError, match="'x' is not of type"):
        writer.write({"id": "x"})


# --- Protobuf


def order_file() -> FileDescriptorProto:
    file = FileDescriptorProto(
        name="order.proto", package="shop", syntax="proto3",
        dependency=["google/protobuf/timestamp.proto", "money.proto"],
    )  # fmt: skip
    order = file.message_type.add(name="Order")
    order.field.add(name="order_id", number=1, type=3, label=1)
    order.field.add(name="at", number=2, type=11, label=1, type_name=".google.protobuf.Timestamp")
    order.field.add(name="price", number=3, type=11, label=1, type_name=".shop.Money")
    item = order.nested_type.add(name="Item")
    item.field.add(name="sku", number=1, type=9, label=1)
    return file


def protobuf(**options: Any) -> tuple[SchemaReader, SchemaWriter]:
    money = FileDescriptorProto(name="money.proto", package="shop", syntax="proto3")
    money.message_type.add(name="Money").field.add(name="cents", number=1, type=5, label=1)
    registry = FakeRegistry()
    registry.by_subject["money"] = RegisteredSchema(1, "PROTOBUF", b64encode(money.SerializeToString()).decode())
    schema = RegisteredSchema(
        7, "PROTOBUF", b64encode(order_file().SerializeToString()).decode(), (Reference("money.proto", "money", 1),)
    )
    return codecs(schema, registry, **options)


def test_a_protobuf_message_is_json_with_the_names_of_its_fields() -> None:
    reader, writer = protobuf()
    value = {"order_id": "5", "at": "2026-01-01T00:00:00Z", "price": {"cents": 7}}
    data = writer.write(value)
    assert data[:6] == b"\0\0\0\0\7\0"
    assert reader.read(data) == value
    assert reader.read(writer.write({"orderId": 5})) == {"order_id": "5"}


def test_another_message_is_chosen_by_its_name() -> None:
    reader, writer = protobuf(message="Item")
    data = writer.write({"sku": "a"})
    assert data[5:8] == b"\4\0\0"
    assert reader.read(data) == {"sku": "a"}
    with pytest.raises(SchemaError, match=r"no message Itme; its messages are shop\.Order, shop\.Order\.Item"):
        protobuf(message="Itme")


def test_what_is_not_the_message_is_refused() -> None:
    reader, writer = protobuf()
    with pytest.raises(SchemaError, match=r"does not fit the message shop\.Order"):
        writer.write({"sku": "a"})
    with pytest.raises(SchemaError, match=r"no message with the indexes \[9\]"):
        reader.read(framed(7, b"\2\x12"))
    with pytest.raises(SchemaError, match=r"it is not a message shop\.Order"):
        reader.read(framed(7, b"\0\xff\xff"))


def test_a_bad_protobuf_schema_is_explained() -> None:
    with pytest.raises(SchemaError, match="money.proto, which is not one of its references"):
        codecs(RegisteredSchema(7, "PROTOBUF", b64encode(order_file().SerializeToString()).decode()))
    with pytest.raises(SchemaError, match="can't be read"):
        codecs(RegisteredSchema(7, "PROTOBUF", "message Order {}"))


# --- the choice of a schema


def test_a_schema_is_chosen_by_word_id_or_file(tmp_path: Path) -> None:
    registry: Any = FakeRegistry(RegisteredSchema(7, "AVRO", '"string"'))
    file = tmp_path / "order.json"
    file.write_text("{}")
    assert chosen_schema(registry, "orders-value", "7").schema_id == 7
    assert chosen_schema(registry, "orders-value", str(file)).kind == "JSON"
    assert chosen_schema(registry, "orders-value", "latest").text == "{}"
    with pytest.raises(SchemaError, match=r"order\.txt is not latest, the id of a schema, or a file"):
        chosen_schema(registry, "orders-value", "order.txt")
    with pytest.raises(SchemaError, match="can't read /nowhere/a.avsc: No such file"):
        chosen_schema(registry, "orders-value", "/nowhere/a.avsc")


def test_a_message_needs_protobuf_and_a_kind_must_be_known() -> None:
    with pytest.raises(SchemaError, match="only a Protobuf schema has messages, but schema 7 is AVRO"):
        codecs(RegisteredSchema(7, "AVRO", '"string"'), message="Order")
    with pytest.raises(SchemaError, match="schema 7 has the type THRIFT"):
        codecs(RegisteredSchema(7, "THRIFT", ""))


def test_a_line_that_is_not_json_is_refused() -> None:
    with pytest.raises(SchemaError, match="it is not JSON") as error:
        avro("string")[1].write_text(b"abc")
    assert error.value.advice == "a line with a schema is a value in JSON"
