"""Offset, time and transaction indexes: their results, and the files that they refuse."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from barnabas.storage.errors import CorruptIndexError
from barnabas.storage.offset_index import OffsetIndex
from barnabas.storage.time_index import TimeIndex
from barnabas.storage.transaction_index import AbortedTransaction, TransactionIndex

BASE = 1000


@pytest.fixture
def path(tmp_path: Path) -> str:
    return str(tmp_path / "index")


ENTRIES = st.lists(st.tuples(st.integers(1, 50), st.integers(1, 5000)), max_size=40)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=ENTRIES)
def test_an_offset_is_found_at_the_last_entry_that_is_not_above_it(path: str, steps: list[tuple[int, int]]) -> None:
    Path(path).unlink(missing_ok=True)
    index = OffsetIndex(path, BASE)
    entries: list[tuple[int, int]] = []
    offset, position = BASE - 1, 0
    for more_offset, more_position in steps:
        offset, position = offset + more_offset, position + more_position
        index.append(offset, position)
        entries.append((offset, position))
    index.write()
    for opened in (index, OffsetIndex(path, BASE)):
        opened.sanity_check()
        assert opened.count == len(entries)
        for wanted in range(BASE, offset + 2):
            assert opened.lookup(wanted) == max((at for found, at in entries if found <= wanted), default=0)
        for wanted in range(0, position + 2, 97):
            assert opened.offset_after(wanted) == next((found + 1 for found, at in entries if at >= wanted), None)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.tuples(st.integers(-5, 20), st.integers(1, 9)), max_size=40))
def test_a_timestamp_is_found_at_or_before_its_batch(path: str, steps: list[tuple[int, int]]) -> None:
    Path(path).unlink(missing_ok=True)
    index = TimeIndex(path, BASE)
    timestamp, offset = 0, BASE
    entries: list[tuple[int, int]] = []
    for more_time, more_offset in steps:
        timestamp, offset = max(timestamp + more_time, 0), offset + more_offset
        index.maybe_append(timestamp, offset)
        if timestamp > max((found for found, _ in entries), default=-1):
            entries.append((timestamp, offset))
    index.write()
    reopened = TimeIndex(path, BASE)
    reopened.sanity_check()
    assert reopened.last_entry == (entries[-1] if entries else (-1, BASE))
    for wanted in range(-1, timestamp + 3):
        assert reopened.lookup(wanted) == max((at for found, at in entries if found <= wanted), default=BASE)


def test_entries_can_be_cut_off_and_the_file_follows(path: str) -> None:
    index = OffsetIndex(path, BASE)
    for step in range(1, 11):
        index.append(BASE + 10 * step, 100 * step)
    index.write()
    index.truncate_to_position(500)
    assert (index.count, index.last_offset) == (4, BASE + 40)
    index.append(BASE + 45, 505)
    index.write()
    reopened = OffsetIndex(path, BASE)
    assert (reopened.count, reopened.last_offset) == (5, BASE + 45)
    assert os.path.getsize(path) == 40


def test_the_zeros_that_kafka_preallocates_are_not_entries(path: str) -> None:
    index = OffsetIndex(path, BASE)
    index.append(BASE + 256, 4096)
    index.write()
    with open(path, "ab") as file:
        file.write(bytes(10_000))
    reopened = OffsetIndex(path, BASE)
    assert reopened.count == 1
    reopened.append(BASE + 300, 9000)
    reopened.write()
    assert os.path.getsize(path) == 16


@pytest.mark.parametrize("content", [b"\0\0\0\1\0\0\0", b"\0\0\0\5\0\0\0\5\0\0\0\5\0\0\0\6", b"\xff" * 8])
def test_an_impossible_offset_index_is_refused(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    with pytest.raises(CorruptIndexError):
        OffsetIndex(path, BASE).sanity_check()


@pytest.mark.parametrize(
    "content",
    [
        (9).to_bytes(8, "big") + (1).to_bytes(4, "big") + (9).to_bytes(8, "big") + (2).to_bytes(4, "big"),
        (9).to_bytes(8, "big") + (5).to_bytes(4, "big") + (10).to_bytes(8, "big") + (4).to_bytes(4, "big"),
        (9).to_bytes(8, "big") + b"\xff\xff\xff\xff",
        b"\1" * 13,
    ],
)
def test_an_impossible_time_index_is_refused(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    with pytest.raises(CorruptIndexError):
        TimeIndex(path, BASE).sanity_check()


def test_entries_in_the_file_may_be_dropped_from_memory(path: str) -> None:
    index = OffsetIndex(path, BASE)
    index.append(BASE + 1, 10)
    index.release()
    assert index.is_loaded
    index.write()
    index.release()
    assert not index.is_loaded
    assert index.lookup(BASE + 1) == 10


def test_aborted_transactions_that_overlap_a_range_are_collected(path: str) -> None:
    index = TransactionIndex(path)
    transactions = [
        AbortedTransaction(1, 0, 10, 5),
        AbortedTransaction(2, 5, 12, 13),
        AbortedTransaction(3, 20, 30, 31),
    ]
    for transaction in transactions:
        index.append(transaction)
    for opened, knows_the_end in ((index, True), (TransactionIndex(path), False)):
        assert opened.transactions == transactions
        assert opened.collect(0, 40) == (transactions, False)
        assert opened.collect(11, 13) == ([transactions[1]], knows_the_end)
        assert opened.collect(13, 20) == ([], knows_the_end)
        assert opened.collect(12, 21) == ([transactions[1], transactions[2]], knows_the_end)


def test_aborted_transactions_are_truncated_with_their_markers(path: str) -> None:
    index = TransactionIndex(path)
    for end in (10, 20, 30):
        index.append(AbortedTransaction(1, end - 5, end, end + 1))
    index.truncate_to(20)
    assert [transaction.last_offset for transaction in TransactionIndex(path).transactions] == [10]
    with pytest.raises(ValueError, match="ends before"):
        index.append(AbortedTransaction(1, 3, 10, 11))
    index.clear()
    assert not os.path.exists(path)


@pytest.mark.parametrize("content", [b"\0" * 33, b"\0\1" + b"\0" * 32])
def test_a_malformed_transaction_index_is_refused(path: str, content: bytes) -> None:
    Path(path).write_bytes(content)
    with pytest.raises(CorruptIndexError):
        _ = TransactionIndex(path).transactions


def test_an_index_keeps_growing_after_a_disk_error(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error is kept, as a task keeps an unretrieved one, and with it the objects of its frames."""
    index = OffsetIndex(path, BASE)
    index.append(BASE, 0)

    def refused(*_: object) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "pwrite", refused)
        with pytest.raises(OSError, match="No space left") as kept:
            index.write()
    index.append(BASE + 10, 500)
    index.write()
    assert OffsetIndex(path, BASE).lookup(BASE + 10) == index.lookup(BASE + 10)
    assert kept.value.errno == 28
