"""Records of control batches: transaction markers, and the quorum's own records.

The key is four bytes, version 0 and the type. The value is the message, unframed: its first field is its version.
(A transaction marker's message has no such field; there the two bytes precede it.)
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

from barnabas.protocol.errors import BufferUnderflow, EncodeError, UnknownMessageType, UnsupportedVersion
from barnabas.protocol.record_serde import decode_versioned, encode_versioned
from barnabas.protocol.records.end_txn_marker import EndTxnMarker
from barnabas.protocol.records.kraft_version_record import KRaftVersionRecord
from barnabas.protocol.records.leader_change_message import LeaderChangeMessage
from barnabas.protocol.records.snapshot_footer_record import SnapshotFooterRecord
from barnabas.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from barnabas.protocol.records.voters_record import VotersRecord

if TYPE_CHECKING:
    from barnabas.protocol.schema import Message

__all__ = [
    "ControlRecord",
    "ControlRecordType",
    "control_record_key",
    "control_record_type",
    "decode_control_record",
    "encode_control_record",
]

_KEY = Struct(">hh")
_VERSION = Struct(">h")


class ControlRecordType(IntEnum):
    ABORT = 0
    COMMIT = 1
    LEADER_CHANGE = 2
    SNAPSHOT_HEADER = 3
    SNAPSHOT_FOOTER = 4
    KRAFT_VERSION = 5
    KRAFT_VOTERS = 6


class ControlRecord(NamedTuple):
    type: ControlRecordType
    version: int
    message: Message


def control_record_key(type_: ControlRecordType) -> bytes:
    return _KEY.pack(0, type_)


def control_record_type(key: bytes | None) -> ControlRecordType:
    """Read a control record's key; a newer key version is read as 0, an unknown type is UnknownMessageType."""
    if key is None or len(key) < _KEY.size:
        raise BufferUnderflow("the key of a control record has four bytes")
    version, type_id = _KEY.unpack_from(key)
    if version < 0:
        raise UnsupportedVersion(f"a control record key has the negative version {version}")
    try:
        return ControlRecordType(type_id)
    except ValueError:
        raise UnknownMessageType(f"unknown control record type {type_id}") from None


def encode_control_record(type_: ControlRecordType, message: Message) -> tuple[bytes, bytes]:
    """Return key and value; the message's own ``version`` field sets the version of its encoding."""
    if not isinstance(message, _class_of(type_)):
        raise EncodeError(f"{type(message).__name__} is not the message of control record type {type_.name}")
    if isinstance(message, EndTxnMarker):
        return control_record_key(type_), encode_versioned(message, 0)
    return control_record_key(type_), message.encode(getattr(message, "version", 0))


def decode_control_record(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Read a record of a control batch."""
    type_ = control_record_type(key)
    if value is None or len(value) < _VERSION.size:
        raise BufferUnderflow(f"the value of control record {type_.name} ends inside its version")
    cls = _class_of(type_)
    if cls is EndTxnMarker:
        message, version = decode_versioned(cls, value)
        return ControlRecord(type_, version, message)
    (version,) = _VERSION.unpack_from(value)
    if version < cls.MIN_VERSION:
        raise UnsupportedVersion(f"control record {type_.name} has the version {version}")
    return ControlRecord(type_, version, cls.decode(value, min(version, cls.MAX_VERSION)))


def _class_of(type_: ControlRecordType) -> type[Message]:
    """Import the class on demand: nodes without transactions or quorum duties never need most of them."""
    if type_ in (ControlRecordType.ABORT, ControlRecordType.COMMIT):
        return EndTxnMarker
    if type_ is ControlRecordType.LEADER_CHANGE:
        return LeaderChangeMessage
    if type_ is ControlRecordType.SNAPSHOT_HEADER:
        return SnapshotHeaderRecord
    if type_ is ControlRecordType.SNAPSHOT_FOOTER:
        return SnapshotFooterRecord
    if type_ is ControlRecordType.KRAFT_VERSION:
        return KRaftVersionRecord
    return VotersRecord
