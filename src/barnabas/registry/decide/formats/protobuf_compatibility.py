"""Whether a reader with a Protobuf file understands the data of a writer with another one.

The rules and the names of problems are those of Confluent's registry, which follow Protobuf's own advice on updating
messages. Messages are found by name, fields by number. Adding and removing fields, enums and their values is
compatible. So is a new name for a field, and another type of the same encoding (``int32``, ``int64``, ``uint32``,
``uint64``, ``bool`` and enums; ``sint32`` and ``sint64``; ``string`` and ``bytes``; ``fixed32`` and ``sfixed32``;
``fixed64`` and ``sfixed64``). Beyond Confluent's rules, a number that becomes repeated, or ceases to be, is a problem:
readers lose it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto

__all__ = ["problems"]

Files = tuple[FileDescriptorProto, Mapping[str, FileDescriptorProto]]
"""The file of a schema, and all compiled files by name."""

_ENCODINGS: dict[int, str] = {
    getattr(FieldDescriptorProto, f"TYPE_{name}"): encoding
    for encoding, names in (
        ("number", ("INT32", "INT64", "UINT32", "UINT64", "BOOL", "ENUM")),
        ("signed number", ("SINT32", "SINT64")),
        ("text", ("STRING", "BYTES")),
        ("fixed32", ("FIXED32", "SFIXED32")),
        ("fixed64", ("FIXED64", "SFIXED64")),
        ("float", ("FLOAT",)),
        ("double", ("DOUBLE",)),
    )
    for name in names
}
_MESSAGES = (FieldDescriptorProto.TYPE_MESSAGE, FieldDescriptorProto.TYPE_GROUP)
_MEANINGS = {
    "PACKAGE_CHANGED": "the package has changed",
    "MESSAGE_REMOVED": "the message was removed",
    "FIELD_KIND_CHANGED": "the field has changed between a number or text, a message and a map",
    "FIELD_SCALAR_KIND_CHANGED": "the type of the field has changed to one of another encoding",
    "FIELD_NAMED_TYPE_CHANGED": "the field has another message, or one that is not compatible",
    "FIELD_NUMERIC_LABEL_CHANGED": "the field has changed between a single number and a repeated one",
    "REQUIRED_FIELD_ADDED": "a required field was added",
    "REQUIRED_FIELD_REMOVED": "a required field was removed",
    "ONEOF_FIELD_REMOVED": "the field was removed from its oneof",
    "MULTIPLE_FIELDS_MOVED_TO_ONEOF": "several fields were moved to the oneof",
    "FIELD_MOVED_TO_EXISTING_ONEOF": "a field was moved to a oneof that existed",
}


class _Problem(NamedTuple):
    kind: str
    path: str

    def __str__(self) -> str:
        return (
            f'{{errorType:"{self.kind}", description:"The new schema has this change at path \'{self.path}\': '
            f'{_MEANINGS[self.kind]}"}}'
        )


def problems(writer: Files, reader: Files) -> list[str]:
    """Return what the reader does not understand."""
    return [str(problem) for problem in _Comparison(writer, reader).files()]


class _Comparison:
    def __init__(self, original: Files, update: Files) -> None:
        self._original, self._update = original[0], update[0]
        self._before, self._after = _messages(original[1].values()), _messages(update[1].values())
        self._open: set[tuple[str, str]] = set()

    def files(self) -> Iterator[_Problem]:
        before, after = self._original, self._update
        if before.package != after.package:
            yield _Problem("PACKAGE_CHANGED", "#/")
        yield from self._nested(before.message_type, after.message_type, "#/", _scope(before), _scope(after))

    def _nested(
        self,
        before: Sequence[DescriptorProto],
        after: Sequence[DescriptorProto],
        path: str,
        old_scope: str,
        new_scope: str,
    ) -> Iterator[_Problem]:
        known = {message.name: message for message in after}
        for message in before:
            if message.options.map_entry:
                continue  # It is compared with its field.
            place = f"{path}{message.name}"
            if message.name not in known:
                yield _Problem("MESSAGE_REMOVED", place)
                continue
            names = f"{old_scope}.{message.name}", f"{new_scope}.{message.name}"
            yield from self._message(*names, f"{place}/")
            yield from self._nested(message.nested_type, known[message.name].nested_type, f"{place}/", *names)

    def _message(self, old_name: str, new_name: str, path: str) -> Iterator[_Problem]:
        """Compare the fields of two messages. A pair that is being compared counts as compatible."""
        if (old_name, new_name) in self._open:
            return
        self._open.add((old_name, new_name))
        before, after = self._before[old_name], self._after[new_name]
        yield from _oneof_problems(before, after, path)
        old_fields, new_fields = _by_number(before), _by_number(after)
        for number in sorted({*old_fields, *new_fields}):
            yield from self._field(old_fields.get(number), new_fields.get(number), f"{path}{number}")
        self._open.discard((old_name, new_name))

    def _field(
        self, before: FieldDescriptorProto | None, after: FieldDescriptorProto | None, path: str
    ) -> Iterator[_Problem]:
        required = FieldDescriptorProto.LABEL_REQUIRED
        if before is None or after is None:
            if before is not None and before.label == required:
                yield _Problem("REQUIRED_FIELD_REMOVED", path)
            if after is not None and after.label == required:
                yield _Problem("REQUIRED_FIELD_ADDED", path)
            return
        yield from self._types(before, after, path)

    def _types(self, before: FieldDescriptorProto, after: FieldDescriptorProto, path: str) -> Iterator[_Problem]:
        kinds = self._kind(before, self._before), self._kind(after, self._after)
        if kinds[0] != kinds[1]:
            yield _Problem("FIELD_KIND_CHANGED", path)
        elif kinds[0] == "scalar":
            yield from _scalar_problems(before, after, path)
        elif kinds[0] == "map":
            pairs = zip(self._before[before.type_name].field, self._after[after.type_name].field, strict=True)
            for old_part, new_part in pairs:
                yield from self._types(old_part, new_part, path)
        else:
            yield from self._named_types(before.type_name, after.type_name, path)

    def _named_types(self, old_name: str, new_name: str, path: str) -> Iterator[_Problem]:
        is_renamed = self._before_local(old_name) != self._after_local(new_name)
        found = [] if is_renamed else list(self._message(old_name, new_name, f"{path}/"))
        yield from found
        if is_renamed or found:
            yield _Problem("FIELD_NAMED_TYPE_CHANGED", path)

    def _before_local(self, name: str) -> str:
        return name.removeprefix(f"{_scope(self._original)}.")

    def _after_local(self, name: str) -> str:
        return name.removeprefix(f"{_scope(self._update)}.")

    def _kind(self, field: FieldDescriptorProto, messages: Mapping[str, DescriptorProto]) -> str:
        if field.type not in _MESSAGES:
            return "scalar"
        found = messages.get(field.type_name)
        return "map" if found is not None and found.options.map_entry else "message"


def _scalar_problems(before: FieldDescriptorProto, after: FieldDescriptorProto, path: str) -> Iterator[_Problem]:
    if _ENCODINGS[before.type] != _ENCODINGS[after.type]:
        yield _Problem("FIELD_SCALAR_KIND_CHANGED", path)
        return
    repeated = FieldDescriptorProto.LABEL_REPEATED
    if (before.label == repeated) != (after.label == repeated) and _ENCODINGS[before.type] != "text":
        yield _Problem("FIELD_NUMERIC_LABEL_CHANGED", path)


def _oneof_problems(before: DescriptorProto, after: DescriptorProto, path: str) -> Iterator[_Problem]:
    old_oneofs, new_oneofs = _oneofs(before), _oneofs(after)
    in_old = {number for numbers in old_oneofs.values() for number in numbers}
    single = _by_number(before).keys() - in_old
    for name, numbers in new_oneofs.items():
        moved = len(single & numbers)
        if moved > 1:
            yield _Problem("MULTIPLE_FIELDS_MOVED_TO_ONEOF", f"{path}{name}")
        elif moved and in_old & numbers:
            yield _Problem("FIELD_MOVED_TO_EXISTING_ONEOF", f"{path}{name}")
    for name, numbers in old_oneofs.items():
        for number in sorted(numbers - new_oneofs.get(name, numbers)):
            yield _Problem("ONEOF_FIELD_REMOVED", f"{path}{name}/{number}")


def _oneofs(message: DescriptorProto) -> dict[str, set[int]]:
    """The numbers of each oneof's fields; ``optional`` is not a oneof, although it is compiled to one."""
    found: dict[str, set[int]] = {}
    for field in message.field:
        if field.HasField("oneof_index") and not field.proto3_optional:
            found.setdefault(message.oneof_decl[field.oneof_index].name, set()).add(field.number)
    return found


def _by_number(message: DescriptorProto) -> dict[int, FieldDescriptorProto]:
    return {field.number: field for field in message.field}


def _messages(files: Iterable[FileDescriptorProto]) -> dict[str, DescriptorProto]:
    found: dict[str, DescriptorProto] = {}

    def add(message: DescriptorProto, scope: str) -> None:
        name = f"{scope}.{message.name}"
        found[name] = message
        for nested in message.nested_type:
            add(nested, name)

    for file in files:
        for message in file.message_type:
            add(message, _scope(file))
    return found


def _scope(file: FileDescriptorProto) -> str:
    return f".{file.package}" if file.package else ""
