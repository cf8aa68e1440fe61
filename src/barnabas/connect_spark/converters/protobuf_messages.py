"""Convert Protocol Buffers messages to and from Spark's Python rows, by descriptors that are read at run time.

Spark's worker processes import this module, so it needs little: the ``protobuf`` package and PySpark's types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError, Message
from pyspark.sql import types as t

__all__ = ["MessageCodec", "MessageUnknown"]

_TIMESTAMP = "google.protobuf.Timestamp"
_WRAPPERS = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_LABEL_REPEATED = 3
_UNSIGNED_64 = t.DecimalType(20, 0)
_SCALARS: Mapping[int, t.DataType] = {
    FieldDescriptor.CPPTYPE_INT32: t.IntegerType(),
    FieldDescriptor.CPPTYPE_INT64: t.LongType(),
    FieldDescriptor.CPPTYPE_UINT32: t.LongType(),
    FieldDescriptor.CPPTYPE_UINT64: _UNSIGNED_64,
    FieldDescriptor.CPPTYPE_DOUBLE: t.DoubleType(),
    FieldDescriptor.CPPTYPE_FLOAT: t.FloatType(),
    FieldDescriptor.CPPTYPE_BOOL: t.BooleanType(),
    FieldDescriptor.CPPTYPE_ENUM: t.StringType(),
}


class MessageUnknown(ValueError):
    """The descriptors lack the message."""


class MessageCodec:
    def __init__(self, descriptors: bytes, message: str) -> None:
        """Load the descriptors. Raise MessageUnknown, or ValueError for an invalid set or a type that Spark lacks."""
        files = descriptor_pb2.FileDescriptorSet()
        try:
            files.ParseFromString(descriptors)
        except DecodeError as error:
            raise ValueError(f"it is not a descriptor set: {error}") from None
        pool = descriptor_pool.DescriptorPool()
        try:
            for file in files.file:
                pool.Add(file)
        except (TypeError, ValueError) as error:
            raise ValueError(f"its files don't fit together (write it with --include_imports): {error}") from None
        try:
            self._descriptor = pool.FindMessageTypeByName(message)
        except KeyError:
            known = ", ".join(
                f"{file.package}.{kind.name}".lstrip(".") for file in files.file for kind in file.message_type
            )
            raise MessageUnknown(f"the descriptor file does not have this message; it has {known or 'none'}") from None
        self._class = message_factory.GetMessageClass(self._descriptor)
        self.spark_type = _struct(self._descriptor, ())

    def decode(self, data: bytes) -> dict[str, object]:
        """Decode a message. Raise ValueError."""
        message = self._class()
        try:
            message.ParseFromString(data)
        except DecodeError as error:
            raise ValueError(str(error)) from None
        return _read_message(message)

    def encode(self, row: Mapping[str, Any]) -> bytes:
        """Encode a message. Raise ValueError or TypeError for values that don't fit."""
        message = self._class()
        _write_message(message, row)
        return bytes(message.SerializeToString())


def _is_repeated(field: FieldDescriptor) -> bool:
    # The package had only `label` before 6.31 and has only `is_repeated` from 7 on.
    known = getattr(field, "is_repeated", None)
    return field.label == _LABEL_REPEATED if known is None else bool(known)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


# ---- Types ----------------------------------------------------------------------------------------------------------


def _struct(descriptor: Descriptor, outer: tuple[str, ...]) -> t.StructType:
    if descriptor.full_name in outer:
        raise ValueError(
            f"{descriptor.full_name} contains itself, and a column of Spark has no type for that: "
            "keep it as bytes with ByteArrayConverter"
        )
    inner = (*outer, descriptor.full_name)
    return t.StructType([t.StructField(field.name, _field_type(field, inner)) for field in descriptor.fields])


def _field_type(field: FieldDescriptor, outer: tuple[str, ...]) -> t.DataType:
    if _is_map(field):
        entry = field.message_type.fields_by_name
        return t.MapType(_single_type(entry["key"], outer), _single_type(entry["value"], outer))
    single = _single_type(field, outer)
    return t.ArrayType(single) if _is_repeated(field) else single


