"""Encodes and decodes versioned records: metadata log, coordinators' topics, and version-prefixed data.

* Metadata: a frame of three unsigned varints (frame version 1, record type, record version), then the message; nothing
  may follow it.
* Coordinators: the key is a two-byte type and the key's message, the value a two-byte version and the value's message;
  a value of None is a tombstone.
* Version-prefixed (consumer protocol, principal): a two-byte version, then the message.

An unknown newer version is read as the newest known one, unless the message has structures, as in Kafka's reader.
Records that must not be misread are gated by feature levels, never by these numbers.
"""

from __future__ import annotations

from enum import Enum
from importlib import import_module
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from barnabas.protocol.errors import (
    BufferUnderflow,
    EncodeError,
    TrailingBytes,
    UnknownMessageType,
    UnsupportedVersion,
)
from barnabas.protocol.varint import read_uvarint, write_uvarint

if TYPE_CHECKING:
    from barnabas.protocol.schema import Message

__all__ = [
    "CoordinatorKind",
    "CoordinatorRecord",
    "decode_coordinator_record",
    "decode_metadata_record",
    "decode_versioned",
    "encode_metadata_record",
    "encode_versioned",
    "metadata_record_class",
    "metadata_record_types",
]

M = TypeVar("M", bound="Message")

_FRAME_VERSION = 1
_INT16_MAX = 0x7FFF
_VERSION = Struct(">h")

_METADATA_RECORDS: dict[int, str] = {
    0: "RegisterBrokerRecord",
    1: "UnregisterBrokerRecord",
    2: "TopicRecord",
    3: "PartitionRecord",
    4: "ConfigRecord",
    5: "PartitionChangeRecord",
    7: "FenceBrokerRecord",
    8: "UnfenceBrokerRecord",
    9: "RemoveTopicRecord",
    10: "DelegationTokenRecord",
    11: "UserScramCredentialRecord",
    12: "FeatureLevelRecord",
    14: "ClientQuotaRecord",
    15: "ProducerIdsRecord",
    17: "BrokerRegistrationChangeRecord",
    18: "AccessControlEntryRecord",
    19: "RemoveAccessControlEntryRecord",
    20: "NoOpRecord",
    21: "ZkMigrationStateRecord",
    22: "RemoveUserScramCredentialRecord",
    23: "BeginTransactionRecord",
    24: "EndTransactionRecord",
    25: "AbortTransactionRecord",
    26: "RemoveDelegationTokenRecord",
    27: "RegisterControllerRecord",
    28: "ClearElrRecord",
}
_GROUP_RECORDS: dict[int, str] = {
    0: "LegacyOffsetCommit",
    1: "OffsetCommit",
    2: "GroupMetadata",
    3: "ConsumerGroupMetadata",
    4: "ConsumerGroupPartitionMetadata",
    5: "ConsumerGroupMemberMetadata",
    6: "ConsumerGroupTargetAssignmentMetadata",
    7: "ConsumerGroupTargetAssignmentMember",
    8: "ConsumerGroupCurrentMemberAssignment",
    10: "ShareGroupMemberMetadata",
    11: "ShareGroupMetadata",
    12: "ShareGroupTargetAssignmentMetadata",
    13: "ShareGroupTargetAssignmentMember",
    14: "ShareGroupCurrentMemberAssignment",
    15: "ShareGroupStatePartitionMetadata",
    16: "ConsumerGroupRegularExpression",
    17: "StreamsGroupMetadata",
    19: "StreamsGroupMemberMetadata",
    20: "StreamsGroupTargetAssignmentMetadata",
    21: "StreamsGroupTargetAssignmentMember",
    22: "StreamsGroupCurrentMemberAssignment",
    23: "StreamsGroupTopology",
}
_READ_IN_ANY_VERSION = frozenset({"GroupMetadataValue", "ConsumerGroupCurrentMemberAssignmentValue"})
"""Their structures are shared between fields, and for such ones Kafka's generated readers do not check the version."""
_TRANSACTION_RECORDS: dict[int, str] = {0: "TransactionLog"}
_SHARE_RECORDS: dict[int, str] = {0: "ShareSnapshot", 1: "ShareUpdate"}


class CoordinatorKind(Enum):
    """The coordinator's topic of a record: each counts its record types from 0."""

    GROUP = "group"
    TRANSACTION = "transaction"
    SHARE = "share"


_COORDINATOR_RECORDS: dict[CoordinatorKind, dict[int, str]] = {
    CoordinatorKind.GROUP: _GROUP_RECORDS,
    CoordinatorKind.TRANSACTION: _TRANSACTION_RECORDS,
    CoordinatorKind.SHARE: _SHARE_RECORDS,
}


class CoordinatorRecord(NamedTuple):
    """A record of a coordinator's topic; a tombstone has no value and the value version 0."""

    key: Message
    value: Message | None
    version: int


