"""Transactional ids and their transactions: epochs, fencing, outcomes, time-outs, loading."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.coordinator.transaction.transaction_coordinator import TransactionFilter
from barnabas.coordinator.transaction.transaction_coordinator_config import TransactionCoordinatorConfig
from barnabas.coordinator.transaction.transaction_coordinator_shard import ProducerResult
from barnabas.coordinator.transaction.transaction_metadata import LAST_EPOCH
from barnabas.protocol.record_batch import iter_batches
from tests.unit.coordinator.transaction_driver import BILLS, ID, ORDERS, TIMEOUT_MS, TransactionDriver


@pytest.fixture
def driver() -> TransactionDriver:
    return TransactionDriver().load()


# --- producers


def test_each_producer_of_an_id_is_in_the_next_epoch(driver: TransactionDriver) -> None:
    assert driver.init() == ProducerResult(ErrorCode.NONE, 1000, 0)
    assert driver.init() == ProducerResult(ErrorCode.NONE, 1000, 1)
    assert driver.init("other") == ProducerResult(ErrorCode.NONE, 1001, 0)


def test_a_producer_goes_on_after_an_error_in_the_next_epoch(driver: TransactionDriver) -> None:
    driver.init()
    assert driver.init(expected=(1000, 0)) == ProducerResult(ErrorCode.NONE, 1000, 1)
    assert driver.init(expected=(1000, 0)) == ProducerResult(ErrorCode.NONE, 1000, 1), "its answer was lost"
    assert driver.init(expected=(1000, 1)) == ProducerResult(ErrorCode.NONE, 1000, 2)


def test_a_producer_that_was_replaced_cannot_go_on(driver: TransactionDriver) -> None:
    driver.init()
    driver.init()
    assert driver.init(expected=(1000, 0)).error_code is ErrorCode.PRODUCER_FENCED
    assert driver.init(expected=(999, 1)).error_code is ErrorCode.PRODUCER_FENCED


@pytest.mark.parametrize("timeout_ms", [0, -1, 900_001])
def test_a_timeout_out_of_range_is_refused(driver: TransactionDriver, timeout_ms: int) -> None:
    assert driver.init(timeout_ms=timeout_ms).error_code is ErrorCode.INVALID_TRANSACTION_TIMEOUT


def test_a_new_producer_aborts_the_open_transaction_first(driver: TransactionDriver) -> None:
    first = driver.producer()
    driver.add(first, ORDERS)
    assert driver.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.state == "PrepareAbort"
    assert driver.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS, "its markers are not written yet"
    (prepared,) = driver.write_markers()
    assert (prepared.producer_epoch, prepared.partitions) == (1, {ORDERS})
    assert driver.init() == ProducerResult(ErrorCode.NONE, 1000, 2)
    assert driver.add(first, ORDERS) is ErrorCode.PRODUCER_FENCED


def test_a_used_up_producer_id_is_replaced() -> None:
    driver = TransactionDriver().load()
    driver.init()
    for _ in range(LAST_EPOCH):
        last = driver.init()
    assert last == ProducerResult(ErrorCode.NONE, 1000, LAST_EPOCH)
    assert driver.init(expected=(1000, LAST_EPOCH)) == ProducerResult(ErrorCode.NONE, 1001, 0)
    assert driver.init(expected=(1000, LAST_EPOCH)) == ProducerResult(ErrorCode.NONE, 1001, 0), "its answer was lost"


def test_without_a_producer_id_the_client_is_asked_to_repeat(driver: TransactionDriver) -> None:
    driver.next_producer_id = None
    assert driver.init().error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


# --- transactions


@pytest.mark.parametrize("is_commit", [True, False])
def test_a_transaction_ends_when_all_its_markers_are_written(driver: TransactionDriver, is_commit: bool) -> None:
    producer = driver.producer()
    assert driver.add(producer, ORDERS) is ErrorCode.NONE
    assert driver.add(producer, BILLS) is ErrorCode.NONE
    assert driver.state == "Ongoing"
    assert driver.end(producer, is_commit=is_commit).error_code is ErrorCode.NONE
    assert driver.state == ("PrepareCommit" if is_commit else "PrepareAbort")
    (prepared,) = driver.write_markers()
    assert prepared.partitions == {ORDERS, BILLS}
    assert driver.state == ("CompleteCommit" if is_commit else "CompleteAbort")
    assert driver.coordinator.describe(ID).partitions == frozenset()


def test_until_then_the_producer_waits(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS)
    driver.end(producer)
    assert driver.add(producer, BILLS) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.end(producer).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.end(producer, is_commit=False).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    assert driver.end(producer).error_code is ErrorCode.NONE, "a repeated request whose answer was lost"
    assert driver.end(producer, is_commit=False).error_code is ErrorCode.INVALID_TXN_STATE
    assert driver.add(producer, BILLS) is ErrorCode.NONE


def test_an_id_is_settled_once_its_change_is_committed_and_no_markers_follow(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS)
    driver.settled.clear()
    driver.end(producer)
    assert driver.settled == []
    driver.write_markers()
    assert driver.settled == [ID]
    driver.add(producer, BILLS)
    assert driver.settled == [ID, ID]


def test_partitions_that_are_known_are_not_written_again(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS, BILLS)
    end = driver.topic.log(0).log_end_offset
    assert driver.add(producer, BILLS) is ErrorCode.NONE
    assert driver.topic.log(0).log_end_offset == end


def test_only_the_present_producer_is_heard(driver: TransactionDriver) -> None:
    producer = driver.producer()
    assert driver.add(ProducerIdAndEpoch(5, 0), ORDERS) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.add(ProducerIdAndEpoch(producer.producer_id, 1), ORDERS) is ErrorCode.PRODUCER_FENCED
    assert driver.end(ProducerIdAndEpoch(5, 0)).error_code is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert driver.end(producer).error_code is ErrorCode.INVALID_TXN_STATE, "no transaction is open"


def test_a_change_that_is_not_committed_blocks_every_other_one(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.topic.auto_commit = False
    adding = driver.begin_add(producer, ORDERS)
    assert not adding.is_complete
    assert driver.coordinator.describe(ID).state.shown == "Empty", "it may still be lost"
    assert driver.add(producer, BILLS) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.init().error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.topic.commit(0)
    assert adding.value.error_code is ErrorCode.NONE
    assert driver.state == "Ongoing"


def test_a_change_that_cannot_be_written_leaves_the_state_before(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.add(producer, ORDERS) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.topic.refuse_with = None
    assert driver.state == "Empty"
    assert driver.add(producer, ORDERS) is ErrorCode.NONE


def test_a_change_that_was_committed_too_late_still_takes_effect(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS)
    driver.topic.auto_commit = False
    ending = driver.begin_end(producer)
    driver.advance(5_000)
    assert ending.value.error_code is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert driver.end(producer).error_code is ErrorCode.CONCURRENT_TRANSACTIONS, "the record is in the log"
    driver.topic.auto_commit = True
    driver.topic.commit(0)
    (prepared,) = driver.write_markers()
    assert prepared.state.shown == "PrepareCommit"
    assert driver.state == "CompleteCommit"


# --- clients of version 2


def test_a_client_of_version_2_is_in_the_next_epoch_after_each_transaction(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS, client_version=2)
    assert driver.end(producer, client_version=2) == ProducerResult(ErrorCode.NONE, 1000, 1)
    (prepared,) = driver.write_markers()
    assert prepared.producer_epoch == 1, "the markers are of the next epoch, which fences late records"
    assert driver.end(producer, client_version=2) == ProducerResult(ErrorCode.NONE, 1000, 1), "its answer was lost"
    following = ProducerIdAndEpoch(1000, 1)
    assert driver.end(following, client_version=2).error_code is ErrorCode.INVALID_TXN_STATE, "nothing to commit"
    assert driver.end(following, is_commit=False, client_version=2) == ProducerResult(ErrorCode.NONE, 1000, 2)
    assert driver.write_markers()[0].partitions == frozenset()
    assert driver.state == "CompleteAbort"
    assert driver.end(producer, client_version=2).error_code is ErrorCode.PRODUCER_FENCED


def test_a_client_of_version_2_goes_on_with_a_new_producer_id() -> None:
    driver = TransactionDriver().load()
    producer = driver.producer()
    for _ in range(LAST_EPOCH):
        driver.init()
    producer = ProducerIdAndEpoch(1000, LAST_EPOCH)
    driver.add(producer, ORDERS, client_version=2)
    assert driver.end(producer, client_version=2) == ProducerResult(ErrorCode.NONE, 1001, 0)
    (prepared,) = driver.write_markers()
    assert (prepared.producer_id, prepared.producer_epoch) == (1000, LAST_EPOCH + 1)
    assert driver.end(producer, client_version=2) == ProducerResult(ErrorCode.NONE, 1001, 0), "its answer was lost"
    assert driver.add(ProducerIdAndEpoch(1001, 0), ORDERS, client_version=2) is ErrorCode.NONE


def test_a_client_of_version_2_may_abort_its_next_transaction_before_the_markers_of_the_last_one(
    driver: TransactionDriver,
) -> None:
    """Java's producer does when it aborts before any record was sent: it only wants to reach the next epoch."""
    producer = driver.producer()
    driver.add(producer, ORDERS, client_version=2)
    following = ProducerIdAndEpoch(1000, 1)
    assert driver.end(producer, client_version=2) == ProducerResult(ErrorCode.NONE, *following)
    assert driver.end(following, is_commit=False, client_version=2).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    assert driver.end(following, is_commit=False, client_version=2) == ProducerResult(ErrorCode.NONE, 1000, 2)


