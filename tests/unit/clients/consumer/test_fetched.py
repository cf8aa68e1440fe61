"""Which of the fetched records a consumer is given."""

from __future__ import annotations

import pytest

from barnabas.clients.consumer.fetched import Fetched, count_records
from barnabas.protocol.control_record import ControlRecordType, control_record_key
from barnabas.protocol.record_batch import BatchView, CorruptRecordError, Record
from barnabas.protocol.record_batch_builder import build_batch


def batch(base_offset: int, *values: bytes, producer_id: int = -1, **options: bool) -> BatchView:
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


def test_records_before_the_offset_that_was_asked_for_are_left_out() -> None:
    fetched = Fetched(0, 2, [batch(0, b"a", b"b", b"c"), batch(3, b"d")])
    assert values(fetched) == [b"c", b"d"]
    assert count_records(fetched) == (2, 2)


def test_markers_are_never_given() -> None:
    log = [batch(0, b"a", producer_id=5, is_transactional=True), marker(1, 5, ControlRecordType.COMMIT), batch(2, b"b")]
    assert values(Fetched(0, 0, log)) == [b"a", b"b"]


def test_what_was_aborted_is_left_out_until_its_marker() -> None:
    log = [
        batch(0, b"before", producer_id=5, is_transactional=True),
        marker(1, 5, ControlRecordType.COMMIT),
        batch(2, b"aborted", producer_id=5, is_transactional=True),
        batch(3, b"another's", producer_id=6, is_transactional=True),
        batch(4, b"plain"),
        marker(5, 5, ControlRecordType.ABORT),
        batch(6, b"after", producer_id=5, is_transactional=True),
    ]
    assert values(Fetched(0, 0, log, [(5, 2)])) == [b"before", b"another's", b"plain", b"after"]
    assert len(values(Fetched(0, 0, log, None))) == 5


def test_a_wrong_checksum_is_found_unless_nobody_looks() -> None:
    whole = batch(0, b"value")
    broken = bytearray(whole.buf)
    broken[-2] ^= 1
    with pytest.raises(CorruptRecordError):
        values(Fetched(0, 0, [BatchView(broken)]))
    assert len(values(Fetched(0, 0, [BatchView(broken)], is_checked=False))) == 1


def test_bytes_are_those_of_keys_and_values() -> None:
    records = [Record(0, 0, b"key", b"value"), Record(1, 0, None, None)]
    assert count_records(Fetched(0, 0, [BatchView(build_batch(records))])) == (2, 8)