def encode_metadata_record(record: Message, version: int) -> bytes:
    """Return the value of a record of the metadata log."""
    cls = type(record)
    if _METADATA_RECORDS.get(cls.API_KEY) != cls.__name__:
        raise EncodeError(f"{cls.__name__} is not a record of the metadata log")
    chunks = [b"\x01", write_uvarint(cls.API_KEY), write_uvarint(version)]
    record.write(version, chunks)
    return b"".join(chunks)


def decode_metadata_record(value: bytes | memoryview) -> tuple[Message, int]:
    """Return the record and its version from a value of the metadata log."""
    frame_version, position = read_uvarint(value, 0)
    if frame_version != _FRAME_VERSION:
        raise UnsupportedVersion(f"unknown metadata frame version {frame_version}; only {_FRAME_VERSION} is known")
    type_id, position = read_uvarint(value, position)
    version, position = read_uvarint(value, position)
    if type_id > _INT16_MAX or version > _INT16_MAX:
        raise UnsupportedVersion(f"metadata record type {type_id} version {version} does not fit two bytes")
    cls = metadata_record_class(type_id)
    record, end = _read(cls, value, position, version)
    if end != len(value):
        raise TrailingBytes(f"{len(value) - end} bytes follow {cls.__name__} version {version}")
    return record, version


def metadata_record_class(type_id: int) -> type[Message]:
    """The class of a metadata record type; raises UnknownMessageType for an unknown type."""
    cls = _metadata_classes.get(type_id)
    if cls is None:
        name = _METADATA_RECORDS.get(type_id)
        if name is None:
            raise UnknownMessageType(f"unknown metadata record type {type_id}")
        cls = _metadata_classes[type_id] = _record_class(name)
    return cls


def metadata_record_types() -> dict[int, str]:
    """Return the types of the metadata log's records, with the names of their classes."""
    return dict(_METADATA_RECORDS)


def decode_coordinator_record(
    kind: CoordinatorKind, key: bytes | memoryview, value: bytes | memoryview | None
) -> CoordinatorRecord:
    """Read a record of a coordinator's topic.

    UnknownMessageType is not damage: a newer broker wrote it, or one with group types that are not supported here.
    """
    type_id = _read_version(key, "coordinator record key")
    name = _COORDINATOR_RECORDS[kind].get(type_id)
    if name is None:
        raise UnknownMessageType(f"unknown {kind.value} coordinator record type {type_id}")
    key_class = _record_class(f"{name}Key")
    key_message = key_class.decode(key, 0, _VERSION.size)
    if value is None:
        return CoordinatorRecord(key_message, None, 0)
    message, version = decode_versioned(_record_class(f"{name}Value"), value)
    return CoordinatorRecord(key_message, message, version)


def encode_versioned(message: Message, version: int) -> bytes:
    """Return a two-byte version and the message."""
    chunks = [_VERSION.pack(version)]
    message.write(version, chunks)
    return b"".join(chunks)


def decode_versioned(cls: type[M], data: bytes | memoryview) -> tuple[M, int]:
    """Return the message that follows a two-byte version, and that version; bytes after it are tolerated."""
    version = _read_version(data, cls.__name__)
    return _read(cls, data, _VERSION.size, version)[0], version


def _read_version(data: bytes | memoryview, what: str) -> int:
    if len(data) < _VERSION.size:
        raise BufferUnderflow(f"{what}: the buffer ends inside the version")
    number: int = _VERSION.unpack_from(data)[0]
    return number


def _read(cls: type[M], data: bytes | memoryview, position: int, version: int) -> tuple[M, int]:
    if cls.MIN_VERSION <= version <= cls.MAX_VERSION:
        return cls.read(data, position, version)
    if version < 0:
        raise UnsupportedVersion(f"{cls.__name__} version {version} is negative")
    message, end = cls.read(data, position, cls.MIN_VERSION if version < cls.MIN_VERSION else cls.MAX_VERSION)
    if version > cls.MAX_VERSION and cls.__name__ not in _READ_IN_ANY_VERSION:
        for field in cls.FIELDS:
            if (field.kind == "struct" or field.element == "struct") and getattr(message, field.name):
                raise UnsupportedVersion(f"{cls.__name__}.{field.name} cannot be read in version {version}")
    return message, end


def _record_class(name: str) -> type[Message]:
    """Import a record's class on first use: most processes need few of them."""
    cls = _classes_by_name.get(name)
    if cls is None:
        module: object = import_module(f"barnabas.protocol.records.{_snake_case(name)}")
        cls = _classes_by_name[name] = getattr(module, name)
    return cls


def _snake_case(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


_metadata_classes: dict[int, type[Message]] = {}
_classes_by_name: dict[str, type[Message]] = {}
