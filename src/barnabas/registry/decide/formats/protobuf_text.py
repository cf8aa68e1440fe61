"""Print a compiled Protobuf file as a ``.proto`` file.

Custom options and groups can't be printed. The caller compiles the text again and compares, so a part that is missing
here never changes a schema.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from google.protobuf import text_encoding
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    ServiceDescriptorProto,
)

__all__ = ["Unprintable", "proto_text"]

_TYPES = {
    getattr(FieldDescriptorProto, f"TYPE_{name.upper()}"): name
    for name in (
        *("double", "float", "int64", "uint64", "int32", "fixed64", "fixed32", "bool", "string", "bytes"),
        *("uint32", "sfixed32", "sfixed64", "sint32", "sint64"),
    )
}
_LABELS = {
    FieldDescriptorProto.LABEL_REQUIRED: "required ",
    FieldDescriptorProto.LABEL_REPEATED: "repeated ",
    FieldDescriptorProto.LABEL_OPTIONAL: "optional ",
}
_FIELD_NUMBER_END = 536870912
_ENUM_NUMBER_MAX = 2147483647


class Unprintable(ValueError):
    """The file has a part that has no printed form here."""


def proto_text(file: FileDescriptorProto) -> str:
    """Return the text. Raise Unprintable."""
    return "\n".join(_Printer(file).lines()) + "\n"


class _Printer:
    def __init__(self, file: FileDescriptorProto) -> None:
        self._file = file
        self._syntax = file.syntax or "proto2"

    def lines(self) -> Iterator[str]:
        file = self._file
        if self._syntax not in ("proto2", "proto3"):
            raise Unprintable(f"the syntax {self._syntax}")
        yield f'syntax = "{self._syntax}";'
        if file.package:
            yield f"package {file.package};"
        yield from self._imports()
        yield from (f"option {option};" for option in _options(file))
        for message in file.message_type:
            yield from ("", *self._message(message, f".{file.package}" if file.package else "", ""))
        for enum in file.enum_type:
            yield from ("", *_enum(enum, ""))
        yield from self._extensions(file.extension, "")
        for service in file.service:
            yield from ("", *_service(service))

    def _imports(self) -> Iterator[str]:
        for place, name in enumerate(self._file.dependency):
            word = "public " if place in self._file.public_dependency else ""
            if place in self._file.weak_dependency:
                word = "weak "
            yield f'import {word}"{name}";'

    def _message(self, message: DescriptorProto, scope: str, indent: str) -> Iterator[str]:
        inner, name = f"{indent}  ", f"{scope}.{message.name}"
        maps = {f"{name}.{nested.name}": nested for nested in message.nested_type if nested.options.map_entry}
        yield f"{indent}message {message.name} {{"
        yield from (f"{inner}option {option};" for option in _options(message))
        yield from _reserved(message, inner)
        yield from self._fields(message, maps, inner)
        for nested in message.nested_type:
            if not nested.options.map_entry:
                yield from self._message(nested, name, inner)
        for enum in message.enum_type:
            yield from _enum(enum, inner)
        yield from self._extensions(message.extension, inner)
        yield f"{indent}}}"

    def _fields(self, message: DescriptorProto, maps: dict[str, DescriptorProto], indent: str) -> Iterator[str]:
        printed: set[int] = set()
        for field in message.field:
            if not field.HasField("oneof_index") or field.proto3_optional:
                yield indent + self._field(field, maps)
            elif field.oneof_index not in printed:
                printed.add(field.oneof_index)
                oneof = message.oneof_decl[field.oneof_index]
                yield f"{indent}oneof {oneof.name} {{"
                yield from (f"{indent}  option {option};" for option in _options(oneof))
                for member in message.field:
                    is_member = member.HasField("oneof_index") and member.oneof_index == field.oneof_index
                    if is_member:
                        yield f"{indent}  {self._field(member, maps)}"
                yield f"{indent}}}"

    def _field(self, field: FieldDescriptorProto, maps: dict[str, DescriptorProto]) -> str:
        kind, label = _type_of(field), self._label(field)
        entry = maps.get(field.type_name)
        if entry is not None:
            key, value = entry.field
            kind, label = f"map<{_type_of(key)}, {_type_of(value)}>", ""
        options = [*_own_options(field), *_options(field)]
        return f"{label}{kind} {field.name} = {field.number}{_bracketed(options)};"

    def _label(self, field: FieldDescriptorProto) -> str:
        if field.HasField("oneof_index") and not field.proto3_optional:
            return ""
        is_plain = field.label == FieldDescriptorProto.LABEL_OPTIONAL and self._syntax == "proto3"
        return "" if is_plain and not field.proto3_optional else _LABELS[field.label]

    def _extensions(self, fields: Sequence[FieldDescriptorProto], indent: str) -> Iterator[str]:
        for field in fields:
            yield f"{indent}extend {field.extendee} {{"
            yield f"{indent}  {self._field(field, {})}"
            yield f"{indent}}}"


def _type_of(field: FieldDescriptorProto) -> str:
    if field.type == FieldDescriptorProto.TYPE_GROUP:
        raise Unprintable(f"the group {field.name}")
    return _TYPES.get(field.type) or field.type_name


def _own_options(field: FieldDescriptorProto) -> Iterator[str]:
    """The options that are parts of the field itself."""
    if field.HasField("default_value"):
        yield f"default = {_default(field)}"
    if field.json_name and field.json_name != _json_name(field.name):
        yield f"json_name = {_quoted(field.json_name)}"


def _default(field: FieldDescriptorProto) -> str:
    if field.type == FieldDescriptorProto.TYPE_STRING:
        return _quoted(field.default_value)
    if field.type == FieldDescriptorProto.TYPE_BYTES:
        return f'"{field.default_value}"'  # It is escaped already.
    return str(field.default_value)


def _json_name(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in rest)


def _reserved(message: DescriptorProto | EnumDescriptorProto, indent: str) -> Iterator[str]:
    is_message = isinstance(message, DescriptorProto)
    last = _FIELD_NUMBER_END - 1 if is_message else _ENUM_NUMBER_MAX
    for numbers in message.reserved_range:
        yield f"{indent}reserved {_range(numbers.start, numbers.end - is_message, last)};"
    if message.reserved_name:
        yield f"{indent}reserved {', '.join(map(_quoted, message.reserved_name))};"
    if isinstance(message, DescriptorProto):
        for span in message.extension_range:
            if span.HasField("options"):
                raise Unprintable("the options of extensions")
            yield f"{indent}extensions {_range(span.start, span.end - 1, last)};"


def _range(first: int, last: int, end: int) -> str:
    if first == last:
        return str(first)
    return f"{first} to {'max' if last == end else last}"


def _enum(enum: EnumDescriptorProto, indent: str) -> Iterator[str]:
    yield f"{indent}enum {enum.name} {{"
    yield from (f"{indent}  option {option};" for option in _options(enum))
    yield from _reserved(enum, f"{indent}  ")
    for value in enum.value:
        options = _options(value)
        yield f"{indent}  {value.name} = {value.number}{_bracketed(options)};"
    yield f"{indent}}}"


def _service(service: ServiceDescriptorProto) -> Iterator[str]:
    yield f"service {service.name} {{"
    yield from (f"  option {option};" for option in _options(service))
    for method in service.method:
        asked = f"{'stream ' if method.client_streaming else ''}{method.input_type}"
        answer = f"{'stream ' if method.server_streaming else ''}{method.output_type}"
        options = [f"    option {option};" for option in _options(method)]
        if options:
            yield from (f"  rpc {method.name} ({asked}) returns ({answer}) {{", *options, "  }")
        else:
            yield f"  rpc {method.name} ({asked}) returns ({answer});"
    yield "}"


def _options(part: Any) -> Iterator[str]:
    """The options of a part, except those that the compiler adds."""
    if not part.HasField("options"):
        return
    for field, value in part.options.ListFields():
        if field.name == "map_entry":
            continue
        for single in value if field.is_repeated else (value,):
            yield f"{field.name} = {_option_value(field, single)}"


def _option_value(field: Any, value: Any) -> str:
    if field.type == FieldDescriptor.TYPE_ENUM:
        return str(field.enum_type.values_by_number[value].name)
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        raise Unprintable(f"the option {field.name}")
    if isinstance(value, bool):
        return "true" if value else "false"
    return _quoted(value) if isinstance(value, str) else str(value)


def _bracketed(options: Iterable[str]) -> str:
    listed = ", ".join(options)
    return f" [{listed}]" if listed else ""


def _quoted(text: str) -> str:
    return f'"{text_encoding.CEscape(text, as_utf8=True)}"'
