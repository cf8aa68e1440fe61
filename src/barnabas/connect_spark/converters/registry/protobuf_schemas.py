"""Protobuf files for Connect's schemas: one message for each struct, with the field names of the data.

A field that may be null is ``optional``, so that null and the type's default differ.
"""

from __future__ import annotations

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

from barnabas.connect_spark.converters.connect_schema import TIMESTAMP, ConnectSchema, DataException, SchemaType

__all__ = ["protobuf_of"]

_DEFAULT_NAME = "ConnectDefault1"
_TIMESTAMP_FILE = "google/protobuf/timestamp.proto"
_TYPES = {
    SchemaType.INT8: FieldDescriptorProto.TYPE_INT32,
    SchemaType.INT16: FieldDescriptorProto.TYPE_INT32,
    SchemaType.INT32: FieldDescriptorProto.TYPE_INT32,
    SchemaType.INT64: FieldDescriptorProto.TYPE_INT64,
    SchemaType.FLOAT32: FieldDescriptorProto.TYPE_FLOAT,
    SchemaType.FLOAT64: FieldDescriptorProto.TYPE_DOUBLE,
    SchemaType.BOOLEAN: FieldDescriptorProto.TYPE_BOOL,
    SchemaType.STRING: FieldDescriptorProto.TYPE_STRING,
    SchemaType.BYTES: FieldDescriptorProto.TYPE_BYTES,
}
_KEYS = (SchemaType.INT8, SchemaType.INT16, SchemaType.INT32, SchemaType.INT64, SchemaType.BOOLEAN, SchemaType.STRING)


def protobuf_of(schema: ConnectSchema) -> FileDescriptorProto:
    """Return the file; its first message is that of the data. Raise DataException for types that Protobuf lacks."""
    if schema.type is not SchemaType.STRUCT:
        raise DataException(f"a Protobuf message is written from a struct, and this is {schema.type}")
    package, _, name = (schema.name or _DEFAULT_NAME).rpartition(".")
    file = FileDescriptorProto(name=f"{name}.proto", package=package, syntax="proto3")
    _fill(file.message_type.add(name=name), schema, f".{package}.{name}" if package else f".{name}", file)
    return file


def _fill(message: DescriptorProto, schema: ConnectSchema, path: str, file: FileDescriptorProto) -> None:
    for number, named in enumerate(schema.fields, 1):
        if not named.name.isidentifier() or not named.name.isascii():
            raise DataException(
                f"Protobuf has no field {named.name!r} (names have letters, digits and _): rename it with ReplaceField"
            )
        field = message.field.add(name=named.name, number=number, label=FieldDescriptorProto.LABEL_OPTIONAL)
        found = named.schema
        if found.type is SchemaType.ARRAY:
            field.label = FieldDescriptorProto.LABEL_REPEATED
            _set_type(field, found.item, message, path, file)
        elif found.type is SchemaType.MAP:
            field.label = FieldDescriptorProto.LABEL_REPEATED
            _set_map(field, found, message, path, file)
        else:
            _set_type(field, found, message, path, file)
            if found.optional and field.type != FieldDescriptorProto.TYPE_MESSAGE:
                field.proto3_optional = True
                field.oneof_index = len(message.oneof_decl)
                message.oneof_decl.add(name=f"_{named.name}")


def _set_type(
    field: FieldDescriptorProto,
    schema: ConnectSchema,
    message: DescriptorProto,
    path: str,
    file: FileDescriptorProto,
    inner: str | None = None,
) -> None:
    """Set the type of a field. ``inner`` is the name of its message, if it is one; by default that of the field."""
    if schema.logical == TIMESTAMP:
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, ".google.protobuf.Timestamp"
        if _TIMESTAMP_FILE not in file.dependency:
            file.dependency.append(_TIMESTAMP_FILE)
    elif schema.type is SchemaType.STRUCT:
        name = inner or _inner_name(field.name)
        field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f"{path}.{name}"
        _fill(message.nested_type.add(name=name), schema, f"{path}.{name}", file)
    elif schema.logical is not None or schema.type not in _TYPES:
        kind = schema.logical or f"{schema.type} inside another array or map"
        raise DataException(f"the field {field.name} is {kind}, for which Protobuf has no type: cast it first")
    else:
        field.type = _TYPES[schema.type]


def _set_map(
    field: FieldDescriptorProto, schema: ConnectSchema, message: DescriptorProto, path: str, file: FileDescriptorProto
) -> None:
    if schema.key.type not in _KEYS or schema.key.logical is not None:
        raise DataException(f"the map {field.name} has keys of {schema.key.type}, which Protobuf's maps don't take")
    name = f"{_inner_name(field.name)}Entry"
    field.type, field.type_name = FieldDescriptorProto.TYPE_MESSAGE, f"{path}.{name}"
    entry = message.nested_type.add(name=name)
    entry.options.map_entry = True
    key = entry.field.add(name="key", number=1, label=FieldDescriptorProto.LABEL_OPTIONAL)
    value = entry.field.add(name="value", number=2, label=FieldDescriptorProto.LABEL_OPTIONAL)
    _set_type(key, schema.key, entry, f"{path}.{name}", file)
    # A map's entry has no messages of its own: they are beside it.
    _set_type(value, schema.item, message, path, file, f"{_inner_name(field.name)}Value")


def _inner_name(field: str) -> str:
    """Return the name of a field's message, as protoc names the entries of a map."""
    return "".join(part[:1].upper() + part[1:] for part in field.split("_"))
