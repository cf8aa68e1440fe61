"""Records of the schemas topic, in the JSON of Confluent's registry.

The bytes of a key matter, because the topic is compacted by them: keys have Confluent's fields in its order. Values may
have fields that this registry does not know; they survive, because only the leader's own changes are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import msgspec

from barnabas.registry.decide.errors import RegistryError
from barnabas.registry.decide.schema import Schema, read_schema

__all__ = [
    "ClearSubject",
    "ConfigChange",
    "DeleteSubject",
    "MalformedRecord",
    "ModeChange",
    "Noop",
    "SchemaChange",
    "StateChange",
    "StoredVersion",
    "TopicRecord",
    "config_record",
    "delete_subject_record",
    "mode_record",
    "noop_record",
    "parse_record",
    "schema_record",
]


class TopicRecord(NamedTuple):
    """A record to write. A value of None is a tombstone."""

    key: bytes
    value: bytes | None


class MalformedRecord(ValueError):
    """A record that no registry has written, or a kind that this one does not know."""


@dataclass(frozen=True, slots=True)
class StoredVersion:
    """A version of a subject. A deleted one is still readable by id, until it is deleted permanently."""

    subject: str
    version: int
    schema_id: int
    schema: Schema
    is_deleted: bool = False

    def as_json(self) -> dict[str, Any]:
        return {"subject": self.subject, "version": self.version, "id": self.schema_id, **self.schema.as_json()}


class SchemaChange(NamedTuple):
    subject: str
    version: int
    stored: StoredVersion | None


class DeleteSubject(NamedTuple):
    """All versions up to this one are deleted, but not permanently. None: the record itself is deleted."""

    subject: str
    version: int | None


class ClearSubject(NamedTuple):
    """All versions of the subject are deleted permanently."""

    subject: str


class ConfigChange(NamedTuple):
    """``subject`` is None for the global settings; ``values`` is None if they were deleted."""

    subject: str | None
    values: Mapping[str, Any] | None


class ModeChange(NamedTuple):
    subject: str | None
    mode: str | None


class Noop(NamedTuple):
    """Written by a new leader, to read the topic to its end."""


StateChange: TypeAlias = SchemaChange | DeleteSubject | ClearSubject | ConfigChange | ModeChange | Noop


def schema_record(subject: str, version: int, stored: StoredVersion | None) -> TopicRecord:
    key = _encode({"keytype": "SCHEMA", "subject": subject, "version": version, "magic": 1})
    if stored is None:
        return TopicRecord(key, None)
    return TopicRecord(key, _encode({**stored.as_json(), "deleted": stored.is_deleted}))


def delete_subject_record(subject: str, version: int | None) -> TopicRecord:
    key = _encode({"keytype": "DELETE_SUBJECT", "subject": subject, "magic": 0})
    return TopicRecord(key, None if version is None else _encode({"subject": subject, "version": version}))


def config_record(subject: str | None, values: Mapping[str, Any] | None) -> TopicRecord:
    key = _encode({"keytype": "CONFIG", "subject": subject, "magic": 0})
    return TopicRecord(key, None if values is None else _encode(values))


def mode_record(subject: str | None, mode: str | None) -> TopicRecord:
    key = _encode({"keytype": "MODE", "subject": subject, "magic": 0})
    return TopicRecord(key, None if mode is None else _encode({"mode": mode}))


def noop_record() -> TopicRecord:
    return TopicRecord(_encode({"keytype": "NOOP", "magic": 0}), None)


def parse_record(key: bytes | None, value: bytes | None) -> StateChange:
    """Read a record. Raise MalformedRecord."""
    fields = _object(key or b"")
    try:
        return _READERS[fields["keytype"]](fields, None if value is None else _object(value))
    except KeyError as error:
        raise MalformedRecord(f"the key {fields} has no known keytype, or lacks {error}") from None
    except (TypeError, ValueError, RegistryError) as error:
        raise MalformedRecord(f"the record with the key {fields} can't be read: {error}") from None


def _schema_change(key: Mapping[str, Any], value: Mapping[str, Any] | None) -> SchemaChange:
    subject, version = _text(key["subject"]), _number(key["version"])
    if value is None:
        return SchemaChange(subject, version, None)
    is_deleted = value.get("deleted") is True
    stored = StoredVersion(subject, version, _number(value["id"]), read_schema(value), is_deleted)
    return SchemaChange(subject, version, stored)


def _delete_subject(key: Mapping[str, Any], value: Mapping[str, Any] | None) -> DeleteSubject:
    return DeleteSubject(_text(key["subject"]), None if value is None else _number(value["version"]))


def _clear_subject(key: Mapping[str, Any], value: Mapping[str, Any] | None) -> ClearSubject | Noop:
    return Noop() if value is None else ClearSubject(_text(key["subject"]))


def _config_change(key: Mapping[str, Any], value: Mapping[str, Any] | None) -> ConfigChange:
    return ConfigChange(key.get("subject"), value)


def _mode_change(key: Mapping[str, Any], value: Mapping[str, Any] | None) -> ModeChange:
    return ModeChange(key.get("subject"), None if value is None else _text(value["mode"]))


def _noop(key: Mapping[str, Any], value: Mapping[str, Any] | None) -> Noop:
    return Noop()


_READERS: dict[str, Callable[[Mapping[str, Any], Mapping[str, Any] | None], StateChange]] = {
    "SCHEMA": _schema_change,
    "DELETE_SUBJECT": _delete_subject,
    "CLEAR_SUBJECT": _clear_subject,
    "CONFIG": _config_change,
    "MODE": _mode_change,
    "NOOP": _noop,
    "CONTEXT": _noop,  # Contexts exist while they have subjects.
}


def _object(data: bytes) -> dict[str, Any]:
    try:
        found = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise MalformedRecord(f"it is not JSON: {error}") from None
    if not isinstance(found, dict):
        raise MalformedRecord(f"it is not a JSON object: {data[:100]!r}")
    return found


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _number(value: object) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r} is not a whole number")
    return value


def _encode(value: Mapping[str, Any]) -> bytes:
    return msgspec.json.encode(value)
