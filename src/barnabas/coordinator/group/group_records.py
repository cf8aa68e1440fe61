"""The records of ``__consumer_offsets``: between their bytes and what ``replay`` takes.

A record here knows its own bytes, and the bytes of a log become records again with ``decode_record``. What this
version does not act on is named rather than dropped: records of the next-generation, share and streams groups
become a ForeignGroupRecord that keeps its bytes, and a record type from the future becomes an UnknownRecord.
"""

from __future__ import annotations

from struct import Struct
from typing import cast

from barnabas.coordinator.group.group_state import GroupType
from barnabas.coordinator.group.offset_and_metadata import NO_LEADER_EPOCH, OffsetAndMetadata
from barnabas.protocol.errors import BufferUnderflow
from barnabas.protocol.record_serde import CoordinatorKind, decode_coordinator_record, encode_versioned
from barnabas.protocol.records.group_metadata_key import GroupMetadataKey
from barnabas.protocol.records.group_metadata_value import GroupMetadataValue
from barnabas.protocol.records.legacy_offset_commit_value import LegacyOffsetCommitValue
from barnabas.protocol.records.offset_commit_key import OffsetCommitKey
from barnabas.protocol.records.offset_commit_value import OffsetCommitValue
from barnabas.protocol.schema import Message

__all__ = [
    "ForeignGroupRecord",
    "GroupMetadataRecord",
    "OffsetCommitRecord",
    "UnknownRecord",
    "decode_record",
    "offset_key_prefix",
]

_GROUP_METADATA = 2

_FOREIGN_GROUP_TYPES: dict[int, GroupType] = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), GroupType.CONSUMER),
    **dict.fromkeys((10, 11, 12, 13, 14, 15), GroupType.SHARE),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), GroupType.STREAMS),
}
"""Key types that begin with a group id but belong to groups which this coordinator does not run."""

_GROUP_METADATA_VERSION = 3
_OFFSET_VERSION_WITH_EXPIRY = 1  # The only one that can say when the offset expires.
_OFFSET_VERSION = 4

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_OFFSET_VALUE_HEAD = Struct(">hqi")
_INT64 = Struct(">q")
_NO_TAGS = b"\x00"
_TOPIC_ID_TAG = b"\x01\x00\x10"  # One tagged field, number 0, 16 bytes.


def offset_key_prefix(group_id: str, topic: str) -> bytes:
    """Everything of an OffsetCommitKey but the partition: the same for all partitions of a commit."""
    return OffsetCommitKey(group=group_id, topic=topic, partition=0).encode(0)[:-4]


class OffsetCommitRecord:
    """A committed offset, or with ``value`` None its removal."""

    __slots__ = ("group_id", "key_prefix", "partition", "topic", "value")

    def __init__(
        self, group_id: str, topic: str, partition: int, value: OffsetAndMetadata | None, key_prefix: bytes = b""
    ) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partition = partition
        self.value = value
        self.key_prefix = key_prefix

    def encode_key(self) -> bytes:
        prefix = self.key_prefix or offset_key_prefix(self.group_id, self.topic)
        return b"\x00\x01" + prefix + _INT32.pack(self.partition)

    def encode_value(self) -> bytes | None:
        value = self.value
        if value is None:
            return None
        offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id = value
        if expire_timestamp_ms != -1:
            expiring = OffsetCommitValue(
                offset=offset,
                metadata=metadata,
                commit_timestamp=commit_timestamp_ms,
                expire_timestamp=expire_timestamp_ms,
            )
            return encode_versioned(expiring, _OFFSET_VERSION_WITH_EXPIRY)
        if metadata:
            annotated = OffsetCommitValue(
                offset=offset,
                leader_epoch=leader_epoch,
                metadata=metadata,
                commit_timestamp=commit_timestamp_ms,
                topic_id=topic_id,
            )
            return encode_versioned(annotated, _OFFSET_VERSION)
        # The case of nearly every commit, spelled out: an empty compact string is one byte 01.
        return (
            _OFFSET_VALUE_HEAD.pack(_OFFSET_VERSION, offset, leader_epoch)
            + b"\x01"
            + _INT64.pack(commit_timestamp_ms)
            + (_TOPIC_ID_TAG + topic_id if topic_id != topic_id.ZERO else _NO_TAGS)
        )

    def __repr__(self) -> str:
        return f"OffsetCommitRecord({self.group_id!r}, {self.topic!r}, {self.partition}, {self.value!r})"


class GroupMetadataRecord:
    """A generation of a classic group with its members and assignments, or with ``value`` None its removal."""

    __slots__ = ("group_id", "value")

    def __init__(self, group_id: str, value: GroupMetadataValue | None) -> None:
        self.group_id = group_id
        self.value = value

    def encode_key(self) -> bytes:
        return _INT16.pack(_GROUP_METADATA) + GroupMetadataKey(group=self.group_id).encode(0)

    def encode_value(self) -> bytes | None:
        if self.value is None:
            return None
        return encode_versioned(self.value, _GROUP_METADATA_VERSION)

    def __repr__(self) -> str:
        return f"GroupMetadataRecord({self.group_id!r}, {self.value!r})"


class ForeignGroupRecord:
    """A record of a group of another type; we know its group and keep its bytes."""

    __slots__ = ("group_id", "group_type", "key", "value")

    def __init__(self, group_id: str, group_type: GroupType, key: bytes, value: bytes | None) -> None:
        self.group_id = group_id
        self.group_type = group_type
        self.key = key
        self.value = value

    def encode_key(self) -> bytes:
        return self.key

    def encode_value(self) -> bytes | None:
        return self.value

    def __repr__(self) -> str:
        return f"ForeignGroupRecord({self.group_id!r}, {self.group_type.value}, {self.key.hex()})"


class UnknownRecord:
    """A record type newer than this code; it stays in the log and is passed over."""

    __slots__ = ("record_type",)

    def __init__(self, record_type: int) -> None:
        self.record_type = record_type


AnyGroupRecord = OffsetCommitRecord | GroupMetadataRecord | ForeignGroupRecord | UnknownRecord


def decode_record(key: bytes, value: bytes | None) -> AnyGroupRecord:
    """The record of a key and a value; DecodeError when a type that we act on can't be read."""
    if len(key) < _INT16.size:
        raise BufferUnderflow(f"a record key of {len(key)} bytes has no type")
    (record_type,) = _INT16.unpack_from(key, 0)
    group_type = _FOREIGN_GROUP_TYPES.get(record_type)
    if group_type is not None:
        # Every one of these keys begins with the group id, as GroupMetadataKey does.
        return ForeignGroupRecord(GroupMetadataKey.decode(key, 0, _INT16.size).group, group_type, key, value)
    if record_type > _GROUP_METADATA or record_type < 0:
        return UnknownRecord(record_type)
    parsed_key, parsed_value, _ = decode_coordinator_record(CoordinatorKind.GROUP, key, value)
    if isinstance(parsed_key, GroupMetadataKey):
        return GroupMetadataRecord(parsed_key.group, cast(GroupMetadataValue | None, parsed_value))
    offset_key = cast(OffsetCommitKey, parsed_key)
    return OffsetCommitRecord(offset_key.group, offset_key.topic, offset_key.partition, _offset_value(parsed_value))


def _offset_value(value: Message | None) -> OffsetAndMetadata | None:
    if isinstance(value, LegacyOffsetCommitValue):
        return OffsetAndMetadata(value.offset, NO_LEADER_EPOCH, value.metadata, value.commit_timestamp)
    if isinstance(value, OffsetCommitValue):
        return OffsetAndMetadata(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
    return None
