from __future__ import annotations

import pytest

from barnabas.common.errors import ApiException, ErrorCode, InvalidRecords
from barnabas.protocol.compression import Compression
from barnabas.protocol.produce_validation import ProduceRules, WorkBudget, WorkBudgetExceeded, validate_produced
from barnabas.protocol.record_batch import Record
from barnabas.protocol.record_batch_builder import build_batch

NOW = 1_750_000_000_000
MIB = 1024 * 1024


def batch(count: int = 1, size: int = 10, codec: Compression = Compression.NONE, timestamp: int = NOW) -> bytes:
    return build_batch([Record(i, timestamp, None, bytes(size)) for i in range(count)], compression=codec)


def validate(data: bytes, budget: WorkBudget | None, **rules: object) -> None:
    checked = ProduceRules(**rules)  # type: ignore[arg-type]
    assert validate_produced(data, checked, now_ms=NOW, partition="orders-0", budget=budget).data


def test_ordinary_batches_fit() -> None:
    validate(batch(9_000, 100), WorkBudget())
    for codec in Compression:
        validate(batch(1000, 100, codec), WorkBudget())


def test_a_batch_of_many_records_does_not_fit() -> None:
    data = batch(20_000)
    with pytest.raises(WorkBudgetExceeded):
        validate(data, WorkBudget())
    validate(data, None)


def test_the_batches_of_one_request_share_the_budget() -> None:
    budget = WorkBudget(records=10)
    validate(batch(6), budget)
    with pytest.raises(WorkBudgetExceeded):
        validate(batch(6), budget)
    validate(batch(4), budget)


@pytest.mark.parametrize("codec", [Compression.GZIP, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD])
def test_small_compressed_bytes_with_a_large_content_do_not_fit(codec: Compression) -> None:
    budget = WorkBudget()
    data = batch(1, 3 * MIB, codec)
    assert len(data) < MIB // 4
    with pytest.raises(WorkBudgetExceeded):
        validate(data, budget)
    validate(data, None)
    with pytest.raises(WorkBudgetExceeded):  # Nor does any compressed batch after it.
        validate(batch(1, 10, codec), budget)


def test_the_limit_of_the_rules_is_an_error_of_the_client_and_not_of_the_caller() -> None:
    with pytest.raises(ApiException) as caught:
        validate(batch(1, MIB, Compression.GZIP), WorkBudget(), decompressed_size_max=1000)
    assert caught.value.code == ErrorCode.MESSAGE_TOO_LARGE


def test_compressing_again_counts_as_work_too() -> None:
    large = batch(1, 700_000)
    validate(large, WorkBudget())
    with pytest.raises(WorkBudgetExceeded):
        validate(large, WorkBudget(), compression=Compression.GZIP)
    validate(batch(100, 100), WorkBudget(), compression=Compression.GZIP)


def test_naming_many_invalid_records_counts_as_work_too() -> None:
    too_new = NOW + 100_000_000
    with pytest.raises(InvalidRecords):
        validate(batch(1000, timestamp=too_new), WorkBudget())
    with pytest.raises(WorkBudgetExceeded):
        validate(batch(5000, timestamp=too_new), WorkBudget())


def test_at_most_2000_invalid_records_are_named() -> None:
    with pytest.raises(InvalidRecords, match="due to 3000 record errors") as caught:
        validate(batch(3000), None, is_compacted=True)
    assert [index for index, _ in caught.value.record_errors] == list(range(2000))
