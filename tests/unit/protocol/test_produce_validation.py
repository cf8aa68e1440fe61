from __future__ import annotations

from random import Random
from typing import Any

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.errors import ApiException, ErrorCode, InvalidRecords
from barnabas.protocol.compression import Compression, compress
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.produce_validation import ProduceRules, RecordError, validate_produced
from barnabas.protocol.record_batch import BatchView, Record, TimestampType
from barnabas.protocol.record_batch_builder import build_batch, encode_record, with_header
from barnabas.protocol.record_walk import RecordWalk, walk_compressed, walk_records
from tests.unit.protocol.samples import mutated, random_records

SEEDS = st.integers(min_value=0, max_value=2**64 - 1)
NOW = 1_750_000_000_000
HOUR = 3_600_000
every_codec = pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name)
THREE = [Record(index, NOW + index, b"key", b"value") for index in range(3)]


def validate(data: bytes | None, rules: ProduceRules | None = None, **options: Any) -> BatchView:
    batch = validate_produced(data, rules or ProduceRules(), now_ms=NOW, partition="orders-0", **options)
    view = BatchView(batch.data)
    view.ensure_valid()
    assert view._header == batch.header
    assert view.size == len(batch.data)
    return view


def refused(data: bytes | None, code: ErrorCode, text: str, rules: ProduceRules | None = None) -> None:
    with pytest.raises(ApiException, match=text) as caught:
        validate(data, rules)
    assert caught.value.code == code


def changed(data: bytes, position: int, new: bytes) -> bytes:
    """Return the batch with some bytes replaced and a correct checksum."""
    out = bytearray(data)
    out[position : position + len(new)] = new
    view = BatchView(out)
    header = view._header
    names: tuple[str, ...] = ("attributes", "last_offset_delta", "base_timestamp", "max_timestamp")
    names += ("producer_id", "producer_epoch", "base_sequence", "count")
    return with_header(
        bytes(out[61:]),
        base_offset=header[0],
        leader_epoch=header[2],
        **dict(zip(names, header[5:], strict=True)),
    )


def batch_of(section: bytes, count: int, codec: Compression = Compression.NONE) -> bytes:
    return with_header(
        compress(codec, section),
        base_offset=0,
        leader_epoch=-1,
        attributes=codec,
        last_offset_delta=count - 1,
        base_timestamp=NOW,
        max_timestamp=NOW,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        count=count,
    )


@every_codec
def test_a_valid_batch_passes_unchanged(codec: Compression) -> None:
    data = build_batch(THREE, compression=codec, producer_id=5, producer_epoch=0, base_sequence=0)
    batch = validate_produced(data, ProduceRules(), now_ms=NOW, partition="orders-0")
    assert batch.data is data
    assert batch.header[12] == 3


@every_codec
@given(seed=SEEDS)
def test_any_records_pass(codec: Compression, seed: int) -> None:
    random = Random(seed)
    records = random_records(random, random.choice((1, 2, 70, 200)))
    rules = ProduceRules(max_message_bytes=10**8, timestamp_after_max_ms=2**63 - 1)
    view = validate(build_batch(records, compression=codec), rules)
    assert list(view.records()) == records


@pytest.mark.parametrize("records", [None, b"", bytes(60)])
def test_a_request_without_a_batch_is_refused(records: bytes | None) -> None:
    refused(records, ErrorCode.INVALID_RECORD, "must have at least one")


def test_two_batches_are_refused() -> None:
    refused(build_batch(THREE) * 2, ErrorCode.INVALID_RECORD, "exactly one record batch")


def test_a_truncated_second_batch_is_dropped() -> None:
    data = build_batch(THREE)
    for size in (1, 11, 12, 60, len(data) - 1):
        assert validate(data + data[:size]).tobytes() == data


def test_a_truncated_batch_is_refused() -> None:
    data = build_batch(THREE)
    for size in range(1, len(data)):
        with pytest.raises(ApiException) as caught:
            validate(data[:size])
        assert caught.value.code == ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("magic", [0, 1])
