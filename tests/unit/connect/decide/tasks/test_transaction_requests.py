from __future__ import annotations

import pytest

from barnabas.connect.decide.tasks.transaction_requests import ConflictingRequests, TransactionEnd, TransactionRequests


def test_a_transaction_stays_open_without_a_request() -> None:
    assert TransactionRequests().take() is TransactionEnd.NONE


def test_a_request_is_for_one_batch() -> None:
    requests = TransactionRequests()
    requests.commit_transaction()
    requests.commit_transaction()
    assert [requests.take(), requests.take()] == [TransactionEnd.COMMIT, TransactionEnd.NONE]
    requests.abort_transaction()
    assert [requests.take(), requests.take()] == [TransactionEnd.ABORT, TransactionEnd.NONE]


def test_a_transaction_can_not_be_committed_and_aborted() -> None:
    requests = TransactionRequests()
    requests.commit_transaction()
    requests.abort_transaction()
    with pytest.raises(ConflictingRequests, match="both commit and abort of same transaction"):
        requests.take()


def test_requests_for_an_abandoned_transaction_are_forgotten() -> None:
    requests = TransactionRequests()
    requests.commit_transaction()
    requests.clear()
    assert requests.take() is TransactionEnd.NONE
