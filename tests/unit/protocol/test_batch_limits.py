"""Headers and decompressed bytes of a batch are counted before they use memory or time."""

import tracemalloc

import pytest

from barnabas.common.crc32c import crc32c
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.protocol.compression import Compression, compress
from barnabas.protocol.produce_validation import (
    BatchLimits,
    ProduceRules,
    WorkBudget,
    WorkBudgetExceeded,
    validate_produced,
)
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch

NOW = 1_700_000_000_000


def batch(records: int, headers: int, codec: Compression = Compression.NONE) -> bytes:
    given = tuple(("", b"") for _ in range(headers))
    return build_batch([Record(index, NOW, None, b"", given) for index in range(records)], compression=codec)


def validate(data: bytes, limits: BatchLimits, budget: WorkBudget | None = None) -> None:
    rules = ProduceRules(max_message_bytes=10**9)
    validate_produced(data, rules, now_ms=NOW, partition="orders-0", limits=limits, budget=budget)


@pytest.mark.parametrize("codec", list(Compression))
def test_a_record_may_have_as_many_headers_as_the_limit(codec: Compression) -> None:
    limits = BatchLimits(record_headers=20)
    validate(batch(3, 20, codec), limits)
    with pytest.raises(ApiException, match="A record has 21 headers; at most 20 are accepted") as refused:
        validate(batch(3, 21, codec), limits)
    assert refused.value.code is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("codec", list(Compression))
def test_a_batch_may_have_as_many_headers_as_the_limit(codec: Compression) -> None:
    limits = BatchLimits(headers=60)
    validate(batch(3, 20, codec), limits)
    with pytest.raises(ApiException, match="more than the 60 headers that are accepted") as refused:
        validate(batch(4, 20, codec), limits)
    assert refused.value.code is ErrorCode.INVALID_RECORD


def test_decompressed_bytes_are_limited_by_the_node_whatever_the_topic_accepts() -> None:
    data = build_batch([Record(0, NOW, None, bytes(100_000))], compression=Compression.GZIP)
    validate(data, BatchLimits(decompressed_bytes=200_000))
    with pytest.raises(ApiException) as refused:
        validate(data, BatchLimits(decompressed_bytes=50_000))
    assert refused.value.code is ErrorCode.MESSAGE_TOO_LARGE


@pytest.mark.parametrize("codec", [Compression.NONE, Compression.ZSTD])
def test_headers_count_against_the_budget_of_a_request(codec: Compression) -> None:
    budget = WorkBudget(headers=100)
    validate(batch(4, 20, codec), BatchLimits(), budget)
    assert budget.headers_left == 20
    with pytest.raises(WorkBudgetExceeded):
        validate(batch(4, 20, codec), BatchLimits(), budget)
    validate(batch(4, 20, codec), BatchLimits())


def test_a_thread_pauses_between_pieces_with_the_same_result() -> None:
    pauses: list[int] = []
    data = batch(9_000, 1, Compression.LZ4)
    validate(data, BatchLimits(pause=lambda: pauses.append(1)))
    validate(batch(9_000, 1), BatchLimits(pause=lambda: pauses.append(1)))
    assert len(pauses) == 8
    cut = bytearray(data)
    cut[57:61] = (9_001).to_bytes(4, "big")
    with pytest.raises(ApiException):
        validate(bytes(cut), BatchLimits(pause=lambda: None))


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.LZ4, Compression.ZSTD, Compression.SNAPPY])
def test_a_large_record_is_checked_without_being_held_in_memory(codec: Compression) -> None:
    records = [
        Record(0, NOW, b"k", bytes(10), ()),
        Record(1, NOW + 5, None, bytes(30_000_000), (("h", b"v"), ("empty", None))),
        Record(2, NOW - 5, b"k" * 3_000_000, None, ()),
        Record(3, NOW, b"k", b"v", ()),
    ]
    data = build_batch(records, compression=codec)
    tracemalloc.start()
    validate(data, BatchLimits())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 12_000_000


@pytest.mark.parametrize("cut", [1, 7, 1_000_000])
def test_a_truncated_large_record_is_refused(cut: int) -> None:
    whole = build_batch([Record(0, NOW, b"k", bytes(3_000_000), (("h", b"v"),))])
    section = whole[61:-cut]
    data = bytearray(build_batch([Record(0, NOW, None, b"")], compression=Compression.ZSTD)[:61])
    data += compress(Compression.ZSTD, section)
    data[8:12] = (len(data) - 12).to_bytes(4, "big")
    data[17:21] = crc32c(memoryview(data)[21:]).to_bytes(4, "big")
    with pytest.raises(ApiException) as refused:
        validate(bytes(data), BatchLimits())
    assert refused.value.code is ErrorCode.INVALID_RECORD
