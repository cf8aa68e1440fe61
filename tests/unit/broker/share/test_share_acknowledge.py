"""Acknowledgements, by ShareAcknowledge and on a ShareFetch: what holds when, and what is refused."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.coordinator.share.persister import StateBatch
from barnabas.coordinator.share_partition.record_state import AcknowledgeType
from tests.unit.broker.share.share_broker import (
    ELSEWHERE,
    LOCK_MS,
    TOPIC,
    Member,
    ShareBroker,
    acquired,
    errors_of,
    partitions_of,
)

ACCEPT, RELEASE, REJECT, RENEW = 1, 2, 3, 4


@pytest.fixture
def holder(broker: ShareBroker) -> Member:
    """A member with the records 0 to 9."""
    broker.produce(10)
    member = Member(broker, "holder")
    assert acquired(member.fetch([0])) == [(0, 9, 1)]
    return member


def start_offset(broker: ShareBroker) -> int:
    (state,) = (led.state for led in broker.shares.share_partitions() if led.state is not None)
    return state.start_offset


# --- with ShareAcknowledge


def test_acknowledged_records_are_stored_before_the_answer(broker: ShareBroker, holder: Member) -> None:
    broker.persister.block()
    task = holder.begin_acknowledge({0: [(0, 4, [ACCEPT]), (5, 9, [REJECT])]})
    assert not task.done()
    broker.call(broker.persister.answer)
    assert errors_of(task.result()) == {0: 0}
    assert task.result().acquisition_lock_timeout_ms == LOCK_MS
    assert broker.persister.writes == [(0, 10, [StateBatch(0, 4, 2, 1), StateBatch(5, 9, 4, 1)])]
    assert start_offset(broker) == 10


def test_each_record_may_have_its_type(broker: ShareBroker, holder: Member, bob: Member) -> None:
    holder.acknowledge({0: [(0, 9, [ACCEPT] * 5 + [RELEASE] * 5)]})
    assert acquired(bob.fetch([0])) == [(5, 9, 2)]


def test_acknowledgements_that_cannot_be_stored_can_be_repeated(broker: ShareBroker, holder: Member) -> None:
    broker.persister.error = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    assert errors_of(holder.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: ErrorCode.COORDINATOR_NOT_AVAILABLE}
    broker.persister.error = ErrorCode.NONE
    assert errors_of(holder.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: 0}


def test_writes_that_wait_are_sent_together(broker: ShareBroker, holder: Member, bob: Member) -> None:
    broker.produce(10)
    bob.fetch([0])
    broker.persister.block()
    tasks = [
        holder.begin_acknowledge({0: [(0, 1, [ACCEPT])]}),
        bob.begin_acknowledge({0: [(10, 11, [ACCEPT])]}),
        holder.begin_acknowledge({0: [(2, 3, [ACCEPT])]}),
    ]
    broker.call(broker.persister.answer)
    assert [errors_of(task.result()) for task in tasks] == [{0: 0}] * 3
    assert [batches for _, _, batches in broker.persister.writes] == [
        [StateBatch(0, 1, 2, 1)],
        [StateBatch(10, 11, 2, 1), StateBatch(2, 3, 2, 1)],
    ]


def test_records_of_another_member_are_refused(broker: ShareBroker, holder: Member, bob: Member) -> None:
    bob.fetch([0])
    assert errors_of(bob.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: ErrorCode.INVALID_RECORD_STATE}


def test_records_that_were_not_acquired_are_refused(broker: ShareBroker, holder: Member) -> None:
    assert errors_of(holder.acknowledge({0: [(0, 99, [ACCEPT])]})) == {0: ErrorCode.INVALID_REQUEST}
    holder.acknowledge({0: [(0, 4, [RELEASE])]})
    assert errors_of(holder.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: ErrorCode.INVALID_RECORD_STATE}


@pytest.mark.parametrize(
    "batches",
    [
        [(5, 4, [ACCEPT])],
        [(5, 9, [ACCEPT]), (0, 4, [ACCEPT])],
        [(0, 9, [])],
        [(0, 9, [ACCEPT] * 3)],
        [(0, 9, [5])],
        [(0, 9, [-1])],
        [(0, 9, [RENEW])],
    ],
    ids=["backwards", "unordered", "no type", "too few types", "unknown type", "negative type", "not announced"],
)
def test_malformed_batches_are_refused(
    broker: ShareBroker, holder: Member, batches: list[tuple[int, int, list[int]]]
) -> None:
    assert errors_of(holder.acknowledge({0: batches})) == {0: ErrorCode.INVALID_REQUEST}
    assert errors_of(holder.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: 0}


def test_partitions_have_separate_errors(broker: ShareBroker, holder: Member) -> None:
    response = holder.acknowledge({0: [(0, 9, [ACCEPT])], 1: [(0, 0, [ACCEPT])], ELSEWHERE: [(0, 0, [ACCEPT])], 8: []})
    assert errors_of(response) == {
        0: 0,
        1: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ELSEWHERE: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        8: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    unknown = holder.acknowledge({0: [(0, 0, [ACCEPT])]}, topic_id=Uuid.from_int(99))
    assert errors_of(unknown) == {0: ErrorCode.UNKNOWN_TOPIC_ID}
    broker.rights.denied.add(TOPIC)
    assert errors_of(holder.acknowledge({0: [(0, 0, [ACCEPT])]})) == {0: ErrorCode.TOPIC_AUTHORIZATION_FAILED}


def test_a_fenced_leader_names_the_new_one(broker: ShareBroker, holder: Member) -> None:
    broker.persister.block()
    task = holder.begin_acknowledge({0: [(0, 9, [ACCEPT])]})
    broker.lead_by(2)
    broker.persister.error = ErrorCode.FENCED_LEADER_EPOCH
    broker.call(broker.persister.answer)
    response = task.result()
    (partition,) = response.responses[0].partitions
    assert partition.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partition.current_leader.leader_id == 2
    assert [node.host for node in response.node_endpoints] == ["host2"]


def test_partitions_without_batches_are_answered_beside_others(broker: ShareBroker, holder: Member) -> None:
    assert errors_of(holder.acknowledge({0: [], 1: []})) == {}
    assert errors_of(holder.acknowledge({0: [(0, 0, [ACCEPT])], 1: []})) == {0: 0, 1: 0}


# --- renewals


def test_renewed_locks_begin_again(broker: ShareBroker, holder: Member) -> None:
    broker.run(LOCK_MS - 1_000)
    response = holder.acknowledge({0: [(0, 9, [RENEW])]}, is_renew_ack=True)
    assert errors_of(response) == {0: 0}
    assert not broker.persister.writes
    broker.run(LOCK_MS - 1_000)
    assert errors_of(holder.acknowledge({0: [(0, 9, [ACCEPT])]})) == {0: 0}


def test_version_1_knows_no_renewal(broker: ShareBroker, holder: Member) -> None:
    assert errors_of(holder.acknowledge({0: [(0, 9, [RENEW])]}, version=1)) == {0: ErrorCode.INVALID_REQUEST}


def test_a_group_may_forbid_renewals(broker: ShareBroker, holder: Member) -> None:
    broker.set_config("share.renew.acknowledge.enable", "false")
    response = holder.acknowledge({0: [(0, 9, [RENEW])]}, is_renew_ack=True)
    assert errors_of(response) == {0: ErrorCode.INVALID_RECORD_STATE}


def test_a_fetch_that_renews_fetches_nothing(broker: ShareBroker, holder: Member) -> None:
    broker.produce(5)
    response = holder.fetch(
        acks={0: [(0, 9, [RENEW])]}, is_renew_ack=True, max_bytes=0, min_bytes=0, max_records=0, max_wait_ms=0
    )
    assert partitions_of(response)[0].acknowledge_error_code == 0
    assert acquired(response) == []
    assert acquired(holder.fetch()) == [(10, 14, 1)]


def test_a_fetch_that_renews_must_not_ask_for_records(broker: ShareBroker, holder: Member) -> None:
    response = holder.fetch(acks={0: [(0, 9, [RENEW])]}, is_renew_ack=True)
    assert response.error_code == ErrorCode.INVALID_REQUEST


# --- on a ShareFetch


def test_a_fetch_acknowledges_before_it_fetches(broker: ShareBroker, holder: Member) -> None:
    broker.produce(5)
    response = holder.fetch(acks={0: [(0, 9, [ACCEPT])]})
    assert acquired(response) == [(10, 14, 1)]
    assert partitions_of(response)[0].acknowledge_error_code == 0
    assert start_offset(broker) == 10


def test_a_fetch_answers_with_the_errors_of_its_acknowledgements(broker: ShareBroker, holder: Member) -> None:
    response = holder.fetch(acks={0: [(0, 99, [ACCEPT])]})
    partition = partitions_of(response)[0]
    assert (partition.error_code, partition.acknowledge_error_code) == (0, ErrorCode.INVALID_REQUEST)
    assert partition.acknowledge_error_message


def test_the_answer_waits_for_records_and_acknowledgements(broker: ShareBroker, holder: Member) -> None:
    broker.persister.block()
    task = holder.begin(acks={0: [(0, 9, [ACCEPT])]}, max_wait_ms=500)
    broker.produce(1)
    assert not task.done()
    broker.call(broker.persister.answer)
    assert acquired(task.result()) == [(10, 10, 1)]


def test_what_is_acknowledged_is_counted_by_type(broker: ShareBroker, holder: Member) -> None:
    holder.acknowledge({0: [(0, 3, [ACCEPT]), (4, 7, [RELEASE, RELEASE, REJECT, 0])]})
    counts = broker.shares.stats.acknowledgements
    assert counts[AcknowledgeType.ACCEPT] == 4
    assert counts[AcknowledgeType.RELEASE] == 2
    assert counts[AcknowledgeType.REJECT] == 1
