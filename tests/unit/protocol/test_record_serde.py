from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.uuid import Uuid
from barnabas.protocol.control_record import (
    ControlRecord,
    ControlRecordType,
    control_record_key,
    control_record_type,
    decode_control_record,
    encode_control_record,
)
from barnabas.protocol.errors import (
    BufferUnderflow,
    DecodeError,
    EncodeError,
    TrailingBytes,
    UnknownMessageType,
    UnsupportedVersion,
)
from barnabas.protocol.record_serde import (
    CoordinatorKind,
    decode_coordinator_record,
    decode_metadata_record,
    encode_metadata_record,
)
from barnabas.protocol.records.client_quota_record import ClientQuotaRecord, EntityData
from barnabas.protocol.records.end_txn_marker import EndTxnMarker
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from barnabas.protocol.records.kraft_version_record import KRaftVersionRecord
from barnabas.protocol.records.leader_change_message import LeaderChangeMessage, Voter
from barnabas.protocol.records.no_op_record import NoOpRecord
from barnabas.protocol.records.offset_commit_key import OffsetCommitKey
from barnabas.protocol.records.offset_commit_value import OffsetCommitValue
from barnabas.protocol.records.snapshot_header_record import SnapshotHeaderRecord
from barnabas.protocol.records.topic_record import TopicRecord
from tests.unit.coordinator.record_bytes import encode_coordinator_record

FEATURE = FeatureLevelRecord(name="metadata.version", feature_level=30)
FEATURE_BYTES = bytes.fromhex("010c00116d657461646174612e76657273696f6e001e00")


def test_a_metadata_record_is_framed_by_version_type_and_record_version() -> None:
    assert encode_metadata_record(FEATURE, 0) == FEATURE_BYTES
    assert encode_metadata_record(NoOpRecord(), 0) == bytes.fromhex("01140000")
    assert decode_metadata_record(FEATURE_BYTES) == (FEATURE, 0)


def test_a_metadata_frame_of_another_version_is_refused() -> None:
    for first in (b"\x00", b"\x02"):
        with pytest.raises(UnsupportedVersion, match="frame version"):
            decode_metadata_record(first + FEATURE_BYTES[1:])


def test_an_unknown_metadata_record_is_refused() -> None:
    for type_id in (6, 13, 16, 29, 100):
        with pytest.raises(UnknownMessageType, match=f"type {type_id}$"):
            decode_metadata_record(bytes((1, type_id, 0, 0)))


def test_bytes_after_a_metadata_record_are_refused() -> None:
    with pytest.raises(TrailingBytes):
        decode_metadata_record(FEATURE_BYTES + b"\x00")


def test_a_type_or_version_beyond_two_bytes_is_refused() -> None:
    for frame in ("0182800400", "0114c0b80200"):
        with pytest.raises(UnsupportedVersion):
            decode_metadata_record(bytes.fromhex(frame))


def test_a_newer_metadata_record_is_read_in_the_newest_known_version() -> None:
    assert decode_metadata_record(bytes.fromhex("01140700")) == (NoOpRecord(), 7)


def test_structures_of_a_newer_version_are_refused() -> None:
    record = ClientQuotaRecord(entity=[EntityData(entity_type="user")], key="k", value=1.0)
    value = bytearray(encode_metadata_record(record, 0))
    assert decode_metadata_record(bytes(value)) == (record, 0)
    value[2] = 1
    with pytest.raises(UnsupportedVersion, match="ClientQuotaRecord.entity cannot be read in version 1"):
        decode_metadata_record(bytes(value))
    empty = bytearray(encode_metadata_record(ClientQuotaRecord(key="k", value=1.0), 0))
    empty[2] = 1
    assert decode_metadata_record(bytes(empty)) == (ClientQuotaRecord(key="k", value=1.0), 1)


def test_only_metadata_records_are_written_to_the_metadata_log() -> None:
    with pytest.raises(EncodeError, match="OffsetCommitValue is not a record of the metadata log"):
        encode_metadata_record(OffsetCommitValue(), 0)


@given(st.binary(max_size=40))
def test_random_metadata_values_raise_nothing_but_decode_errors(value: bytes) -> None:
    for frame in (value, b"\x01" + value):
        try:
            decode_metadata_record(frame)
        except DecodeError:
            pass


def test_a_truncated_metadata_record_is_an_underflow() -> None:
    value = encode_metadata_record(TopicRecord(name="orders", topic_id=Uuid.from_int(7)), 0)
    for size in range(len(value)):
        with pytest.raises(BufferUnderflow):
            decode_metadata_record(value[:size])


