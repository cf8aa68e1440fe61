"""Which of the fetched records a consumer receives."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from barnabas.clients.consumer.completed_fetch import Fetched, count_records
from barnabas.protocol.control_record import ControlRecordType, control_record_key
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.record_batch import BatchView, CorruptRecordError, Record
from barnabas.protocol.record_batch_builder import build_batch


def batch(base_offset: int, *values: bytes, producer_id: int = -1, **options: Any) -> BatchView:
    records = [Record(base_offset + i, 0, None, value) for i, value in enumerate(values)]
    return BatchView(
        build_batch(records, base_offset=base_offset, producer_id=producer_id, producer_epoch=0, **options)
    )


def marker(offset: int, producer_id: int, type_: ControlRecordType) -> BatchView:
    record = Record(offset, 0, control_record_key(type_), b"\0\0\0\0\0\0")
    return BatchView(
        build_batch(
            [record], base_offset=offset, producer_id=producer_id, producer_epoch=0,
            is_transactional=True, is_control=True,
        )
    )  # fmt: skip


def values(fetched: Fetched) -> list[bytes | None]:
    return [record.value for record in fetched.records()]


def test_records_before_the_requested_offset_are_omitted() -> None:
    fetched = Fetched("orders", 0, 2, [batch(0, b"a", b"b", b"c"), batch(3, b"d")])
    assert values(fetched) == [b"c", b"d"]
    assert count_records(fetched) == (2, 2)


def test_markers_are_never_returned() -> None:
    log = [batch(0, b"a", producer_id=5, is_transactional=True), marker(1, 5, ControlRecordType.COMMIT), batch(2, b"b")]
    assert values(Fetched("orders", 0, 0, log)) == [b"a", b"b"]


def test_aborted_records_are_omitted_up_to_their_marker() -> None:
    log = [
        batch(0, b"before", producer_id=5, is_transactional=True),
        marker(1, 5, ControlRecordType.COMMIT),
        batch(2, b"aborted", producer_id=5, is_transactional=True),
        batch(3, b"another's", producer_id=6, is_transactional=True),
        batch(4, b"plain"),
        marker(5, 5, ControlRecordType.ABORT),
        batch(6, b"after", producer_id=5, is_transactional=True),
    ]
    assert values(Fetched("orders", 0, 0, log, [(5, 2)])) == [b"before", b"another's", b"plain", b"after"]
    assert len(values(Fetched("orders", 0, 0, log, None))) == 5


def test_a_wrong_checksum_is_found_unless_checks_are_off() -> None:
    whole = batch(0, b"value")
    broken = bytearray(whole.buf)
    broken[-2] ^= 1
    with pytest.raises(CorruptRecordError):
        values(Fetched("orders", 0, 0, [BatchView(broken)]))
    assert len(values(Fetched("orders", 0, 0, [BatchView(broken)], is_checked=False))) == 1


texts = st.none() | st.binary(max_size=300)


@given(st.lists(st.tuples(texts, texts, st.integers(0, 10**6)), min_size=1, max_size=100), st.integers(0, 110))
def test_counting_agrees_with_reading(fields: list[tuple[bytes | None, bytes | None, int]], from_offset: int) -> None:
    headers = (("header", b"value"), ("none", None))
    records = [
        Record(offset * 3, 1_000 + later, key, value, headers if later % 3 == 0 else ())
        for offset, (key, value, later) in enumerate(fields)
    ]
    fetched = Fetched("orders", 0, from_offset, [BatchView(build_batch(records))])
    read = list(fetched.records())
    assert count_records(fetched) == (len(read), _size(read))


@given(st.binary(min_size=1, max_size=40), st.integers(0, 200))
@example(b"\x00\x80\x80\x80", 1)  # A record before its batch's first offset.
def test_counting_malformed_bytes_raises_what_reading_raises(garbage: bytes, position: int) -> None:
    data = bytearray(build_batch([Record(offset, 0, b"key", b"value" * 10) for offset in range(3)]))
    start = 61 + position % (len(data) - 61)
    data[start : start + len(garbage)] = garbage[: len(data) - start]
    fetched = Fetched("orders", 0, 0, [BatchView(data)], is_checked=False)
    try:
        read = list(fetched.records())
    except DecodeError:
        with suppress(DecodeError):
            count_records(fetched)
    else:
        assert count_records(fetched) == (len(read), _size(read))


def test_bytes_are_those_of_keys_and_values() -> None:
    records = [Record(0, 0, b"key", b"value"), Record(1, 0, None, None)]
    assert count_records(Fetched("orders", 0, 0, [BatchView(build_batch(records))])) == (2, 8)


def _size(records: list[Record]) -> int:
    return sum(len(record.key or b"") + len(record.value or b"") for record in records)