def test_the_older_formats_are_refused(magic: int) -> None:
    data = bytearray(build_batch(THREE))
    data[16] = magic
    refused(bytes(data), ErrorCode.INVALID_RECORD, f"magic version 2, but orders-0 has magic {magic}")


def test_a_wrong_checksum_is_corruption() -> None:
    data = bytearray(build_batch(THREE))
    data[-1] ^= 1
    refused(bytes(data), ErrorCode.CORRUPT_MESSAGE, "Record is corrupt")


def test_a_batch_beyond_the_limit_is_too_large() -> None:
    data = build_batch(THREE)
    validate(data, ProduceRules(max_message_bytes=len(data)))
    refused(data, ErrorCode.MESSAGE_TOO_LARGE, "exceeds", ProduceRules(max_message_bytes=len(data) - 1))


def test_a_base_offset_other_than_0_is_refused() -> None:
    refused(build_batch(THREE[1:], base_offset=1), ErrorCode.INVALID_RECORD, "should be 0, but it is 1")


@pytest.mark.parametrize("count", [-1, 0])
def test_a_count_below_one_is_refused(count: int) -> None:
    data = changed(build_batch(THREE), 57, count.to_bytes(4, "big", signed=True))
    refused(data, ErrorCode.INVALID_RECORD, "Invalid reported count")


def test_a_count_beyond_the_limit_is_refused_before_any_record_is_read() -> None:
    data = batch_of(b"\x0c\x00\x00\x00\x01\x01\x00" * 10, 1_000_001, Compression.ZSTD)
    refused(data, ErrorCode.MESSAGE_TOO_LARGE, "1000001 records has more than the 1000000")


@every_codec
@pytest.mark.parametrize("count", [1, 2, 4, 1_000_000])
def test_a_count_that_does_not_match_the_offsets_is_refused(codec: Compression, count: int) -> None:
    data = changed(build_batch(THREE, compression=codec), 57, count.to_bytes(4, "big"))
    refused(data, ErrorCode.INVALID_RECORD, "Inconsistent batch offset range")


@every_codec
@pytest.mark.parametrize("count", [1, 2, 4, 1_000_000])
def test_a_count_that_does_not_match_the_records_is_refused(codec: Compression, count: int) -> None:
    section = b"".join(encode_record(index, 0, b"k", b"v") for index in range(3))
    refused(batch_of(section, count, codec), ErrorCode.INVALID_RECORD, "Incorrect declared batch size")


def test_control_records_are_refused_from_clients_only() -> None:
    data = build_batch([Record(0, NOW, bytes(4), bytes(6))], is_control=True, producer_id=3, producer_epoch=0)
    refused(data, ErrorCode.INVALID_RECORD, "not allowed to write control records")
    assert validate(data, is_client=False).is_control


def test_a_producer_without_sequence_is_refused() -> None:
    refused(build_batch(THREE, producer_id=3, producer_epoch=0), ErrorCode.INVALID_RECORD, "Invalid sequence number -1")


def test_an_unknown_compression_is_refused() -> None:
    refused(changed(build_batch(THREE), 21, b"\x00\x06"), ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, "type id: 6")


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec], ids=lambda codec: codec.name)
def test_a_batch_that_cannot_be_decompressed_is_refused(codec: Compression) -> None:
    data = changed(build_batch(THREE), 21, codec.to_bytes(2, "big"))
    refused(data, ErrorCode.INVALID_RECORD, "orders-0")


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec], ids=lambda codec: codec.name)
def test_a_decompression_bomb_is_refused_at_the_limit(codec: Compression) -> None:
    rules = ProduceRules(max_message_bytes=10**8, decompressed_size_max=1_000_000)
    one_record = build_batch([Record(0, NOW, None, bytes(20_000_000))], compression=codec)
    refused(one_record, ErrorCode.MESSAGE_TOO_LARGE, "more than", rules)
    many_records = batch_of(b"\x0c\x00\x00\x00\x01\x01\x00" * 400_000, 400_000, codec)
    refused(many_records, ErrorCode.MESSAGE_TOO_LARGE, "more than", rules)


