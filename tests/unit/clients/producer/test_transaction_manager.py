"""The state of a producer with transactions: which calls are allowed, and what a failure means for the next ones."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from barnabas.clients.admin.errors import AdminError
from barnabas.clients.errors import RequestTimedOut, UnsupportedVersion
from barnabas.clients.producer.batch import ProducerId
from barnabas.clients.producer.transaction_errors import (
    CommitFailed,
    FatalTransactionError,
    IllegalTransactionState,
    ProducerFenced,
    TransactionAbortable,
)
from barnabas.clients.producer.transaction_manager import ProducerState, TransactionManager
from barnabas.clients.producer.transaction_verdicts import Operation, Verdict, error_of, produce_error, verdict_of
from barnabas.common.error_code import ErrorCode
from barnabas.common.topic_partition import TopicPartition

A, B = TopicPartition("a", 0), TopicPartition("b", 1)
FIRST, SECOND = ProducerId(7, 0), ProducerId(7, 1)


def ready() -> TransactionManager:
    manager = TransactionManager("billing")
    manager.initialized(FIRST)
    return manager


def begun(*, is_version_2: bool = False) -> TransactionManager:
    manager = ready()
    manager.begin(is_version_2=is_version_2)
    return manager


def test_partitions_of_version_1_are_added_before_records_are_sent() -> None:
    manager = begun()
    manager.touch([A, B])
    assert manager.to_add == {A, B}
    assert not manager.may_send(A)
    manager.added([A])
    assert manager.may_send(A)
    assert manager.to_add == {B}
    manager.touch([A])
    assert manager.to_add == {B}


def test_partitions_of_version_2_need_no_request() -> None:
    manager = begun(is_version_2=True)
    manager.touch([A])
    assert manager.to_add == frozenset()
    assert manager.may_send(A)
    assert not manager.may_send(B)
    assert manager.must_send_end


@pytest.mark.parametrize("is_version_2", [False, True])
def test_an_empty_transaction_ends_without_a_request(is_version_2: bool) -> None:
    manager = begun(is_version_2=is_version_2)
    manager.begin_commit()
    assert not manager.must_send_end
    manager.ended(None, is_version_2_next=is_version_2)
    assert manager.state is ProducerState.READY
    assert manager.producer == FIRST


def test_each_end_of_version_2_assigns_the_next_producer() -> None:
    manager = begun(is_version_2=True)
    manager.touch([A])
    manager.begin_commit()
    manager.ended(SECOND, is_version_2_next=True)
    assert (manager.producer, manager.state) == (SECOND, ProducerState.READY)
    manager.begin(is_version_2=True)
    assert not manager.may_send(A)


def test_a_lost_sequence_needs_a_new_epoch_in_version_1_only() -> None:
    for is_version_2 in (False, True):
        manager = begun(is_version_2=is_version_2)
        manager.touch([A])
        manager.added([A])
        manager.lost_sequence()
        manager.fail(TransactionAbortable("lost"))
        manager.begin_abort()
        manager.ended(SECOND, is_version_2_next=is_version_2)
        assert manager.needs_new_epoch is manager.is_ended is not is_version_2
        assert manager.state is (ProducerState.READY if is_version_2 else ProducerState.ABORTING)
        if not is_version_2:
            manager.initialized(SECOND)
        assert (manager.state, manager.producer, manager.is_ended) == (ProducerState.READY, SECOND, False)


def test_the_change_to_version_2_needs_a_new_epoch() -> None:
    manager = begun()
    manager.begin_commit()
    manager.ended(None, is_version_2_next=True)
    assert manager.needs_new_epoch


def test_an_abortable_failure_allows_only_the_abort() -> None:
    manager = begun()
    manager.touch([A])
    manager.added([A])
    failure = TransactionAbortable("no")
    manager.fail(failure)
    manager.fail(TransactionAbortable("later"))
    assert not manager.may_send(A)
    for call in (manager.begin_commit, manager.prepared, lambda: manager.validate_open("send")):
        with pytest.raises(TransactionAbortable, match="no"):
            call()
    manager.begin_abort()
    manager.fail(TransactionAbortable("of a batch that was in flight"))
    assert manager.state is ProducerState.ABORTING
    manager.ended(FIRST)
    manager.begin(is_version_2=False)
    assert manager.error is None


def test_a_fatal_failure_allows_nothing() -> None:
    manager = begun()
    manager.fail(ProducerFenced("another one"))
    manager.fail(FatalTransactionError("later"))
    for call in (manager.begin_commit, manager.begin_abort, lambda: manager.begin(is_version_2=False)):
        with pytest.raises(ProducerFenced, match="another one"):
            call()


def test_the_end_may_be_repeated_but_not_changed() -> None:
    manager = begun()
    manager.begin_commit()
    manager.begin_commit()
    with pytest.raises(IllegalTransactionState, match="the producer of billing has begun to commit"):
        manager.begin_abort()


def test_a_prepared_transaction_takes_no_records() -> None:
    manager = begun()
    manager.prepared()
    with pytest.raises(IllegalTransactionState, match="send can't be called"):
        manager.validate_open("send")
    manager.begin_commit()


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda manager: manager.begin_commit(), "commit"),
        (lambda manager: manager.begin_abort(), "abort"),
        (lambda manager: manager.prepared(), "prepare"),
        (lambda manager: manager.validate_init(), "init_transactions"),
        (lambda manager: manager.validate_open("send"), "send"),
    ],
)
def test_calls_without_a_transaction_are_refused(call: Callable[[TransactionManager], None], name: str) -> None:
    with pytest.raises(IllegalTransactionState, match=f"{name} can't be called"):
        call(ready())


def test_a_coordinator_without_the_transaction_has_nothing_to_abort() -> None:
    unknown = FatalTransactionError("unknown", ErrorCode.INVALID_TXN_STATE)
    forgotten = TransactionAbortable("forgotten", ErrorCode.INVALID_PRODUCER_ID_MAPPING)
    manager = begun()
    manager.adding()
    assert not manager.is_over(unknown)
    manager.begin_abort()
    assert manager.is_over(unknown)
    assert not manager.needs_new_epoch
    assert manager.is_over(forgotten)
    assert manager.needs_new_epoch
    started = begun()
    started.added([A])
    started.begin_abort()
    assert not started.is_over(unknown)


VERDICTS = [
    (Operation.INIT_PRODUCER, "NONE", Verdict.DONE),
    (Operation.INIT_PRODUCER, "NOT_COORDINATOR", Verdict.LOOK_UP),
    (Operation.INIT_PRODUCER, "CONCURRENT_TRANSACTIONS", Verdict.RETRY),
    (Operation.INIT_PRODUCER, "COORDINATOR_LOAD_IN_PROGRESS", Verdict.RETRY),
    (Operation.INIT_PRODUCER, "PRODUCER_FENCED", Verdict.FATAL),
    (Operation.INIT_PRODUCER, "INVALID_TRANSACTION_TIMEOUT", Verdict.FATAL),
    (Operation.ADD_PARTITIONS, "COORDINATOR_NOT_AVAILABLE", Verdict.LOOK_UP),
    (Operation.ADD_PARTITIONS, "INVALID_PRODUCER_EPOCH", Verdict.FATAL),
    (Operation.ADD_PARTITIONS, "INVALID_TXN_STATE", Verdict.FATAL),
    (Operation.ADD_PARTITIONS, "TOPIC_AUTHORIZATION_FAILED", Verdict.ABORTABLE),
    (Operation.ADD_PARTITIONS, "INVALID_PRODUCER_ID_MAPPING", Verdict.ABORTABLE),
    (Operation.ADD_OFFSETS, "GROUP_AUTHORIZATION_FAILED", Verdict.ABORTABLE),
    (Operation.COMMIT_OFFSETS, "ILLEGAL_GENERATION", Verdict.ABORTABLE),
    (Operation.COMMIT_OFFSETS, "TRANSACTION_ABORTABLE", Verdict.ABORTABLE),
    (Operation.PRODUCE, "INVALID_PRODUCER_EPOCH", Verdict.ABORTABLE),
    (Operation.PRODUCE, "PRODUCER_FENCED", Verdict.FATAL),
    (Operation.PRODUCE, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", Verdict.FATAL),
    (Operation.PRODUCE, "MESSAGE_TOO_LARGE", Verdict.ABORTABLE),
    (Operation.PRODUCE, "NOT_ENOUGH_REPLICAS", Verdict.ABORTABLE),
    (Operation.PRODUCE, "INVALID_TXN_STATE", Verdict.ABORTABLE),
    (Operation.END, "PRODUCER_FENCED", Verdict.FATAL),
    (Operation.END, "INVALID_TXN_STATE", Verdict.FATAL),
    (Operation.END, "UNKNOWN_PRODUCER_ID", Verdict.ABORTABLE),
    (Operation.END, "TRANSACTION_ABORTABLE", Verdict.ABORTABLE),
    (Operation.END, "REQUEST_TIMED_OUT", Verdict.RETRY),
]


@pytest.mark.parametrize(("operation", "name", "verdict"), VERDICTS)
def test_errors_are_grouped_as_kafkas_client_groups_them(operation: Operation, name: str, verdict: Verdict) -> None:
    assert verdict_of(operation, ErrorCode[name]) is verdict


def test_an_unknown_code_is_not_retried() -> None:
    assert verdict_of(Operation.END, 9999) is Verdict.FATAL
    assert verdict_of(Operation.ADD_PARTITIONS, 9999) is Verdict.ABORTABLE


def test_the_class_of_an_error_says_what_to_do() -> None:
    def kind(operation: Operation, code: ErrorCode) -> type[Exception]:
        return type(error_of(operation, code, code.name))

    assert kind(Operation.END, ErrorCode.PRODUCER_FENCED) is ProducerFenced
    assert kind(Operation.COMMIT_OFFSETS, ErrorCode.UNKNOWN_MEMBER_ID) is CommitFailed
    assert kind(Operation.PRODUCE, ErrorCode.INVALID_PRODUCER_EPOCH) is TransactionAbortable
    assert kind(Operation.END, ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED) is FatalTransactionError
    assert type(produce_error(AdminError(ErrorCode.PRODUCER_FENCED))) is ProducerFenced
    assert type(produce_error(RequestTimedOut("late"))) is TransactionAbortable
    assert type(produce_error(UnsupportedVersion("old"))) is FatalTransactionError
