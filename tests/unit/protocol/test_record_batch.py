from __future__ import annotations

import tracemalloc
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol.compression import Compression
from barnabas.protocol.errors import (
    BufferUnderflow,
    CorruptRecordError,
    DecodeError,
    DecompressionLimitExceeded,
    InvalidRecordError,
    UnsupportedCompression,
    UnsupportedMagic,
)
from barnabas.protocol.record_batch import (
    BATCH_HEADER,
    BatchView,
    Record,
    TimestampType,
    increment_sequence,
    iter_batches,
    set_max_timestamp,
)
from barnabas.protocol.record_batch_builder import build_batch, encode_record, with_header
from tests.unit.protocol.samples import mutated, random_records

SEEDS = st.integers(min_value=0, max_value=2**64 - 1)
every_codec = pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name)
NOW = 1_750_000_000_000
THREE = [Record(index, NOW + index, b"key", b"value", (("header", b"x"), ("null", None))) for index in range(3)]


def batch_of(
    section: bytes, count: int, *, attributes: int = 0, base_offset: int = 0, base_timestamp: int = NOW
) -> bytes:
    return with_header(
        section,
        base_offset=base_offset,
        leader_epoch=-1,
        attributes=attributes,
        last_offset_delta=max(count - 1, 0),
        base_timestamp=base_timestamp,
        max_timestamp=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )


def read_all(data: bytes) -> list[Record]:
    records: list[Record] = []
    for batch in iter_batches(data):
        batch.ensure_valid()
        records += batch.records(10_000_000)
    return records


@every_codec
@given(seed=SEEDS)
def test_records_survive(codec: Compression, seed: int) -> None:
    random = Random(seed)
    base_offset = random.choice((0, 5, 2**40))
    records = random_records(random, random.choice((1, 2, 5, 150)), base_offset=base_offset, gaps=True)
    data = build_batch(records, base_offset=base_offset, compression=codec, leader_epoch=3)
    (batch,) = iter_batches(data)
    batch.ensure_valid()
    assert list(batch.records()) == records
    assert (batch.base_offset, batch.last_offset, batch.count) == (base_offset, records[-1].offset, len(records))
    assert batch.max_timestamp == max(-1, *(record.timestamp for record in records))
    assert (batch.compression, batch.leader_epoch, batch.size) == (codec, 3, len(data))
    assert batch.tobytes() == data


def test_every_field_of_the_header_is_read() -> None:
    data = build_batch(
        [Record(12, NOW, b"k", b"v")],
        base_offset=10,
        leader_epoch=7,
        producer_id=1001,
        producer_epoch=4,
        base_sequence=2**31 - 1,
        is_transactional=True,
        is_control=True,
        delete_horizon_ms=NOW - 5,
        last_offset=14,
    )
    batch = BatchView(b"before" + data, 6)
    assert (batch.base_offset, batch.last_offset, batch.next_offset, batch.last_offset_delta) == (10, 14, 15, 4)
    assert (batch.leader_epoch, batch.magic, batch.attributes) == (7, 2, 0x70)
    assert (batch.producer_id, batch.producer_epoch) == (1001, 4)
    assert (batch.base_sequence, batch.last_sequence) == (2**31 - 1, 3)
    assert (batch.base_timestamp, batch.max_timestamp, batch.delete_horizon_ms) == (NOW - 5, NOW, NOW - 5)
    assert batch.is_transactional
    assert batch.is_control
    assert batch.timestamp_type is TimestampType.CREATE_TIME
    assert [record.timestamp for record in batch.records()] == [NOW]
    assert "offsets 10..14" in repr(batch)


def test_log_append_time_applies_to_every_record() -> None:
    batch = BatchView(build_batch(THREE, log_append_time_ms=NOW + 77))
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert {record.timestamp for record in batch.records()} == {NOW + 77}


def test_the_largest_timestamp_can_be_corrected() -> None:
    data = bytearray(build_batch(THREE))
    set_max_timestamp(data, 0, 0, NOW + 2)
    assert bytes(data) == build_batch(THREE)