def test_a_client_of_version_2_uses_its_new_producer_id_before_the_markers_of_the_last_transaction() -> None:
    """Until they are written the coordinator still has the old id."""
    driver = TransactionDriver().load()
    driver.producer()
    for _ in range(LAST_EPOCH):
        driver.init()
    producer, following = ProducerIdAndEpoch(1000, LAST_EPOCH), ProducerIdAndEpoch(1001, 0)
    driver.add(producer, ORDERS, client_version=2)
    assert driver.end(producer, client_version=2) == ProducerResult(ErrorCode.NONE, *following)
    assert driver.add(following, ORDERS, client_version=2) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.end(following, is_commit=False, client_version=2).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    assert driver.init(expected=following).error_code is ErrorCode.CONCURRENT_TRANSACTIONS
    driver.write_markers()
    assert driver.add(following, ORDERS, client_version=2) is ErrorCode.NONE


# --- verification


def test_only_partitions_of_the_open_transaction_are_confirmed(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS)
    verified = driver.coordinator.verify(ID, producer, [ORDERS, BILLS])
    assert verified == {ORDERS: ErrorCode.NONE, BILLS: ErrorCode.TRANSACTION_ABORTABLE}
    driver.end(producer)
    assert driver.coordinator.verify(ID, producer, [ORDERS]) == {ORDERS: ErrorCode.CONCURRENT_TRANSACTIONS}
    stranger = ProducerIdAndEpoch(7, 0)
    assert driver.coordinator.verify(ID, stranger, [ORDERS]) == {ORDERS: ErrorCode.INVALID_PRODUCER_ID_MAPPING}
    assert driver.coordinator.verify("none", producer, [ORDERS]) == {ORDERS: ErrorCode.INVALID_PRODUCER_ID_MAPPING}


