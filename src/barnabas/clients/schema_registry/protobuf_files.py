"""Protobuf schemas as a registry returns them compiled: files in the order in which each has what it uses."""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from importlib import import_module

from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import Default
from google.protobuf.message import DecodeError

from barnabas.clients.schema_registry.errors import SchemaError

__all__ = ["message_at", "protobuf_files"]

_MAIN = "schema.proto"


def protobuf_files(serialized: str, references: Mapping[str, str]) -> list[FileDescriptorProto]:
    """Return the files that a schema uses, and itself as the last one.

    ``serialized`` is a FileDescriptorProto in base64, ``references`` those of other files by their names. Files of
    Google's own types are in the library. Raise SchemaError.
    """
    try:
        files = {name: FileDescriptorProto.FromString(b64decode(text)) for name, text in references.items()}
        main = FileDescriptorProto.FromString(b64decode(serialized))
    except (DecodeError, ValueError, TypeError) as error:
        raise SchemaError(
            f"the Protobuf schema can't be read: {error}", "the registry must return it compiled (format=serialized)"
        ) from error
    for name, file in files.items():
        file.name = name
    main.name = main.name or _MAIN
    ordered: list[FileDescriptorProto] = []
    _add(main, files, ordered, set())
    return ordered


def _add(
    file: FileDescriptorProto,
    files: Mapping[str, FileDescriptorProto],
    ordered: list[FileDescriptorProto],
    seen: set[str],
) -> None:
    """Add a file after those that it uses."""
    for name in file.dependency:
        if name in seen:
            continue
        seen.add(name)
        if name in files:
            _add(files[name], files, ordered, seen)
        elif name.startswith("google/protobuf/"):
            _add(_own_file(name), files, ordered, seen)
        else:
            raise SchemaError(f"the Protobuf schema uses {name}, which is not one of its references")
    ordered.append(file)


def _own_file(name: str) -> FileDescriptorProto:
    word = name.removeprefix("google/protobuf/").removesuffix(".proto")
    found = FileDescriptorProto()
    try:
        import_module(f"google.protobuf.{word}_pb2")
        Default().FindFileByName(name).CopyToProto(found)
    except (ImportError, KeyError) as error:
        raise SchemaError(f"the Protobuf schema uses {name}, which the library does not have") from error
    return found


def message_at(file: FileDescriptorProto, indexes: Sequence[int]) -> str:
    """Return the full name of a message by its indexes in a file. Raise SchemaError."""
    names = [file.package] if file.package else []
    messages: Sequence[DescriptorProto] = file.message_type
    for index in indexes:
        if not 0 <= index < len(messages):
            raise SchemaError(f"the schema has no message with the indexes {list(indexes)}")
        names.append(messages[index].name)
        messages = messages[index].nested_type
    return ".".join(names)
