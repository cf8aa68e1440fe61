"""How records become requests, and the keys of requests."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from barnabas.common.topic_partition import TopicPartition
from barnabas.connect_spark.connectors.http.record_spool import RecordSpool
from barnabas.connect_spark.connectors.http.request_batch import (
    BodyFormat,
    HttpRecord,
    RequestBatch,
    grouped,
    url_for,
)

P0 = TopicPartition("orders", 0)


def records(*bodies: bytes, first: int = 5, target: str = "orders") -> list[HttpRecord]:
    return [HttpRecord(first + at, target, body) for at, body in enumerate(bodies)]


def test_the_key_names_connector_topic_partition_and_offsets() -> None:
    batch = RequestBatch(P0, tuple(records(b"1", b"2", b"3")))
    assert batch.key("shop / eu") == "shop%20%2F%20eu:orders-0-5-7"
    assert [half.key("") for half in batch.halves()] == ["orders-0-5-5", "orders-0-6-7"]
    assert str(batch) == "orders-0, offsets 5 to 7"


def test_each_format_has_its_body() -> None:
    batch = RequestBatch(P0, tuple(records(b'{"a":1}', b"2")))
    assert batch.body(BodyFormat.ARRAY) == b'[{"a":1},2]'
    assert batch.body(BodyFormat.LINES) == b'{"a":1}\n2\n'
    assert batch.halves()[0].body(BodyFormat.RECORD) == b'{"a":1}'


def test_a_request_has_one_target() -> None:
    mixed = records(b"1", b"2") + records(b"3", first=7, target="other")
    assert [len(batch.records) for batch in grouped(P0, mixed, records_max=9, bytes_max=99)] == [2, 1]
    assert url_for("http://h/${topic}/x", "a/b c") == "http://h/a%2Fb%20c/x"


@given(st.lists(st.binary(max_size=9), max_size=40), st.integers(1, 8), st.integers(1, 20))
def test_requests_have_all_records_in_order_within_their_limits(
    bodies: list[bytes], records_max: int, bytes_max: int
) -> None:
    found = list(grouped(P0, records(*bodies), records_max=records_max, bytes_max=bytes_max))
    assert [record for batch in found for record in batch.records] == records(*bodies)
    for batch in found:
        assert 1 <= len(batch.records) <= records_max
        assert len(batch.records) == 1 or sum(len(record.body) for record in batch.records) <= bytes_max


def test_a_spool_returns_each_partition_in_order(tmp_path: Path) -> None:
    other = TopicPartition("orders", 1)
    with RecordSpool(tmp_path) as spool:
        for at in (7, 9, 8):
            spool.add(P0, HttpRecord(at, "orders", b"x" * at))
            spool.add(other, HttpRecord(at + 10, f"to-{at}", b""))
        assert spool.partitions == [P0, other]
        assert [(record.offset, len(record.body)) for record in spool.records(P0)] == [(7, 7), (8, 8), (9, 9)]
        assert [(record.offset, record.target) for record in spool.records(other)] == [
            (17, "to-7"),
            (18, "to-8"),
            (19, "to-9"),
        ]
