from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from google.protobuf import descriptor_pb2, timestamp_pb2, wrappers_pb2
from pyspark.sql import types as t

from barnabas.connect_spark.converters.protobuf_messages import MessageCodec, MessageUnknown

_FIELD = descriptor_pb2.FieldDescriptorProto


def _file() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(name="shop.proto", package="shop", syntax="proto3")
    file.dependency.extend(["google/protobuf/timestamp.proto", "google/protobuf/wrappers.proto"])
    colour = file.enum_type.add(name="Colour")
    colour.value.add(name="NONE", number=0)
    colour.value.add(name="RED", number=1)
    item = file.message_type.add(name="Item")
    item.field.add(name="sku", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    order = file.message_type.add(name="Order")
    entry = order.nested_type.add(name="CountsEntry")
    entry.options.map_entry = True
    entry.field.add(name="key", number=1, type=_FIELD.TYPE_STRING, label=_FIELD.LABEL_OPTIONAL)
    entry.field.add(name="value", number=2, type=_FIELD.TYPE_INT32, label=_FIELD.LABEL_OPTIONAL)
    for number, (name, kind, label, owner) in enumerate(
        [
            ("id", _FIELD.TYPE_INT64, _FIELD.LABEL_OPTIONAL, ""),
            ("big", _FIELD.TYPE_UINT64, _FIELD.LABEL_OPTIONAL, ""),
            ("colour", _FIELD.TYPE_ENUM, _FIELD.LABEL_OPTIONAL, ".shop.Colour"),
            ("items", _FIELD.TYPE_MESSAGE, _FIELD.LABEL_REPEATED, ".shop.Item"),
            ("counts", _FIELD.TYPE_MESSAGE, _FIELD.LABEL_REPEATED, ".shop.Order.CountsEntry"),
            ("at", _FIELD.TYPE_MESSAGE, _FIELD.LABEL_OPTIONAL, ".google.protobuf.Timestamp"),
            ("note", _FIELD.TYPE_MESSAGE, _FIELD.LABEL_OPTIONAL, ".google.protobuf.StringValue"),
            ("raw", _FIELD.TYPE_BYTES, _FIELD.LABEL_OPTIONAL, ""),
        ],
        start=1,
    ):
        field = order.field.add(name=name, number=number, type=kind, label=label)
        if owner:
            field.type_name = owner
    loop = file.message_type.add(name="Loop")
    loop.field.add(name="next", number=1, type=_FIELD.TYPE_MESSAGE, label=_FIELD.LABEL_OPTIONAL, type_name=".shop.Loop")
    return file


def descriptors() -> bytes:
    files = descriptor_pb2.FileDescriptorSet()
    for module in (timestamp_pb2, wrappers_pb2):
        module.DESCRIPTOR.CopyToProto(files.file.add())
    files.file.append(_file())
    return bytes(files.SerializeToString())


ORDER = {
    "id": -5,
    "big": Decimal(2**64 - 1),
    "colour": "RED",
    "items": [{"sku": "a"}, {"sku": ""}],
    "counts": {"x": 1},
    "at": datetime(2020, 1, 1, 0, 0, 0, 123000, tzinfo=UTC),
    "note": "n",
    "raw": b"\x00\xff",
}


def test_a_message_survives_writing_and_reading() -> None:
    codec = MessageCodec(descriptors(), "shop.Order")
    assert codec.decode(codec.encode(ORDER)) == ORDER


def test_an_absent_field_is_null_if_it_has_presence_and_its_default_otherwise() -> None:
    codec = MessageCodec(descriptors(), "shop.Order")
    read = codec.decode(b"")
    assert (read["id"], read["note"], read["at"], read["items"], read["counts"]) == (0, None, None, [], {})


def test_every_kind_of_field_has_its_spark_type() -> None:
    kinds = {field.name: field.dataType for field in MessageCodec(descriptors(), "shop.Order").spark_type.fields}
    assert kinds["id"] == t.LongType()
    assert kinds["big"] == t.DecimalType(20, 0)
    assert kinds["colour"] == kinds["note"] == t.StringType()
    assert kinds["counts"] == t.MapType(t.StringType(), t.IntegerType())
    assert kinds["at"] == t.TimestampType()


def test_bytes_that_are_not_a_message_are_refused() -> None:
    with pytest.raises(ValueError):
        MessageCodec(descriptors(), "shop.Order").decode(b"\xff\xff")


def test_an_unknown_enum_value_is_reported_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="it can be NONE, RED"):
        MessageCodec(descriptors(), "shop.Order").encode({"colour": "BLUE"})


def test_a_message_that_contains_itself_is_refused() -> None:
    with pytest.raises(ValueError, match="contains itself"):
        MessageCodec(descriptors(), "shop.Loop")


def test_an_unknown_message_is_reported_with_the_known_ones() -> None:
    with pytest.raises(MessageUnknown, match=r"shop\.Order"):
        MessageCodec(descriptors(), "shop.Ordre")


def test_an_invalid_descriptor_set_is_reported() -> None:
    with pytest.raises(ValueError, match="not a descriptor set"):
        MessageCodec(b"\xff\xff\xff", "shop.Order")