# --- time


def test_a_transaction_that_is_open_for_too_long_is_aborted_and_its_producer_fenced(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS)
    driver.advance(TIMEOUT_MS - 1)
    driver.add(producer, BILLS)
    assert driver.state == "Ongoing"
    driver.advance(1)
    (prepared,) = driver.write_markers()
    assert (prepared.state.shown, prepared.partitions) == ("PrepareAbort", {ORDERS, BILLS})
    assert driver.end(producer).error_code is ErrorCode.PRODUCER_FENCED
    assert driver.state == "CompleteAbort"


@pytest.mark.parametrize("is_commit", [True, False])
def test_the_end_of_a_transaction_that_could_not_be_written_is_tried_again(
    driver: TransactionDriver, is_commit: bool
) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS)
    driver.end(producer, is_commit=is_commit)
    driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.write_markers()
    driver.advance(10_000)
    assert driver.state == ("PrepareCommit" if is_commit else "PrepareAbort")
    driver.topic.refuse_with = None
    driver.advance(1_000)
    assert driver.state == ("CompleteCommit" if is_commit else "CompleteAbort")
    assert driver.add(producer, ORDERS) is ErrorCode.NONE


def test_a_time_out_that_cannot_be_written_is_tried_again(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS)
    driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.advance(TIMEOUT_MS)
    assert driver.state == "Ongoing"
    driver.topic.refuse_with = None
    driver.advance(10_000)
    assert driver.state == "PrepareAbort"


def test_an_ended_transaction_does_not_time_out(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS)
    driver.end(producer)
    driver.write_markers()
    driver.advance(2 * TIMEOUT_MS)
    assert driver.state == "CompleteCommit"


