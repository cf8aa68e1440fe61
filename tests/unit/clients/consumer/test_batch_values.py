"""The values of a batch without its records: the same as those of the records, or None."""

from __future__ import annotations

from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from barnabas.clients.consumer.completed_fetch import batch_values
from barnabas.protocol.compression import Compression
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BATCH_HEADER_SIZE, BatchView, Record
from barnabas.protocol.record_batch_builder import build_batch

contents = st.none() | st.binary(max_size=200) | st.binary(min_size=8180, max_size=8200)
headers = st.lists(st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=5)), max_size=2).map(tuple)


def batch_of(records: list[Record], compression: Compression = Compression.NONE) -> BatchView:
    return BatchView(build_batch(records, compression=compression))


@given(st.lists(st.tuples(contents, contents, headers, st.integers(0, 2**40)), min_size=1, max_size=100))
def test_values_are_those_of_the_records(parts: list[tuple[bytes | None, bytes | None, tuple, int]]) -> None:
    records = [Record(offset, time, key, value, more) for offset, (key, value, more, time) in enumerate(parts)]
    found = batch_values(batch_of(records, Compression.LZ4), b"null")
    size = sum(len(part or b"") for record in records for part in (record.key, record.value))
    assert found == ([b"null" if record.value is None else record.value for record in records], size)


def test_offsets_with_gaps_are_left_to_the_records() -> None:
    assert batch_values(batch_of([Record(0, 0, None, b"a"), Record(2, 0, None, b"b")]), b"") is None


@given(st.binary(min_size=1, max_size=60), st.integers(1, 3))
def test_malformed_records_are_refused_or_read_alike(section: bytes, count: int) -> None:
    whole = bytearray(build_batch([Record(offset, 0, None, b"") for offset in range(count)]))
    whole[BATCH_HEADER_SIZE:] = section
    whole[8:12] = (len(whole) - 12).to_bytes(4, "big")
    batch = BatchView(bytes(whole))
    found = batch_values(batch, b"")
    with suppress(DecodeError):
        values = [record.value or b"" for record in batch.records()]
        assert found is None or found[0] == values