@pytest.mark.parametrize("magic", [0, 1])
def test_the_older_formats_are_refused_by_name(magic: int) -> None:
    data = bytearray(build_batch(THREE))
    data[16] = magic
    with pytest.raises(UnsupportedMagic, match=f"magic {magic} is not supported: only record format 2"):
        list(iter_batches(data))
    with pytest.raises(UnsupportedMagic):
        BatchView(data)


@pytest.mark.parametrize("magic", [3, 127, 255])
def test_a_format_that_never_existed_is_corruption(magic: int) -> None:
    data = bytearray(build_batch(THREE))
    data[16] = magic
    with pytest.raises(CorruptRecordError, match="invalid magic"):
        list(iter_batches(data))


@pytest.mark.parametrize("length", [-(2**31), -1, 0, 13, 48, 2**31 - 1])
def test_an_impossible_length_is_corruption(length: int) -> None:
    data = bytearray(build_batch(THREE))
    data[8:12] = length.to_bytes(4, "big", signed=True)
    with pytest.raises(CorruptRecordError):
        list(iter_batches(data))


def test_a_batch_truncated_at_the_end_is_omitted() -> None:
    first, second = build_batch(THREE), build_batch(THREE, base_offset=0, compression=Compression.ZSTD)
    for size in range(len(second)):
        assert [batch.size for batch in iter_batches(first + second[:size])] == [len(first)]
    assert [batch.position for batch in iter_batches(first + second)] == [0, len(first)]
    assert list(iter_batches(first + second, len(first), len(first) + 80)) == []


def test_a_truncated_single_batch_raises_buffer_underflow() -> None:
    data = build_batch(THREE)
    for size in range(len(data)):
        with pytest.raises(BufferUnderflow):
            BatchView(data[:size]).ensure_valid()


def test_every_flipped_bit_under_the_checksum_is_noticed() -> None:
    data = build_batch(THREE)
    for position in range(17, len(data)):
        for bit in range(8):
            damaged = bytearray(data)
            damaged[position] ^= 1 << bit
            with pytest.raises(CorruptRecordError):
                BatchView(damaged).ensure_valid()


@pytest.mark.parametrize("code", [5, 6, 7])
def test_an_unknown_compression_is_refused(code: int) -> None:
    batch = BatchView(batch_of(b"", 1, attributes=code))
    with pytest.raises(UnsupportedCompression, match=f"unknown compression type id {code}"):
        batch.ensure_valid()
    with pytest.raises(UnsupportedCompression):
        batch.records()


RECORD = encode_record(0, 0, b"key", b"value")
BROKEN_SECTIONS = {
    "more records than counted": (RECORD * 2, 1),
    "fewer records than counted": (RECORD, 2),
    "a negative count": (RECORD, -1),
    "no length": (b"", 1),
    "a negative length": (b"\x01" + RECORD[1:], 1),
    "a length of zero": (b"\x00" + RECORD[1:], 1),
    "a length beyond the end": (b"\x7e" + RECORD[1:], 1),
    "a length that is too small": (bytes([RECORD[0] - 2]) + RECORD[1:] + b"\x00", 1),
    "a varint without an end": (b"\xff" * 6 + RECORD, 1),
    "a key beyond the end": (b"\x0c\x00\x00\x00\x7e\x01\x00", 1),
    "a negative header count": (b"\x0c\x00\x00\x00\x01\x01\x01", 1),
    "a huge header count": (b"\x14\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f", 1),
    "a null header key": (b"\x10\x00\x00\x00\x01\x01\x02\x01\x01", 1),
    "a header key beyond the end": (b"\x10\x00\x00\x00\x01\x01\x02\x0a\x01", 1),
    "a header value beyond the end": (b"\x12\x00\x00\x00\x01\x01\x02\x02a\x0a", 1),
}