def test_an_unused_id_is_forgotten() -> None:
    config = TransactionCoordinatorConfig(
        transactional_id_expiration_ms=1_000_000, transaction_state_log_num_partitions=1
    )
    driver = TransactionDriver(config).load()
    producer = driver.producer()
    driver.init("other")
    driver.add(producer, ORDERS)
    driver.end(producer)
    driver.advance(3_600_000)
    assert driver.coordinator.describe(ID).state.shown == "PrepareCommit", "its markers are not written"
    with pytest.raises(ApiException) as refused:
        driver.coordinator.describe("other")
    assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert driver.init("other") == ProducerResult(ErrorCode.NONE, 1002, 0)


# --- another coordinator


def test_a_new_coordinator_knows_what_the_log_knows(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS)
    successor = driver.restarted()
    assert successor.state == "Ongoing"
    assert successor.add(producer, BILLS) is ErrorCode.NONE
    assert successor.coordinator.describe(ID).partitions == {ORDERS, BILLS}


def test_a_new_coordinator_writes_the_markers_of_prepared_transactions(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS)
    driver.end(producer)
    successor = driver.restarted()
    (prepared,) = successor.prepared
    assert prepared.metadata.partitions == {ORDERS}
    assert prepared.coordinator_epoch == 7
    successor.write_markers()
    assert successor.state == "CompleteCommit"
    assert successor.restarted().prepared == []


def test_a_coordinator_that_was_replaced_completes_nothing(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS)
    driver.end(producer)
    (prepared,) = driver.prepared
    driver.coordinator.runtime.unload(0, driver.now_ms)
    assert not prepared.is_present()
    driver.write_markers()
    assert driver.restarted().state == "PrepareCommit"


def test_a_new_coordinator_times_out_an_open_transaction(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.add(producer, ORDERS)
    successor = driver.restarted()
    successor.advance(TIMEOUT_MS)
    assert successor.state == "PrepareAbort"


@pytest.mark.parametrize("version", [0, 1, 2])
def test_records_have_the_form_of_the_clusters_transaction_version(version: int) -> None:
    driver = TransactionDriver(transaction_version=version).load()
    driver.producer()
    log = driver.topic.log(0)
    (batch,) = iter_batches(log.read_batches(0, 1 << 20))
    (record,) = batch.records()
    assert record.value is not None
    assert int.from_bytes(record.value[:2], "big") == min(version, 1)
    assert driver.restarted().init() == ProducerResult(ErrorCode.NONE, 1000, 1)


# --- lists


def test_transactions_are_listed_by_state_producer_and_age(driver: TransactionDriver) -> None:
    producer = driver.producer()
    driver.init("idle")
    driver.add(producer, ORDERS)
    driver.advance(500)

    def listed(wanted: TransactionFilter) -> list[str]:
        return sorted(found.transactional_id for found in driver.coordinator.list(wanted, driver.now_ms))

    assert listed(TransactionFilter()) == [ID, "idle"]
    assert listed(TransactionFilter(states=frozenset({"Ongoing"}))) == [ID]
    assert listed(TransactionFilter(producer_ids=frozenset({1001}))) == ["idle"]
    assert listed(TransactionFilter(states=frozenset({"Ongoing"}), duration_ms=500)) == []
    assert listed(TransactionFilter(states=frozenset({"Ongoing"}), duration_ms=499)) == [ID]
    assert TransactionFilter(states=frozenset({"Ongoing", "None"})).unknown_states == ["None"]


def test_a_coordinator_that_loads_asks_for_patience() -> None:
    driver = TransactionDriver()
    assert driver.init().error_code is ErrorCode.NOT_COORDINATOR
    driver.coordinator.runtime.start_loading(0, 0, driver.now_ms)
    assert driver.init().error_code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    with pytest.raises(ApiException) as refused:
        driver.coordinator.list(TransactionFilter(), driver.now_ms)
    assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS


def test_an_empty_id_is_refused(driver: TransactionDriver) -> None:
    assert driver.init("").error_code is ErrorCode.INVALID_REQUEST
    assert driver.coordinator.verify("", ProducerIdAndEpoch(1, 0), [TopicPartition("t", 0)]) == {
        TopicPartition("t", 0): ErrorCode.INVALID_REQUEST
    }