def test_a_compacted_topic_requires_keys() -> None:
    records = [Record(0, NOW, b"k", b""), Record(1, NOW, None, b""), Record(2, NOW, None, b"")]
    validate(build_batch(records))
    with pytest.raises(InvalidRecords, match="2 record errors in total") as caught:
        validate(build_batch(records), ProduceRules(is_compacted=True))
    text = "Compacted topic cannot accept message without key in topic partition orders-0"
    assert caught.value.code == ErrorCode.INVALID_RECORD
    assert caught.value.record_errors == [RecordError(1, text), RecordError(2, text)]


@every_codec
def test_timestamps_have_their_bounds(codec: Compression) -> None:
    late, early = NOW + HOUR + 1, NOW - 1001
    rules = ProduceRules(timestamp_before_max_ms=1000)
    records = [
        Record(index, time, b"k", b"") for index, time in enumerate((NOW, late, early, -1, NOW + HOUR, NOW - 1000))
    ]
    with pytest.raises(InvalidRecords, match="rejected due to invalid timestamp") as caught:
        validate(build_batch(records, compression=codec), rules)
    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in caught.value.record_errors] == [1, 2]
    assert f"Timestamp {late} of message with offset 1 is out of range" in caught.value.record_errors[0][1]
    for time in (-1, NOW + HOUR, NOW - 1000):
        validate(build_batch([Record(0, time, b"k", b"")]), rules)


def test_the_timestamps_of_a_coordinator_have_no_bounds() -> None:
    """Its clock advances steadily when the wall clock is set, even by hours, and its groups continue too."""
    for time in (NOW - 10 * HOUR, NOW + 10 * HOUR):
        data = build_batch([Record(0, time, b"k", b"")])
        view = validate(data, ProduceRules(timestamp_before_max_ms=1000), is_client=False)
        assert view.max_timestamp == time


def test_log_append_time_needs_no_bounds_and_is_stamped() -> None:
    data = build_batch([Record(0, NOW + 10 * HOUR, b"k", b"")])
    view = validate(data, ProduceRules(is_log_append_time=True))
    assert (view.timestamp_type, view.max_timestamp) == (TimestampType.LOG_APPEND_TIME, NOW)
    assert [record.timestamp for record in view.records()] == [NOW]
    assert data == build_batch([Record(0, NOW + 10 * HOUR, b"k", b"")])  # The producer's buffer stays unchanged.


def test_a_client_may_not_claim_log_append_time_if_the_broker_sets_it() -> None:
    data = build_batch(THREE, log_append_time_ms=NOW)
    with pytest.raises(InvalidRecords, match="invalid timestamp") as caught:
        validate(data, ProduceRules(is_log_append_time=True))
    assert caught.value.code == ErrorCode.INVALID_TIMESTAMP
    assert [index for index, _ in caught.value.record_errors] == [0, 1, 2]
    described = f"DefaultRecord(offset=0, timestamp={NOW}, key=3 bytes, value=5 bytes)"
    assert described in caught.value.record_errors[0][1]


def test_log_append_time_that_a_client_claims_is_validated_and_then_dropped() -> None:
    view = validate(build_batch(THREE, log_append_time_ms=NOW + 3))
    assert (view.timestamp_type, view.max_timestamp) == (TimestampType.CREATE_TIME, NOW + 3)
    with pytest.raises(InvalidRecords, match="invalid timestamp"):
        validate(build_batch(THREE, log_append_time_ms=NOW + HOUR + 1))


def test_a_wrong_largest_timestamp_is_corrected() -> None:
    view = validate(changed(build_batch(THREE), 35, (NOW - 5).to_bytes(8, "big")))
    assert view.max_timestamp == NOW + 2
    assert list(view.records()) == THREE


def test_offsets_that_do_not_count_from_0_are_renumbered() -> None:
    section = b"".join(encode_record(delta, delta, b"k%d" % delta, None, [("h", b"")]) for delta in (0, 0, 7))
    view = validate(batch_of(section, 3))
    assert [(record.offset, record.timestamp, record.key) for record in view.records()] == [
        (0, NOW, b"k0"),
        (1, NOW, b"k0"),
        (2, NOW + 7, b"k7"),
    ]


