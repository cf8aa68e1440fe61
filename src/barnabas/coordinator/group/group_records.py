"""The records of ``__consumer_offsets``: converts between their bytes and the arguments of ``replay``.

A record here encodes itself, and ``decode_record`` decodes the bytes of a log. A record type that is
newer than this code becomes an UnknownRecord.
"""

from __future__ import annotations

from collections.abc import Generator
from functools import lru_cache
from struct import Struct
from typing import NamedTuple

from barnabas.common.errors import InvariantViolated
from barnabas.common.uuid import Uuid
from barnabas.coordinator.coordinator_result import SingleRecord
from barnabas.coordinator.group.group_state import GroupType
from barnabas.coordinator.group.offset_and_metadata import NO_LEADER_EPOCH, NO_METADATA, OffsetAndMetadata
from barnabas.protocol.errors import BufferUnderflow
from barnabas.protocol.record_batch_builder import encode_record
from barnabas.protocol.record_serde import CoordinatorKind, decode_coordinator_record, encode_versioned
from barnabas.protocol.records.group_metadata_key import GroupMetadataKey
from barnabas.protocol.records.group_metadata_value import GroupMetadataValue
from barnabas.protocol.records.legacy_offset_commit_key import LegacyOffsetCommitKey
from barnabas.protocol.records.legacy_offset_commit_value import LegacyOffsetCommitValue
from barnabas.protocol.records.offset_commit_key import OffsetCommitKey
from barnabas.protocol.records.offset_commit_value import OffsetCommitValue
from barnabas.protocol.schema import Message
from barnabas.protocol.stepped_writing import write_in_steps
from barnabas.protocol.varint import write_varint

__all__ = [
    "GroupMetadataRecord",
    "KeyedRecord",
    "OffsetCommitRecord",
    "TopicOffsetsRecord",
    "UnknownRecord",
    "decode_record",
]

_OFFSET_COMMIT = 1
_GROUP_METADATA = 2

_KEYED_TYPES: dict[int, GroupType] = {
    **dict.fromkeys((3, 4, 5, 6, 7, 8, 16), GroupType.CONSUMER),
    **dict.fromkeys((10, 11, 12, 13, 14, 15), GroupType.SHARE),
    **dict.fromkeys((17, 19, 20, 21, 22, 23), GroupType.STREAMS),
}
"""Record types of the kinds that keep each part of a group in a record of its own."""
_KEYED_VERSION = 0

_GROUP_METADATA_VERSION = 3
_ENCODED_AT_ONCE = 5
"""Steps of 100 members each."""
_OFFSET_VERSION_WITH_EXPIRY = 1  # The only version that can hold the expiry of the offset.
_OFFSET_VERSION = 4

_INT16 = Struct(">h")
_INT32 = Struct(">i")
_OFFSET_VALUE_HEAD = Struct(">hqi")
_INT64 = Struct(">q")
_PLAIN_OFFSET = Struct(">hqiBq3s16s")
_EMPTY_METADATA = b"\x01"  # A compact string of length 0.
_NO_TAGS = b"\x00"
_varint = lru_cache(maxsize=4_096)(write_varint)
_TOPIC_ID_TAG = b"\x01\x00\x10"  # One tagged field, number 0, 16 bytes.


class OffsetCommitRecord(SingleRecord):
    """A committed offset, or with ``value`` None its removal."""

    __slots__ = ("group_id", "partition", "topic", "value")

    def __init__(self, group_id: str, topic: str, partition: int, value: OffsetAndMetadata | None) -> None:
        self.group_id = group_id
        self.topic = topic
        self.partition = partition
        self.value = value

    def encode_key(self) -> bytes:
        key = OffsetCommitKey(group=self.group_id, topic=self.topic, partition=self.partition)
        return _INT16.pack(_OFFSET_COMMIT) + key.encode(0)

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
        current = OffsetCommitValue(
            offset=offset,
            leader_epoch=leader_epoch,
            metadata=metadata,
            commit_timestamp=commit_timestamp_ms,
            topic_id=topic_id,
        )
        return encode_versioned(current, _OFFSET_VERSION)

    def __repr__(self) -> str:
        return f"OffsetCommitRecord({self.group_id!r}, {self.topic!r}, {self.partition}, {self.value!r})"


