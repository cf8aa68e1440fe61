from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.protocol import record_batch_builder
from barnabas.protocol.compression import Compression
from barnabas.protocol.errors import EncodeError
from barnabas.protocol.record_batch import BatchView, Record, TimestampType
from barnabas.protocol.record_batch_builder import RecordBatchBuilder, build_batch, empty_batch, retain_records
from tests.unit.protocol.samples import random_records

SEEDS = st.integers(min_value=0, max_value=2**64 - 1)
NOW = 1_750_000_000_000
FIVE = [Record(100 + index, NOW + index, b"key%d" % index, b"value") for index in range(5)]
PRODUCER: dict[str, Any] = {"producer_id": 7, "producer_epoch": 2, "base_sequence": 40}


@given(seed=SEEDS)
def test_records_added_one_by_one_or_together_make_the_same_batch(seed: int) -> None:
    random = Random(seed)
    records = random_records(random, random.choice((1, 4, 100)), base_offset=50, gaps=True)
    builder = RecordBatchBuilder(base_offset=50, leader_epoch=1, compression=Compression.LZ4)
    for record in records:
        builder.append(*record)
    assert builder.build() == build_batch(records, base_offset=50, leader_epoch=1, compression=Compression.LZ4)


def test_the_current_size_equals_that_of_the_uncompressed_batch() -> None:
    builder = RecordBatchBuilder(base_offset=100)
    assert builder.size == 61
    for record in FIVE:
        builder.append(*record)
        assert builder.size == len(builder.build())
    assert (builder.count, builder.last_offset) == (5, 104)


def test_offsets_must_grow_and_fit() -> None:
    builder = RecordBatchBuilder(base_offset=100)
    for offset in (99, 100 + 2**31):
        with pytest.raises(EncodeError, match=f"offset {offset} cannot follow"):
            builder.append(offset, NOW, None, None)
    builder.append(100, NOW, None, None)
    with pytest.raises(EncodeError):
        builder.append(100, NOW, None, None)
    with pytest.raises(EncodeError, match="cannot end at 99"):
        builder.build(last_offset=99)


def test_a_batch_without_records_is_refused() -> None:
    with pytest.raises(EncodeError):
        RecordBatchBuilder().build()


@pytest.mark.parametrize("codec", Compression, ids=lambda codec: codec.name)
def test_compaction_keeps_offsets_sequences_and_producer(codec: Compression) -> None:
    original = BatchView(build_batch(FIVE, base_offset=100, leader_epoch=6, compression=codec, **PRODUCER))
    batch = BatchView(retain_records(original, [FIVE[1], FIVE[3]]))
    batch.ensure_valid()
    assert list(batch.records()) == [FIVE[1], FIVE[3]]
    assert (batch.base_offset, batch.last_offset, batch.count) == (100, 104, 2)
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence, batch.last_sequence) == (7, 2, 40, 44)
    assert (batch.compression, batch.leader_epoch, batch.max_timestamp) == (codec, 6, NOW + 3)
    assert batch.delete_horizon_ms is None


def test_compaction_can_set_a_delete_horizon_and_keeps_an_existing_one() -> None:
    original = BatchView(build_batch(FIVE, base_offset=100))
    first = BatchView(retain_records(original, FIVE[:3], delete_horizon_ms=NOW + 1000))
    assert (first.delete_horizon_ms, list(first.records())) == (NOW + 1000, FIVE[:3])
    second = BatchView(retain_records(first, FIVE[:1]))
    assert (second.delete_horizon_ms, list(second.records())) == (NOW + 1000, FIVE[:1])


def test_compaction_keeps_log_append_time() -> None:
    original = BatchView(build_batch(FIVE, base_offset=100, log_append_time_ms=NOW + 9))
    batch = BatchView(retain_records(original, list(original.records())[2:]))
    assert batch.timestamp_type is TimestampType.LOG_APPEND_TIME
    assert [record.timestamp for record in batch.records()] == [NOW + 9] * 3


def test_a_batch_that_lost_all_records_keeps_its_offsets_and_its_producer() -> None:
    original = BatchView(
        build_batch(FIVE, base_offset=100, compression=Compression.ZSTD, is_transactional=True, **PRODUCER)
    )
    for emptied in (retain_records(original, []), empty_batch(original)):
        batch = BatchView(emptied)
        batch.ensure_valid()
        assert list(batch.records()) == []
        assert (batch.size, batch.count, batch.compression) == (61, 0, Compression.NONE)
        assert (batch.base_offset, batch.last_offset, batch.last_sequence) == (100, 104, 44)
        assert (batch.base_timestamp, batch.max_timestamp, batch.is_transactional) == (-1, NOW + 4, True)


@given(
    st.lists(st.binary(max_size=200), min_size=1, max_size=200),
    st.integers(0, 3),
    st.sampled_from([0, 60, 8_100, 1_048_500]),
    st.sampled_from([None, 7]),
)
def test_values_added_together_are_written_like_single_ones(
    values: list[bytes], before: int, gap: int, log_append_time_ms: int | None
) -> None:
    def begun() -> RecordBatchBuilder:
        builder = RecordBatchBuilder(base_offset=5, leader_epoch=1, log_append_time_ms=log_append_time_ms)
        for number in range(before):
            builder.append(5 + number, 1_000, b"key", b"value")
        if before:
            builder.append(5 + before + gap, 1_000, None, None)
        return builder

    together, apart = begun(), begun()
    together.append_values(1_234_567, values)
    for value in values:
        apart.append(apart.last_offset + 1, 1_234_567, None, value)
    assert together.build() == apart.build()
    assert (together.count, together.last_offset) == (apart.count, apart.last_offset)


def test_many_values_are_joined_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    values = [b"%d" % number for number in range(300)]
    at_once = record_batch_builder._framed(values, 60, b"\x00")
    monkeypatch.setattr(record_batch_builder, "_PARTS_JOINED_AT_ONCE", 35)
    assert record_batch_builder._framed(values, 60, b"\x00") == at_once


def test_values_beyond_the_largest_offset_are_refused() -> None:
    builder = RecordBatchBuilder(base_offset=0)
    builder.append(0x7FFFFFFE, 0, None, b"")
    with pytest.raises(EncodeError, match="2 records do not fit"):
        builder.append_values(0, [b"", b""])
    builder.append_values(0, [])
    assert builder.count == 1
