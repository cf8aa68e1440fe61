"""Protobuf, with the library ``protobuf``: messages are JSON as its specification maps them, with the names of fields.

A registry returns a compiled file, so no compiler is needed. Files of Google's own types are in the library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf import json_format
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from barnabas.clients.schema_registry.errors import SchemaError
from barnabas.clients.schema_registry.protobuf_files import protobuf_files
from barnabas.clients.schema_registry.wire_format import read_indexes, write_indexes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from google.protobuf.descriptor import Descriptor, FileDescriptor

__all__ = ["ProtobufCodec"]


class ProtobufCodec:
    def __init__(self, serialized: str, references: Mapping[str, str], *, message: str = "") -> None:
        """``serialized`` is a FileDescriptorProto in base64, ``references`` those of other files by their names.

        ``message`` is written, by default the first one of the file. Raise SchemaError.
        """
        self._file = _file_of(serialized, references)
        self._indexes = self._indexes_of(message) if message else [0]
        self._message_at(self._indexes)

    def read(self, payload: bytes) -> object:
        """Return the message as JSON. Raise SchemaError."""
        indexes, data = read_indexes(payload)
        descriptor = self._message_at(indexes)
        parsed = GetMessageClass(descriptor)()
        try:
            parsed.ParseFromString(data)
        except DecodeError as error:
            raise SchemaError(f"it is not a message {descriptor.full_name}: {error}") from error
        return json_format.MessageToDict(
            parsed, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
        )

    def write(self, value: object) -> bytes:
        """Return the indexes and the bytes of a message from JSON. Raise SchemaError."""
        descriptor = self._message_at(self._indexes)
        parsed = GetMessageClass(descriptor)()
        try:
            json_format.ParseDict(value, parsed)
        except (json_format.ParseError, TypeError, ValueError, AttributeError) as error:
            raise SchemaError(f"it does not fit the message {descriptor.full_name}: {error}") from error
        return write_indexes(self._indexes) + bytes(parsed.SerializeToString(deterministic=True))

    def _message_at(self, indexes: Sequence[int]) -> Descriptor:
        messages = list(self._file.message_types_by_name.values())
        found: Descriptor | None = None
        for index in indexes:
            if not 0 <= index < len(messages):
                raise SchemaError(f"the schema has no message with the indexes {list(indexes)}")
            found = messages[index]
            messages = list(found.nested_types)
        if found is None:
            raise SchemaError("the schema has no message")
        return found

    def _indexes_of(self, name: str) -> list[int]:
        known: list[str] = []

        def search(messages: Sequence[Descriptor], before: list[int]) -> list[int] | None:
            for index, message in enumerate(messages):
                known.append(message.full_name)
                if name in (message.full_name, message.name):
                    return [*before, index]
                found = search(list(message.nested_types), [*before, index])
                if found is not None:
                    return found
            return None

        found = search(list(self._file.message_types_by_name.values()), [])
        if found is None:
            raise SchemaError(f"the schema has no message {name}; its messages are {', '.join(known)}")
        return found


def _file_of(serialized: str, references: Mapping[str, str]) -> FileDescriptor:
    pool = DescriptorPool()
    files = protobuf_files(serialized, references)
    try:
        for file in files:
            pool.Add(file)
        return pool.FindFileByName(files[-1].name)
    except (ValueError, TypeError, KeyError) as error:
        raise SchemaError(f"the Protobuf schema can't be read: {error}") from error