def test_a_coordinator_record_has_its_type_before_the_key_and_its_version_before_the_value() -> None:
    key, value = OffsetCommitKey(group="g", topic="t", partition=3), OffsetCommitValue(offset=42)
    key_bytes, value_bytes = encode_coordinator_record(key, value, 3)
    assert key_bytes == bytes.fromhex("000100016700017400000003")
    assert value_bytes is not None
    assert value_bytes[:2] == b"\x00\x03"
    assert decode_coordinator_record(CoordinatorKind.GROUP, key_bytes, value_bytes) == (key, value, 3)


def test_a_tombstone_has_no_value() -> None:
    key = OffsetCommitKey(group="g", topic="t", partition=3)
    assert encode_coordinator_record(key, None)[1] is None
    assert decode_coordinator_record(CoordinatorKind.GROUP, encode_coordinator_record(key, None)[0], None) == (
        key,
        None,
        0,
    )


def test_records_of_other_group_types_are_unknown_and_not_damage() -> None:
    with pytest.raises(UnknownMessageType, match="group coordinator record type 9"):
        decode_coordinator_record(CoordinatorKind.GROUP, b"\x00\x09\x00\x01g", None)
    with pytest.raises(UnknownMessageType, match="transaction coordinator record type 1"):
        decode_coordinator_record(CoordinatorKind.TRANSACTION, b"\x00\x01\x00\x01g", None)


@given(st.binary(max_size=30), st.none() | st.binary(max_size=30), st.integers(min_value=0, max_value=17))
def test_random_coordinator_records_raise_nothing_but_decode_errors(
    key: bytes, value: bytes | None, type_id: int
) -> None:
    for kind in CoordinatorKind:
        for key_bytes in (key, bytes((0, type_id)) + key):
            try:
                decode_coordinator_record(kind, key_bytes, value)
            except DecodeError:
                pass


@pytest.mark.parametrize(
    ("type_", "message", "key", "value"),
    [
        (
            ControlRecordType.LEADER_CHANGE,
            LeaderChangeMessage(leader_id=3000, voters=[Voter(voter_id=3000)], granting_voters=[Voter(voter_id=3000)]),
            "00000002",
            "000000000bb80200000bb8000200000bb80000",
        ),
        (ControlRecordType.KRAFT_VERSION, KRaftVersionRecord(kraft_version=1), "00000005", "0000000100"),
        (
            ControlRecordType.SNAPSHOT_HEADER,
            SnapshotHeaderRecord(last_contained_log_timestamp=1),
            "00000003",
            "0000000000000000000100",
        ),
        (ControlRecordType.ABORT, EndTxnMarker(coordinator_epoch=41), "00000000", "000000000029"),
        (ControlRecordType.COMMIT, EndTxnMarker(coordinator_epoch=41), "00000001", "000000000029"),
    ],
)
def test_control_records_are_written_as_by_kafka(
    type_: ControlRecordType, message: object, key: str, value: str
) -> None:
    encoded = encode_control_record(type_, message)  # type: ignore[arg-type]
    assert (encoded[0].hex(), encoded[1].hex()) == (key, value)
    assert decode_control_record(*encoded) == ControlRecord(type_, 0, message)  # type: ignore[arg-type]


def test_a_control_record_of_the_wrong_message_is_refused() -> None:
    with pytest.raises(EncodeError, match="EndTxnMarker is not the message of control record type KRAFT_VERSION"):
        encode_control_record(ControlRecordType.KRAFT_VERSION, EndTxnMarker())


def test_malformed_control_keys_and_values_are_decode_errors() -> None:
    for key in (None, b"", b"\x00\x00\x00"):
        with pytest.raises(BufferUnderflow):
            control_record_type(key)
    with pytest.raises(UnknownMessageType):
        control_record_type(b"\x00\x00\x00\x07")
    with pytest.raises(UnsupportedVersion):
        control_record_type(b"\xff\xff\x00\x01")
    assert control_record_type(b"\x00\x05\x00\x01") is ControlRecordType.COMMIT
    for type_ in ControlRecordType:
        for value in (None, b"", b"\x00", b"\x00\x00"):
            if type_ is ControlRecordType.SNAPSHOT_FOOTER and value == b"\x00\x00\x00":
                continue
            with pytest.raises(DecodeError):
                decode_control_record(control_record_key(type_), value)
        with pytest.raises(UnsupportedVersion):
            decode_control_record(control_record_key(type_), b"\xff\xff" + bytes(40))
