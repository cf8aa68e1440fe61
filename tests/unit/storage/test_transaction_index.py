from __future__ import annotations

from pathlib import Path

from barnabas.storage.transaction_index import AbortedTransaction, TransactionIndex

FIRST = AbortedTransaction(producer_id=1, first_offset=10, last_offset=20, last_stable_offset=15)
SECOND = AbortedTransaction(producer_id=2, first_offset=15, last_offset=30, last_stable_offset=31)
THIRD = AbortedTransaction(producer_id=1, first_offset=40, last_offset=50, last_stable_offset=51)


def test_entries_that_overlap_a_read_are_found_up_to_the_last_stable_offset(tmp_path: Path) -> None:
    index = TransactionIndex(str(tmp_path / "0.txnindex"))
    for transaction in (FIRST, SECOND, THIRD):
        index.append(transaction)
    assert index.collect(0, 12) == ([FIRST], True)
    assert index.collect(12, 16) == ([FIRST, SECOND], True)
    assert index.collect(21, 60) == ([SECOND, THIRD], False)


def test_no_last_stable_offset_of_an_earlier_process_ends_the_search(tmp_path: Path) -> None:
    """A power failure may leave any bytes in an entry, and the order of the entries does not show it."""
    path = str(tmp_path / "0.txnindex")
    TransactionIndex(path).append(FIRST._replace(last_stable_offset=2_624_411))
    index = TransactionIndex(path)
    for transaction in (SECOND, THIRD):
        index.append(transaction)
    assert index.collect(21, 60) == ([SECOND, THIRD], False)
    assert index.collect(21, 31) == ([SECOND], True)


def test_entries_after_a_truncation_are_those_of_this_process(tmp_path: Path) -> None:
    path = str(tmp_path / "0.txnindex")
    for transaction in (FIRST, SECOND):
        TransactionIndex(path).append(transaction)
    index = TransactionIndex(path)
    index.truncate_to(30)
    index.append(SECOND)
    index.append(THIRD)
    assert TransactionIndex(path).transactions == [FIRST, SECOND, THIRD]
    assert index.collect(21, 31) == ([SECOND], True)
