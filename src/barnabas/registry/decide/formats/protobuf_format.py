"""Protobuf: Google's compiler reads a file, and ``protobuf_compatibility`` compares the compiled files.

A schema is the text of a ``.proto`` file, or the compiled file in base64, as Confluent's Python client sends it. The
stored text is printed from the compiled file, so that both forms have one id; comments are lost. A file that the
printer can't print completely (custom options, groups) is stored as it came.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Mapping, Sequence
from typing import Protocol

from google.protobuf.descriptor_pb2 import FileDescriptorProto, FileDescriptorSet
from google.protobuf.message import DecodeError

from barnabas.registry.decide.formats.parsed_schema import ReferencedText, UnreadableSchema
from barnabas.registry.decide.formats.protobuf_compatibility import problems
from barnabas.registry.decide.formats.protobuf_text import Unprintable, proto_text

__all__ = ["MAIN_FILE", "CompileProtobuf", "ParsedProtobuf", "ProtobufFormat"]

MAIN_FILE = "default"
"""The name of the schema's own file, as in Confluent's registry."""
_BASE64 = re.compile(r"[A-Za-z0-9+/\s]+=*\s*")
_FILE_NAME = re.compile(r"[\w.-]+(/[\w.-]+)*")


class CompileProtobuf(Protocol):
    def __call__(self, files: Mapping[str, str]) -> bytes:
        """Compile ``MAIN_FILE`` and what it imports to a FileDescriptorSet. Raise UnreadableSchema."""


class ParsedProtobuf:
    """``files`` are the compiled files by name, with those of Google that the schema imports."""

    def __init__(self, files: Mapping[str, FileDescriptorProto], canonical: str) -> None:
        self.canonical = canonical
        self.files = files

    @property
    def file(self) -> FileDescriptorProto:
        return self.files[MAIN_FILE]

    @property
    def serialized(self) -> str:
        """The compiled file in base64."""
        return base64.b64encode(self.file.SerializeToString(deterministic=True)).decode()

    def problems_reading(self, writer: ParsedProtobuf) -> list[str]:
        return problems((writer.file, writer.files), (self.file, self.files))


class ProtobufFormat:
    """A Format."""

    def __init__(self, compile_files: CompileProtobuf) -> None:
        self._compile = compile_files

    def parse(self, text: str, references: Sequence[ReferencedText], *, normalize: bool = False) -> ParsedProtobuf:
        others = {_file_name(reference.name): _as_text(reference.text) for reference in references}
        given = _as_text(text)
        files = self._compiled({**others, MAIN_FILE: given})
        printed = self._printed(files[MAIN_FILE], others)
        return ParsedProtobuf(files, printed if printed is not None else text.strip())

    def _printed(self, compiled: FileDescriptorProto, others: Mapping[str, str]) -> str | None:
        """Return the printed file, if it means the same."""
        try:
            printed = proto_text(compiled)
            again = self._compiled({**others, MAIN_FILE: printed})[MAIN_FILE]
        except (Unprintable, UnreadableSchema):
            return None
        return printed if again == compiled else None

    def _compiled(self, files: Mapping[str, str]) -> dict[str, FileDescriptorProto]:
        compiled = FileDescriptorSet.FromString(self._compile(files))
        return {file.name: file for file in compiled.file}


def _as_text(text: str) -> str:
    """Return the file as text, also if it came compiled."""
    if not _BASE64.fullmatch(text):
        return text
    try:
        compiled = FileDescriptorProto.FromString(base64.b64decode(text, validate=False))
        return proto_text(compiled)
    except (binascii.Error, DecodeError, Unprintable) as error:
        raise UnreadableSchema(f"it is neither a .proto file nor a compiled one in base64: {error}") from None


def _file_name(name: str) -> str:
    if not _FILE_NAME.fullmatch(name) or ".." in name.split("/") or name == MAIN_FILE:
        raise UnreadableSchema(f"the reference {name!r} is not the name of a file as in an import")
    return name