@pytest.mark.parametrize("codec", [codec for codec in Compression if codec], ids=lambda codec: codec.name)
def test_compressed_offsets_that_do_not_count_from_0_are_refused(codec: Compression) -> None:
    section = b"".join(encode_record(delta, 0, b"k", None) for delta in (0, 2))
    refused(batch_of(section, 2, codec), ErrorCode.INVALID_RECORD, "are not 0, 1, 2")


@pytest.mark.parametrize("source", Compression, ids=lambda codec: codec.name)
@pytest.mark.parametrize("target", Compression, ids=lambda codec: codec.name)
def test_a_topic_may_require_another_compression(source: Compression, target: Compression) -> None:
    data = build_batch(
        THREE, compression=source, producer_id=9, producer_epoch=1, base_sequence=3, is_transactional=True
    )
    view = validate(data, ProduceRules(compression=target))
    assert view.compression == target
    assert list(view.records()) == THREE
    assert (view.producer_id, view.producer_epoch, view.base_sequence, view.is_transactional) == (9, 1, 3, True)
    if source == target:
        assert view.tobytes() == data


def test_a_batch_that_grows_beyond_the_limit_is_too_large() -> None:
    data = build_batch([Record(0, NOW, None, bytes(100_000))], compression=Compression.ZSTD)
    rules = ProduceRules(max_message_bytes=50_000, compression=Compression.NONE)
    refused(data, ErrorCode.MESSAGE_TOO_LARGE, "exceeds", rules)


def test_a_timestamp_beyond_64_bits_is_refused() -> None:
    data = batch_of(encode_record(0, 2**63 - 1, None, b""), 1)
    refused(data, ErrorCode.INVALID_RECORD, "does not fit 64 bits", ProduceRules(timestamp_after_max_ms=2**63 - 1))


@given(seed=SEEDS)
def test_damaged_batches_are_refused_or_readable(seed: int) -> None:
    """Accepted batches can be read: a consumer never receives a batch that it can't process."""
    random = Random(seed)
    codec = random.choice(list(Compression))
    records = random_records(random, random.choice((1, 3, 70)))
    section = b"".join(
        encode_record(index, record.timestamp - NOW, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    )
    rules = ProduceRules(timestamp_after_max_ms=2**63 - 1, decompressed_size_max=5_000_000)
    for _ in range(5):
        try:
            view = validate(batch_of(mutated(section, random), len(records), codec), rules)
        except ApiException:
            continue
        assert [record.offset for record in view.records()] == list(range(len(records)))


@given(seed=SEEDS)
def test_the_validation_accepts_what_the_reader_accepts(seed: int) -> None:
    random = Random(seed)
    records = random_records(random, random.choice((1, 3, 70)))
    base = records[0].timestamp
    section = b"".join(
        encode_record(index, record.timestamp - base, record.key, record.value, record.headers)
        for index, record in enumerate(records)
    )
    if random.random() < 0.7:
        section = mutated(section, random)
    view = BatchView(batch_of(section, len(records)))
    try:
        read = list(view.records())
    except DecodeError:
        for walk in (walk_records, walk_in_pieces):
            with pytest.raises(DecodeError):
                walk(section, 0, len(records))
        return
    for walk in (walk_records, walk_in_pieces):
        seen = walk(section, 0, len(records))
        assert seen.null_key_count == sum(record.key is None for record in read)
        assert seen.is_in_order == ([record.offset for record in read] == list(range(len(read))))
        if all(abs(record.timestamp) < 2**61 for record in read):
            assert NOW + seen.max_timestamp_delta == max(record.timestamp for record in read)
            assert NOW + seen.min_timestamp_delta == min(NOW, *(record.timestamp for record in read))


def walk_in_pieces(section: bytes, position: int, count: int) -> RecordWalk:
    """Use snappy in small blocks, so that records lie across the pieces."""
    random = Random(len(section))
    data, start = compress(Compression.SNAPPY, b""), position
    while start < len(section):
        size = random.choice((1, 2, 9, 500))
        block = bytes(cramjam.snappy.compress_raw(section[start : start + size]))
        data += len(block).to_bytes(4, "big") + block
        start += size
    return walk_compressed(Compression.SNAPPY, data, count, 10_000_000)