class TopicOffsetsRecord:
    """The offsets of one topic in one commit, without metadata or expiry: a record for each partition.

    Nearly every commit consists of these. The records differ in three numbers, so the rest is written once.
    """

    __slots__ = ("commit_timestamp_ms", "group_id", "offsets", "topic", "topic_id")

    is_ahead = False

    def __init__(
        self,
        group_id: str,
        topic: str,
        topic_id: Uuid,
        commit_timestamp_ms: int,
        offsets: dict[int, OffsetAndMetadata],
    ) -> None:
        self.group_id = group_id
        self.topic = topic
        self.topic_id = topic_id
        self.commit_timestamp_ms = commit_timestamp_ms
        self.offsets = offsets

    @property
    def count(self) -> int:
        return len(self.offsets)

    def write(self, chunks: list[bytes], offset_delta: int) -> None:
        key_head = _key_head(self.group_id, self.topic)
        tags = _NO_TAGS if self.topic_id == Uuid.ZERO else _TOPIC_ID_TAG + self.topic_id
        after_offset = _EMPTY_METADATA + _INT64.pack(self.commit_timestamp_ms) + tags
        value_size = _OFFSET_VALUE_HEAD.size + len(after_offset)
        before_partition = _varint(len(key_head) + _INT32.size) + key_head
        between = _varint(value_size) + _INT16.pack(_OFFSET_VERSION)
        numbers = _numbers_around(len(between))
        fixed_size = 2 + len(before_partition) + numbers.size + len(after_offset) + 1
        pack = numbers.pack
        for partition, value in self.offsets.items():
            delta = _varint(offset_delta)
            chunks += (
                _varint(fixed_size + len(delta)),
                b"\x00\x00",  # Attributes and timestamp delta.
                delta,
                before_partition,
                pack(partition, between, value[0], value[1]),
                after_offset,
                b"\x00",  # No headers.
            )
            offset_delta += 1


class GroupMetadataRecord(SingleRecord):
    """A generation of a classic group with its members and assignments, or with ``value`` None its removal."""

    __slots__ = ("_encoded", "group_id", "value")

    def __init__(self, group_id: str, value: GroupMetadataValue | None) -> None:
        self.group_id = group_id
        self.value = value
        self._encoded: bytes | None = None

    def encode_in_steps(self) -> Generator[None, None, None]:
        """Encode the record of a large group in advance, in steps of some milliseconds."""
        if self.value is None:
            return
        chunks = [_INT16.pack(_GROUP_METADATA_VERSION)]
        for step, _ in enumerate(write_in_steps(self.value, _GROUP_METADATA_VERSION, chunks), start=1):
            if step % _ENCODED_AT_ONCE == 0:
                yield
        encoded = b"".join(chunks)
        yield
        self._encoded = encode_record(0, 0, self.encode_key(), encoded)
        yield

    def write(self, chunks: list[bytes], offset_delta: int) -> None:
        if self._encoded is not None and offset_delta == 0:
            chunks.append(self._encoded)
        else:
            super().write(chunks, offset_delta)

    def encode_key(self) -> bytes:
        return _INT16.pack(_GROUP_METADATA) + GroupMetadataKey(group=self.group_id).encode(0)

    def encode_value(self) -> bytes | None:
        if self.value is None:
            return None
        return encode_versioned(self.value, _GROUP_METADATA_VERSION)

    def __repr__(self) -> str:
        return f"GroupMetadataRecord({self.group_id!r}, {self.value!r})"


class KeyedRecord(SingleRecord):
    """A part of a group (its epoch, a member, an assignment), or with ``value`` None its removal."""

    __slots__ = ("group_type", "key", "value")

    is_ahead = True

    def __init__(self, group_type: GroupType, key: Message, value: Message | None) -> None:
        self.group_type = group_type
        self.key = key
        self.value = value

    @property
    def group_id(self) -> str:
        return str(self.key.to_json(0)["groupId"])

    def encode_key(self) -> bytes:
        return _INT16.pack(self.key.API_KEY) + self.key.encode(0)

    def encode_value(self) -> bytes | None:
        return None if self.value is None else encode_versioned(self.value, _KEYED_VERSION)

    def __repr__(self) -> str:
        return f"KeyedRecord({self.key!r}, {self.value!r})"


