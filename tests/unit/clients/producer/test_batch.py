"""The contents of a producer's batch are the bytes that are sent."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.clients.producer.batch import NO_PRODUCER, ProducerBatch, ProducerId, Run, record_size_max
from barnabas.protocol.compression import Compression
from barnabas.protocol.record_batch import BatchView
from barnabas.protocol.record_batch_builder import build_batch

runs = st.lists(
    st.tuples(st.integers(0, 300), st.integers(1, 90), st.integers(0, 5_000)), min_size=1, max_size=6
)  # size, count, later by


def filled(parts: list[tuple[int, int, int]]) -> tuple[ProducerBatch, list[tuple[int, bytes]]]:
    timestamp = 1_700_000_000_000
    batch = ProducerBatch(3, 0.0, timestamp)
    records: list[tuple[int, bytes]] = []
    for size, count, later in parts:
        values = [bytes([65 + index % 26]) * size for index in range(count)]
        timestamp += later if records else 0
        batch.append(values, Run(0.0, 0.0, count), timestamp)
        records += [(timestamp, value) for value in values]
    return batch, records


@given(runs, st.sampled_from(list(Compression)))
def test_records_are_read_as_they_were_written(parts: list[tuple[int, int, int]], compression: Compression) -> None:
    batch, records = filled(parts)
    view = BatchView(batch.encode(compression, None, ProducerId(7, 2)))
    view.ensure_valid()
    assert [(record.timestamp, record.key, record.value) for record in view.records()] == [
        (t, None, v) for t, v in records
    ]
    assert (view.count, view.producer_id, view.producer_epoch) == (len(records), 7, 2)
    assert view.max_timestamp == max(timestamp for timestamp, _ in records)


@given(runs)
def test_the_bytes_equal_those_of_the_plain_builder_and_the_size_is_known_before(
    parts: list[tuple[int, int, int]],
) -> None:
    from barnabas.protocol.record_batch import Record

    batch, records = filled(parts)
    plain = build_batch(Record(offset, time, None, value) for offset, (time, value) in enumerate(records))
    assert batch.size in (len(plain), len(plain) - 1)  # The last record's end is written with the batch.
    assert batch.size <= 61 + sum(record_size_max(len(value)) for _, value in records)
    assert batch.encode(Compression.NONE, None, NO_PRODUCER) == plain


def test_a_retried_batch_has_the_same_bytes() -> None:
    batch, _ = filled([(100, 5, 0)])
    batch.sequence = 17
    first = batch.encode(Compression.ZSTD, None, ProducerId(1, 0))
    assert batch.encode(Compression.ZSTD, None, ProducerId(1, 0)) is first
    assert BatchView(first).base_sequence == 17


def test_a_batch_may_have_more_records_than_cached_prefixes() -> None:
    batch, records = filled([(1, 5_000, 0)])
    assert [record.value for record in BatchView(batch.encode(Compression.NONE, None, NO_PRODUCER)).records()] == [
        value for _, value in records
    ]
