"""``barnabas transactions``: the requests to the cluster, and the definition of a hanging transaction."""

from __future__ import annotations

import json
from typing import Any

import pytest

from barnabas.cli.transactions.command import main
from barnabas.clients.admin import (
    FencedProducer,
    ProducerState,
    Results,
    TopicDescription,
    TopicPartitionInfo,
    TransactionDescription,
    TransactionListing,
    TransactionListings,
    UnsupportedVersion,
    Uuid,
)
from barnabas.clients.admin.errors import admin_error
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition
from tests.unit.cli.conftest import FakeAdmin

ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)
KNOWN, STRAY, LOST, IDLE = (
    ProducerState(producer_id, 0, 5, 1000, 3, start) for producer_id, start in ((1, 10), (2, 20), (3, 30), (4, None))
)


@pytest.fixture
def orders(admin: FakeAdmin) -> FakeAdmin:
    """The coordinator knows producer 1's transaction; 2 has one in another partition, 3 one without an id."""
    partitions = tuple(TopicPartitionInfo(index, 1, (1,), (1,)) for index in (0, 1))
    topic = TopicDescription("orders", Uuid.from_int(1 << 90), False, partitions)
    admin.describe_topics.return_value = Results({"orders": topic}, {})
    admin.topics = ["orders"]
    admin.describe_producers.return_value = Results({ZERO: (KNOWN, STRAY, LOST, IDLE), ONE: ()}, {})
    listed = (TransactionListing("tx-1", 1, "Ongoing", 1), TransactionListing("tx-2", 2, "Ongoing", 1))
    admin.list_transactions.return_value = TransactionListings(listed, {})
    admin.describe_transactions.side_effect = describe
    return admin


async def describe(ids: Any) -> Results[str, TransactionDescription]:
    known = {
        name: TransactionDescription(name, "Ongoing", 60_000, 1000, number, 0, (partition,), 1)
        for name, number, partition in (("tx-1", 1, ZERO), ("tx-2", 2, ONE))
    }
    missing = {
        transactional_id: admin_error(ErrorCode.TRANSACTIONAL_ID_NOT_FOUND, None, transactional_id)
        for transactional_id in ids
        if transactional_id not in known
    }
    return Results(
        {transactional_id: known[transactional_id] for transactional_id in ids if transactional_id in known}, missing
    )


def test_a_transaction_that_no_coordinator_will_end_is_hanging(
    orders: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["find-hanging", "-o", "json"]) == 0
    hanging = json.loads(capsys.readouterr().out)["hanging"]
    assert [(transaction["producer_id"], transaction["start_offset"]) for transaction in hanging] == [(2, 20), (3, 30)]
    assert orders.list_transactions.call_args.kwargs == {"producer_ids": [1, 2, 3]}
    assert main(["find-hanging", "--broker-id", "7"]) == 0
    assert capsys.readouterr().err == "note: found no hanging transactions in 0 partitions\n"


def test_no_transaction_is_hanging_while_a_coordinator_does_not_answer(
    orders: FakeAdmin, capsys: pytest.CaptureFixture[str]
) -> None:
    silent = admin_error(ErrorCode.COORDINATOR_NOT_AVAILABLE, None, 2)
    orders.list_transactions.return_value = TransactionListings((), {2: silent})
    assert main(["find-hanging"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "COORDINATOR_NOT_AVAILABLE" in captured.err


def test_a_transaction_is_aborted_by_its_start_offset(orders: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    orders.describe_producers.return_value = Results({ZERO: (KNOWN, STRAY)}, {})
    assert main(["abort", "orders:0", "--start-offset", "20", "--dry-run"]) == 0
    orders.abort_transaction.assert_not_called()
    assert main(["abort", "--topic", "orders", "--partition", "0", "--start-offset", "20"]) == 0
    assert capsys.readouterr().out.endswith("transaction in orders-0  aborted (of producer 2, epoch 0)\n")
    orders.abort_transaction.assert_awaited_once_with(ZERO, producer_id=2, producer_epoch=0, coordinator_epoch=3)
    assert main(["abort", "orders:0", "--start-offset", "21"]) == 1
    assert "open transactions start at 10, 20" in capsys.readouterr().err


def test_producers_are_fenced(orders: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    orders.fence_producers.return_value = Results({"tx-1": FencedProducer(1, 1)}, {})
    assert main(["force-terminate", "tx-1", "tx-3"]) == 1
    captured = capsys.readouterr()
    assert captured.out == "transactional id tx-1  terminated (it was Ongoing)\n"
    assert "did you mean tx-" in captured.err
    orders.fence_producers.assert_awaited_once_with(["tx-1"])


def test_a_cluster_without_the_api_is_reported(orders: FakeAdmin, capsys: pytest.CaptureFixture[str]) -> None:
    orders.list_transactions.side_effect = UnsupportedVersion("the node at a:1 does not offer ListTransactions")
    assert main(["list"]) == 1
    assert "does not offer ListTransactions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["describe"], "no transaction given"),
        (["describe-producers", "orders"], "no partition of orders given"),
        (["describe-producers", "orders:0,1"], "a single partition"),
        (["describe-producers", "orders:0", "--partition", "0"], "a single partition"),
        (["describe-producers", "or ders:0"], "contains one or more characters"),
        (["find-hanging", "--partition", "0"], "--partition needs --topic"),
        (["find-hanging", "--max-transaction-timeout", "-1"], "the minutes must be at least 0"),
        (["abort", "orders:0"], "no transaction given"),
        (["abort", "orders:0", "--producer-id", "5"], "no transaction given"),
        (["abort", "orders:0", "--start-offset", "5", "--producer-id", "5"], "no transaction given"),
    ],
)
def test_invalid_arguments_are_refused(
    admin: FakeAdmin, capsys: pytest.CaptureFixture[str], arguments: list[str], expected: str
) -> None:
    assert main(arguments) == 2
    assert expected in capsys.readouterr().err