class UnknownRecord(NamedTuple):
    """A record type newer than this code; it stays in the log and is skipped."""

    record_type: int


AnyGroupRecord = OffsetCommitRecord | GroupMetadataRecord | KeyedRecord | UnknownRecord


@lru_cache(maxsize=4_096)
def _key_head(group_id: str, topic: str) -> bytes:
    """Return an offset's key without the partition."""
    key = OffsetCommitKey(group=group_id, topic=topic, partition=0).encode(0)
    return _INT16.pack(_OFFSET_COMMIT) + key[: -_INT32.size]


@lru_cache(maxsize=8)
def _numbers_around(size: int) -> Struct:
    """A partition, so many bytes, an offset and its leader epoch."""
    return Struct(f">i{size}sqi")


def decode_record(key: bytes, value: bytes | None) -> AnyGroupRecord:
    """Return the record of a key and a value; raises DecodeError if a type that we process can't be read."""
    if len(key) < _INT16.size:
        raise BufferUnderflow(f"a record key of {len(key)} bytes does not have a type")
    (record_type,) = _INT16.unpack_from(key, 0)
    if record_type == _OFFSET_COMMIT and value is not None and len(value) == _PLAIN_OFFSET.size:
        plain = _decode_plain_offset(key, value)
        if plain is not None:
            return plain
    group_type = _KEYED_TYPES.get(record_type)
    if group_type is not None:
        keyed = decode_coordinator_record(CoordinatorKind.GROUP, key, value)
        return KeyedRecord(group_type, keyed.key, keyed.value)
    if record_type > _GROUP_METADATA or record_type < 0:
        return UnknownRecord(record_type)
    parsed_key, parsed_value, _ = decode_coordinator_record(CoordinatorKind.GROUP, key, value)
    if isinstance(parsed_key, GroupMetadataKey):
        if not isinstance(parsed_value, GroupMetadataValue | None):
            raise InvariantViolated(f"the key of a group has a {type(parsed_value).__name__}")
        return GroupMetadataRecord(parsed_key.group, parsed_value)
    if not isinstance(parsed_key, OffsetCommitKey | LegacyOffsetCommitKey):
        raise InvariantViolated(f"a record of type {record_type} has the key {type(parsed_key).__name__}")
    return OffsetCommitRecord(parsed_key.group, parsed_key.topic, parsed_key.partition, _offset_value(parsed_value))


def _decode_plain_offset(key: bytes, value: bytes) -> OffsetCommitRecord | None:
    """Decode the most frequent record fast: an offset with a topic id and no metadata.

    Return None for any other record of the same size. Repeated names and ids are the same objects.
    """
    version, offset, leader_epoch, metadata_size, commit_timestamp_ms, tag, topic_id = _PLAIN_OFFSET.unpack(value)
    if version != _OFFSET_VERSION or metadata_size != 1 or tag != _TOPIC_ID_TAG:
        return None
    names = _names(key[: -_INT32.size])
    if names is None:
        return None
    group_id, topic = names
    (partition,) = _INT32.unpack_from(key, len(key) - _INT32.size)
    return OffsetCommitRecord(
        group_id,
        topic,
        partition,
        OffsetAndMetadata(offset, leader_epoch, NO_METADATA, commit_timestamp_ms, -1, _shared_uuid(topic_id)),
    )


@lru_cache(maxsize=4_096)
def _names(key_head: bytes) -> tuple[str, str] | None:
    """Return group and topic of an offset's key without its partition; None if the key has anything else."""
    key, end = OffsetCommitKey.read(key_head + bytes(_INT32.size), _INT16.size, 0)
    return (key.group, key.topic) if end == len(key_head) + _INT32.size else None


_shared_uuid = lru_cache(maxsize=4_096)(Uuid)


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