def _single_type(field: FieldDescriptor, outer: tuple[str, ...]) -> t.DataType:
    if field.message_type is not None:
        if field.message_type.full_name == _TIMESTAMP:
            return t.TimestampType()
        if field.message_type.full_name in _WRAPPERS:
            return _single_type(field.message_type.fields_by_name["value"], outer)
        return _struct(field.message_type, outer)
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        return t.BinaryType() if field.type == FieldDescriptor.TYPE_BYTES else t.StringType()
    return _SCALARS[field.cpp_type]


# ---- Reading --------------------------------------------------------------------------------------------------------


def _read_message(message: Message) -> dict[str, object]:
    return {field.name: _read_field(message, field) for field in message.DESCRIPTOR.fields}


def _read_field(message: Message, field: FieldDescriptor) -> object:
    if field.has_presence and not message.HasField(field.name):
        return None
    found = getattr(message, field.name)
    if _is_map(field):
        value = field.message_type.fields_by_name["value"]
        return {key: _read_single(value, item) for key, item in found.items()}
    if _is_repeated(field):
        return [_read_single(field, item) for item in found]
    return _read_single(field, found)


def _read_single(field: FieldDescriptor, found: Any) -> Any:
    if field.message_type is not None:
        if field.message_type.full_name == _TIMESTAMP:
            return found.ToDatetime(tzinfo=UTC)
        if field.message_type.full_name in _WRAPPERS:
            return _read_single(field.message_type.fields_by_name["value"], found.value)
        return _read_message(found)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(found)
        return str(found) if named is None else named.name
    return Decimal(found) if field.cpp_type == FieldDescriptor.CPPTYPE_UINT64 else found


# ---- Writing --------------------------------------------------------------------------------------------------------


def _write_message(message: Message, row: Mapping[str, Any]) -> None:
    for field in message.DESCRIPTOR.fields:
        given = row.get(field.name)
        if given is not None:
            _write_field(message, field, given)


def _write_field(message: Message, field: FieldDescriptor, given: Any) -> None:
    target = getattr(message, field.name)
    if _is_map(field):
        value = field.message_type.fields_by_name["value"]
        for key, item in given.items():
            if value.message_type is not None:
                _write_into(target[key], value, item)
            else:
                target[key] = _scalar(value, item)
    elif _is_repeated(field):
        for item in given:
            if field.message_type is not None:
                _write_into(target.add(), field, item)
            else:
                target.append(_scalar(field, item))
    elif field.message_type is not None:
        target.SetInParent()
        _write_into(target, field, given)
    else:
        setattr(message, field.name, _scalar(field, given))


def _write_into(target: Any, field: FieldDescriptor, given: Any) -> None:
    name = field.message_type.full_name
    if name == _TIMESTAMP:
        moment: datetime = given
        # Spark passes local time without a zone.
        target.FromDatetime(moment.astimezone(UTC).replace(tzinfo=None))
    elif name in _WRAPPERS:
        target.value = _scalar(field.message_type.fields_by_name["value"], given)
    else:
        _write_message(target, given)


def _scalar(field: FieldDescriptor, given: Any) -> Any:
    if field.enum_type is not None:
        return _enum(field, given)
    convert = _CONVERT.get(field.cpp_type)
    return given if convert is None else convert(given)


def _enum(field: FieldDescriptor, given: str) -> int:
    named = field.enum_type.values_by_name.get(given)
    if named is not None:
        return int(named.number)
    try:
        return int(given)
    except ValueError:
        known = ", ".join(field.enum_type.values_by_name)
        raise ValueError(f"{field.name} is {given!r}, and it can be {known}") from None


_CONVERT: Mapping[int, Callable[[Any], Any]] = {
    FieldDescriptor.CPPTYPE_UINT32: int,
    FieldDescriptor.CPPTYPE_UINT64: int,
}
