"""The records of __consumer_offsets, byte for byte as Kafka 4.3.1 writes them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.uuid import Uuid
from barnabas.coordinator.group.group_records import (
    GroupMetadataRecord,
    KeyedRecord,
    OffsetCommitRecord,
    TopicOffsetsRecord,
    UnknownRecord,
    decode_record,
)
from barnabas.coordinator.group.offset_and_metadata import OffsetAndMetadata
from barnabas.protocol.errors import DecodeError
from tests.unit.coordinator.group_driver import GroupDriver

CORPUS = Path(__file__).parents[2] / "oracles" / "data" / "records" / "records-public.jsonl.gz"
TOPIC_ID = Uuid(bytes.fromhex("e8b88a5c46d84c818a29af34936d41ae"))


def corpus(family: str) -> list[dict[str, object]]:
    with gzip.open(CORPUS, "rt") as lines:
        return [row for row in map(json.loads, lines) if row["family"] == family]


def test_an_offset_with_metadata_has_the_bytes_that_a_real_node_wrote() -> None:
    record = OffsetCommitRecord("simple", "t1", 0, OffsetAndMetadata(1, -1, "hello", 0x01A1FE8F6EA9, -1, TOPIC_ID))
    assert record.encode_key().hex() == "0001000673696d706c650002743100000000"
    value = record.encode_value()
    assert value is not None
    assert value.hex() == (
        "00040000000000000001ffffffff0668656c6c6f000001a1fe8f6ea9010010" + "e8b88a5c46d84c818a29af34936d41ae"
    )


def test_an_offset_without_metadata_has_the_bytes_that_a_real_node_wrote() -> None:
    record = OffsetCommitRecord("g1", "t1", 0, OffsetAndMetadata(1, 0, "", 0x01A1FE8F6E68, -1, TOPIC_ID))
    value = record.encode_value()
    assert value is not None
    assert value.hex() == ("000400000000000000010000000001000001a1fe8f6e68010010" + "e8b88a5c46d84c818a29af34936d41ae")


@given(
    group=st.text(max_size=20),
    topic=st.text(st.characters(min_codepoint=45, max_codepoint=122), min_size=1, max_size=249),
    topic_id=st.sampled_from([Uuid.ZERO, TOPIC_ID]),
    commit_timestamp_ms=st.integers(0, 2**62),
    offsets=st.dictionaries(
        st.integers(0, 2**31 - 1), st.tuples(st.integers(0, 2**63 - 1), st.integers(-1, 2**31 - 1)), max_size=150
    ),
    offset_delta=st.integers(0, 20_000),
)
def test_the_offsets_of_a_topic_have_the_bytes_of_one_record_each(
    group: str,
    topic: str,
    topic_id: Uuid,
    commit_timestamp_ms: int,
    offsets: dict[int, tuple[int, int]],
    offset_delta: int,
) -> None:
    values = {
        partition: OffsetAndMetadata(offset, epoch, "", commit_timestamp_ms, -1, topic_id)
        for partition, (offset, epoch) in offsets.items()
    }
    together: list[bytes] = []
    TopicOffsetsRecord(group, topic, topic_id, commit_timestamp_ms, values).write(together, offset_delta)
    one_by_one: list[bytes] = []
    for delta, (partition, value) in enumerate(values.items(), offset_delta):
        OffsetCommitRecord(group, topic, partition, value).write(one_by_one, delta)
    assert b"".join(together) == b"".join(one_by_one)


def test_an_offset_with_its_own_expiry_is_written_in_version_1() -> None:
    value = OffsetCommitRecord("g", "t", 0, OffsetAndMetadata(5, -1, "", 100, 200)).encode_value()
    assert value is not None
    assert value.hex() == "0001" + "0000000000000005" + "0000" + "0000000000000064" + "00000000000000c8"


@pytest.mark.oracle
def test_every_group_record_of_the_corpus_is_read_and_known() -> None:
    rows = corpus("group-coordinator")
    assert len(rows) > 100
    for row in rows:
        key = bytes.fromhex(str(row["keyHex"]))
        value = None if row["valueHex"] is None else bytes.fromhex(str(row["valueHex"]))
        record = decode_record(key, value)
        assert not isinstance(record, UnknownRecord)
        expected = row["key"]
        assert isinstance(expected, dict)
        assert record.group_id == expected.get("group", expected.get("groupId"))
        assert record.encode_key() == (key if key[:2] != b"\0\0" else b"\0\1" + key[2:])
        is_ours = isinstance(record, GroupMetadataRecord) and value is not None and row["version"] == 3
        if isinstance(record, KeyedRecord) or is_ours:
            assert record.encode_value() == value
        if value is None:
            assert record.encode_value() is None


@pytest.mark.oracle
def test_malformed_records_are_decode_errors_or_unknown_types() -> None:
    for row in corpus("group-coordinator-bad"):
        key, value = bytes.fromhex(str(row["keyHex"])), bytes.fromhex(str(row["valueHex"]))
        if "UnknownRecordType" in str(row["exception"]):
            assert isinstance(decode_record(key, value), UnknownRecord)
            continue
        with pytest.raises(DecodeError):
            decode_record(key, value)


def test_a_new_generation_is_written_as_a_real_node_writes_it() -> None:
    group = GroupDriver().load()
    member, _ = group.stable_member()
    key, value = group.topic.log(0).records()[-1]
    assert key is not None
    assert value is not None
    assert key == b"\x00\x02\x00\x0aorders-app"
    assert value[:2] == b"\x00\x03"
    record = decode_record(key, value)
    assert isinstance(record, GroupMetadataRecord)
    assert record.value is not None
    assert record.value.leader == member
    assert record.value.members[0].assignment == b"everything"
    assert record.value.members[0].client_host == "/127.0.0.1"


@given(st.binary(max_size=60), st.none() | st.binary(max_size=60))
def test_random_bytes_raise_nothing_but_decode_errors(key: bytes, value: bytes | None) -> None:
    for prefix in (b"", b"\x00\x01", b"\x00\x01\x00\x01g\x00\x01t", b"\x00\x02\x00\x01g"):
        for version in (b"", b"\x00\x03", b"\x00\x04"):
            try:
                decode_record(prefix + key, None if value is None else version + value)
            except DecodeError:
                continue


@given(
    offset=st.integers(-(2**63), 2**63 - 1),
    leader_epoch=st.integers(-(2**31), 2**31 - 1),
    metadata=st.sampled_from(["", "x", "nineteen characters"]),
    topic_id=st.sampled_from([Uuid.ZERO, TOPIC_ID]),
    partition=st.integers(0, 2**31 - 1),
)
def test_an_offset_is_read_as_it_was_written(
    offset: int, leader_epoch: int, metadata: str, topic_id: Uuid, partition: int
) -> None:
    value = OffsetAndMetadata(offset, leader_epoch, metadata, 1_700_000_000_000, -1, topic_id)
    record = OffsetCommitRecord("gröup", "topic", partition, value)
    read = decode_record(record.encode_key(), record.encode_value())
    assert isinstance(read, OffsetCommitRecord)
    assert (read.group_id, read.topic, read.partition, read.value) == ("gröup", "topic", partition, value)