@pytest.mark.parametrize("name", BROKEN_SECTIONS)
@every_codec
def test_records_that_do_not_fit_are_refused(codec: Compression, name: str) -> None:
    from barnabas.protocol.compression import compress

    section, count = BROKEN_SECTIONS[name]
    batch = BatchView(batch_of(compress(codec, section), count, attributes=codec))
    batch.ensure_valid()
    with pytest.raises(InvalidRecordError):
        list(batch.records())


def test_a_batch_with_a_count_of_zero_is_not_decompressed_as_in_kafka() -> None:
    assert list(BatchView(batch_of(b"anything", 0, attributes=Compression.ZSTD)).records()) == []


def test_a_length_below_minus_one_is_null() -> None:
    assert list(BatchView(batch_of(b"\x0c\x00\x00\x00\x03\x03\x00", 1)).records()) == [Record(0, NOW, None, None)]


def test_a_header_key_that_is_not_utf_8_is_replaced() -> None:
    section = b"\x12\x00\x00\x00\x01\x01\x02\x02\xff\x01"
    assert list(BatchView(batch_of(section, 1)).records()) == [Record(0, NOW, None, None, (("\ufffd", None),))]


def test_offsets_and_timestamps_wrap_around_as_in_java() -> None:
    section = encode_record(2**31 - 1, 2**63 - 1, None, None)
    (record,) = BatchView(batch_of(section, 1, base_offset=2**63 - 1, base_timestamp=2**63 - 1)).records()
    assert record == Record(-(2**63) + 2**31 - 2, -2, None, None)
    (record,) = BatchView(batch_of(encode_record(0, 2**63 - 1, None, None), 1)).records()
    assert record.timestamp == NOW + 2**63 - 1 - 2**64


def test_sequences_wrap_to_zero() -> None:
    assert increment_sequence(0, 5) == 5
    assert increment_sequence(2**31 - 1, 1) == 0
    assert increment_sequence(2**31 - 3, 5) == 2


@given(seed=SEEDS)
def test_damaged_batches_raise_nothing_but_decode_errors(seed: int) -> None:
    random = Random(seed)
    codec = random.choice(list(Compression))
    data = build_batch(random_records(random, random.choice((1, 3, 20))), compression=codec)
    for _ in range(10):
        damaged = mutated(data, random)
        try:
            read_all(damaged)
        except DecodeError:
            pass
        for batch in whole_batches(damaged):  # Also with a wrong checksum.
            try:
                for _ in batch.records(10_000_000):
                    pass
            except DecodeError:
                pass


def whole_batches(data: bytes) -> list[BatchView]:
    try:
        return list(iter_batches(data))
    except DecodeError:
        return []


@given(
    section=st.binary(max_size=120), count=st.integers(min_value=-2, max_value=5), codec=st.sampled_from(Compression)
)
def test_random_records_raise_nothing_but_decode_errors(section: bytes, count: int, codec: Compression) -> None:
    try:
        for _ in BatchView(batch_of(section, count, attributes=codec)).records(1_000_000):
            pass
    except DecodeError:
        pass


def test_a_huge_length_or_count_in_a_small_batch_uses_no_memory() -> None:
    section = encode_record(0, 0, b"key", b"value", [("header", b"value")])
    huge = b"\xfe\xff\xff\xff\x0f"
    tracemalloc.start()
    try:
        for position in range(len(section)):
            damaged = batch_of(section[:position] + huge + section[position:], 2**31 - 1)
            with pytest.raises(DecodeError):
                list(BatchView(damaged).records())
        header = bytearray(batch_of(section, 1))
        header[8:12] = b"\x7f\xff\xff\xf0"
        assert list(iter_batches(header)) == []
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec], ids=lambda codec: codec.name)
def test_a_decompression_bomb_in_a_batch_stops_at_the_limit(codec: Compression) -> None:
    data = build_batch([Record(0, NOW, None, bytes(20_000_000))], compression=codec)
    with pytest.raises(DecompressionLimitExceeded):
        BatchView(data).records(1_000_000)


def test_the_header_struct_has_the_size_of_the_header() -> None:
    assert BATCH_HEADER.size == 61
