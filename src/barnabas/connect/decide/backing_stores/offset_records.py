"""The records of an offset topic: the position of a source connector in each of its partitions.

The key is ``["<connector>",{partition}]``. Two keys are of the same partition if their JSON is equal in any order of
names. But Kafka compares bytes, so they are different records. See ``offset_state`` for the consequences.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, TypeAlias

from barnabas.connect.decide.backing_stores.config_records import InvalidRecord
from barnabas.connect.decide.backing_stores.internal_json import (
    JsonValue,
    MalformedJson,
    dump_json,
    kind_of,
    parse_json,
)

__all__ = [
    "InvalidOffset",
    "OffsetKey",
    "OffsetRecord",
    "SourceOffset",
    "SourcePartition",
    "canonical_partition",
    "offset_key",
    "offset_record",
    "parse_offset",
    "parse_offset_key",
    "validate_offset",
]

SourcePartition: TypeAlias = Mapping[str, JsonValue] | None
"""None for a connector that has just one partition."""
SourceOffset: TypeAlias = Mapping[str, JsonValue]


class InvalidOffset(ValueError):
    """Connect can't store this partition or offset. The text is for the caller who passed it."""


class OffsetKey(NamedTuple):
    connector: str
    partition: SourcePartition


class OffsetRecord(NamedTuple):
    key: bytes
    value: bytes | None


def offset_key(connector: str, partition: SourcePartition) -> bytes:
    """Return the key, with names in the order of the partition."""
    return dump_json([connector, None if partition is None else dict(partition)])


def offset_record(connector: str, partition: SourcePartition, offset: SourceOffset | None) -> OffsetRecord:
    """Return the record. None deletes the offset. Raise InvalidOffset."""
    validate_offset(partition, "partition")
    validate_offset(offset, "offset")
    return OffsetRecord(offset_key(connector, partition), None if offset is None else dump_json(dict(offset)))


def validate_offset(fields: Mapping[str, JsonValue] | None, what: str) -> None:
    """Accept only strings, numbers, booleans and null, under names. Raise InvalidOffset."""
    if fields is None:
        return
    if not isinstance(fields, Mapping):
        raise InvalidOffset(f"the {what} must be an object, not {kind_of(fields)}")
    for name, value in fields.items():
        if not isinstance(name, str):
            raise InvalidOffset(f"the {what} has {name!r} as a name, where only strings are allowed")
        if not isinstance(value, bool | int | float | str | None):
            raise InvalidOffset(
                f"{name} in the {what} is {kind_of(value)}: only strings, numbers, booleans and null can be stored"
            )


def canonical_partition(partition: SourcePartition) -> bytes:
    """Return a value that is equal for partitions whose JSON is equal; 1 and 1.0 differ."""
    return dump_json(_sorted(None if partition is None else dict(partition)))


def _sorted(value: JsonValue) -> JsonValue:
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def parse_offset_key(key: bytes | None) -> OffsetKey:
    """Parse the key. Raise InvalidRecord."""
    if key is None:
        raise InvalidRecord("it has no key")
    try:
        parsed = parse_json(key)
    except MalformedJson as error:
        raise InvalidRecord(f"the key is not JSON: {error}") from error
    if not isinstance(parsed, list) or len(parsed) != 2:
        raise InvalidRecord("the key is not an array of a connector and a partition")
    connector, partition = parsed
    if not isinstance(connector, str):
        raise InvalidRecord(f"the connector in the key must be a string, not {kind_of(connector)}")
    if not isinstance(partition, dict | None):
        raise InvalidRecord(f"the partition in the key must be an object, not {kind_of(partition)}")
    return OffsetKey(connector, partition)


def parse_offset(value: bytes | None) -> dict[str, JsonValue] | None:
    """Parse the offset. Raise InvalidRecord."""
    if value is None:
        return None
    try:
        parsed = parse_json(value)
    except MalformedJson as error:
        raise InvalidRecord(f"the offset is not JSON: {error}") from error
    if not isinstance(parsed, dict | None):
        raise InvalidRecord(f"the offset must be an object, not {kind_of(parsed)}")
    return parsed
