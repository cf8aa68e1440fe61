"""What a broker remembers of a producer between the verification of its transaction and its first batch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.broker.produce_verification import TransactionGuard, guard_producer, renew_guards, verification_error
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.common.topic_partition import TopicPartition
from barnabas.coordinator.producer_id_and_epoch import ProducerIdAndEpoch
from barnabas.storage.producer_state import ProducerEntry, ProducerState

PRODUCER = ProducerIdAndEpoch(7, 3)
ORDERS = TopicPartition("orders", 0)


def partition(*known: ProducerEntry) -> Any:
    producers = ProducerState()
    producers.producers.update({entry.producer_id: entry for entry in known})
    log = SimpleNamespace(has_producers=bool(known), producers=producers)
    return SimpleNamespace(log_or_none=log, verified_producers=None, topic_partition=ORDERS)


def code_of(guard: Any) -> ErrorCode:
    try:
        guard.check()
    except ApiException as error:
        return error.code
    return ErrorCode.NONE


def test_a_verified_batch_is_appended_once_the_verification_is_done() -> None:
    orders = partition()
    guard = guard_producer(orders, PRODUCER, 0, is_v2=False)
    assert code_of(guard) is ErrorCode.NONE
    guard.done()
    assert orders.verified_producers == {}


def test_a_marker_ends_every_verification_of_its_producer() -> None:
    orders = partition()
    guards = [guard_producer(orders, PRODUCER, sequence, is_v2=False) for sequence in (0, 1)]
    del orders.verified_producers[PRODUCER.producer_id]
    assert [code_of(guard) for guard in guards] == [ErrorCode.INVALID_TXN_STATE] * 2


def test_a_batch_of_an_open_transaction_needs_it_to_be_open_still() -> None:
    """A large batch is checked on a thread; meanwhile a marker may end its transaction."""
    entry = ProducerEntry(7, 3)
    entry.current_txn_first_offset = 40
    orders = partition(entry)
    guard = TransactionGuard(orders, PRODUCER)
    assert code_of(guard) is ErrorCode.NONE
    guard.done()
    entry.current_txn_first_offset = -1
    assert code_of(guard) is ErrorCode.INVALID_TXN_STATE


def test_a_batch_does_not_overtake_one_that_is_sent_again() -> None:
    """A partition that does not know a producer would accept any sequence number."""
    orders = partition()
    first = guard_producer(orders, PRODUCER, 5, is_v2=False)
    second = guard_producer(orders, PRODUCER, 6, is_v2=False)
    assert code_of(second) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code_of(first) is ErrorCode.NONE


def test_the_first_batch_of_a_client_of_version_2_has_the_sequence_number_0() -> None:
    assert code_of(guard_producer(partition(), PRODUCER, 5, is_v2=True)) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert code_of(guard_producer(partition(), PRODUCER, 5, is_v2=False)) is ErrorCode.NONE
    assert code_of(guard_producer(partition(ProducerEntry(7, 3)), PRODUCER, 5, is_v2=True)) is ErrorCode.NONE


def test_a_later_epoch_starts_anew() -> None:
    orders = partition()
    guard_producer(orders, PRODUCER, 0, is_v2=False)
    later = guard_producer(orders, ProducerIdAndEpoch(7, 4), 3, is_v2=False)
    assert code_of(later) is ErrorCode.NONE


def test_a_verification_that_a_marker_ended_begins_again() -> None:
    """The marker of a producer's last transaction has the epoch of its next one, so nothing tells them apart."""
    orders = partition()
    guards = {ORDERS: guard_producer(orders, PRODUCER, 0, is_v2=True)}
    assert not renew_guards(guards, [ORDERS])
    del orders.verified_producers[PRODUCER.producer_id]
    assert renew_guards(guards, [ORDERS])
    assert code_of(guards[ORDERS]) is ErrorCode.NONE
    assert not renew_guards(guards, [ORDERS])


def test_a_verification_remains_lapsed_when_the_partition_has_seen_a_later_producer() -> None:
    entry = ProducerEntry(7, 3)
    orders = partition(entry)
    guards = {ORDERS: guard_producer(orders, PRODUCER, 0, is_v2=True)}
    del orders.verified_producers[PRODUCER.producer_id]
    entry.epoch = 4
    assert not renew_guards(guards, [ORDERS])
    assert code_of(guards[ORDERS]) is ErrorCode.INVALID_TXN_STATE


def test_a_verification_whose_transaction_has_records_meanwhile_does_not_lapse() -> None:
    entry = ProducerEntry(7, 3)
    orders = partition(entry)
    guards = {ORDERS: guard_producer(orders, PRODUCER, 0, is_v2=True)}
    guards[ORDERS].done()
    entry.current_txn_first_offset = 40
    assert not renew_guards(guards, [ORDERS])
    assert code_of(guards[ORDERS]) is ErrorCode.NONE


def test_an_older_epoch_than_that_of_the_partition_is_refused() -> None:
    with pytest.raises(ApiException) as refused:
        guard_producer(partition(ProducerEntry(7, 4)), PRODUCER, 0, is_v2=False)
    assert refused.value.code is ErrorCode.INVALID_PRODUCER_EPOCH


@pytest.mark.parametrize(
    ("code", "adds", "told"),
    [
        (ErrorCode.NETWORK_EXCEPTION, True, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.NOT_COORDINATOR, False, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, False, ErrorCode.NOT_ENOUGH_REPLICAS),
        (ErrorCode.CONCURRENT_TRANSACTIONS, True, ErrorCode.CONCURRENT_TRANSACTIONS),
        (ErrorCode.TRANSACTION_ABORTABLE, True, ErrorCode.TRANSACTION_ABORTABLE),
        (ErrorCode.INVALID_PRODUCER_ID_MAPPING, False, ErrorCode.INVALID_PRODUCER_ID_MAPPING),
    ],
)
def test_a_producer_is_told_to_repeat_what_may_succeed_later(code: ErrorCode, adds: bool, told: ErrorCode) -> None:
    error = verification_error(code, adds=adds)
    assert error.code is told
    if told is ErrorCode.NOT_ENOUGH_REPLICAS:
        assert f"Underlying error: {code.name}" in (error.message or "")
