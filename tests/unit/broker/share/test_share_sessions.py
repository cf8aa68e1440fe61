"""Share sessions: epochs, their partitions, what answers contain, their limit, and their end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.broker.share.share_partition_config import SharePartitionConfig
from barnabas.common.errors import ErrorCode
from barnabas.protocol.records.feature_level_record import FeatureLevelRecord
from tests.unit.broker.share.share_broker import ELSEWHERE, GROUP, Member, ShareBroker, acquired, partitions_of

ACCEPT = 1


@pytest.fixture
def small(tmp_path: Path) -> Iterator[ShareBroker]:
    """A broker that keeps two share sessions."""
    made = ShareBroker(tmp_path, SharePartitionConfig(max_share_sessions=2))
    yield made
    made.close()


def test_later_requests_name_only_changes(broker: ShareBroker, alice: Member) -> None:
    alice.fetch([0])
    alice.fetch([1])
    broker.produce(1, 0)
    broker.produce(1, 1)
    assert set(partitions_of(alice.fetch())) == {0, 1}
    broker.produce(1, 0)
    broker.produce(1, 1)
    assert set(partitions_of(alice.fetch(forget=[0]))) == {1}
    assert broker.shares.sessions.partition_count() == 1


def test_answers_contain_only_news(broker: ShareBroker, alice: Member) -> None:
    assert set(partitions_of(alice.fetch([0]))) == {0}
    assert not partitions_of(alice.fetch())
    assert set(partitions_of(alice.fetch([1]))) == {1}, "a partition that was added"
    assert set(partitions_of(alice.fetch([ELSEWHERE]))) == {ELSEWHERE}
    assert set(partitions_of(alice.fetch())) == {ELSEWHERE}, "an error"


def test_the_end_of_an_error_is_news(broker: ShareBroker, alice: Member) -> None:
    broker.rights.denied.add("jobs")
    alice.fetch([0])
    assert partitions_of(alice.fetch())[0].error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    broker.rights.denied.clear()
    assert partitions_of(alice.fetch())[0].error_code == 0
    assert not partitions_of(alice.fetch())


@pytest.mark.parametrize("epoch", [2, 7, -2])
def test_a_wrong_epoch_is_refused(broker: ShareBroker, alice: Member, epoch: int) -> None:
    alice.fetch([0])
    assert alice.fetch(epoch=epoch).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert alice.acknowledge({}, epoch=epoch).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    alice.epoch = 1
    assert alice.fetch().error_code == 0


def test_a_member_without_a_session_is_refused(broker: ShareBroker, alice: Member) -> None:
    for epoch in (1, -1):
        assert alice.fetch(epoch=epoch).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
        assert alice.acknowledge({}, epoch=epoch).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_share_acknowledge_begins_no_session(broker: ShareBroker, alice: Member) -> None:
    assert alice.acknowledge({}, epoch=0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH


def test_a_new_session_has_nothing_to_acknowledge(broker: ShareBroker, alice: Member) -> None:
    assert alice.fetch(acks={0: [(0, 1, [ACCEPT])]}).error_code == ErrorCode.INVALID_REQUEST
    assert len(broker.shares.sessions) == 0


def test_both_requests_advance_the_epoch(broker: ShareBroker, alice: Member) -> None:
    alice.fetch([0])
    assert alice.acknowledge({}).error_code == 0
    assert alice.fetch().error_code == 0
    assert alice.epoch == 3


def test_a_session_that_begins_again_replaces_the_first(broker: ShareBroker, alice: Member) -> None:
    alice.fetch([0])
    alice.fetch([1], epoch=0)
    assert len(broker.shares.sessions) == 1
    broker.produce(1, 0)
    broker.produce(1, 1)
    alice.epoch = 1
    assert set(partitions_of(alice.fetch())) == {1}


# --- the end


def test_the_last_acknowledgements_hold_and_the_rest_is_released(
    broker: ShareBroker, alice: Member, bob: Member
) -> None:
    broker.produce(10)
    alice.fetch([0])
    assert alice.acknowledge({0: [(0, 4, [ACCEPT])]}, epoch=-1).error_code == 0
    assert acquired(bob.fetch([0])) == [(5, 9, 2)]
    assert len(broker.shares.sessions) == 1


def test_a_fetch_may_end_the_session(broker: ShareBroker, alice: Member, bob: Member) -> None:
    broker.produce(10)
    alice.fetch([0])
    response = alice.fetch(acks={0: [(0, 4, [ACCEPT])]}, epoch=-1)
    assert partitions_of(response)[0].acknowledge_error_code == 0
    assert acquired(response) == []
    assert acquired(bob.fetch([0])) == [(5, 9, 2)]


def test_a_lost_connection_ends_the_session(broker: ShareBroker, alice: Member, bob: Member) -> None:
    broker.produce(10)
    alice.fetch([0])
    task = bob.begin([0], max_wait_ms=500)
    broker.call(alice.peer.close)
    assert acquired(task.result()) == [(0, 9, 2)]
    assert broker.shares.sessions.evictions == 1


def test_an_old_connection_does_not_end_a_session_on_a_new_one(broker: ShareBroker, alice: Member) -> None:
    broker.produce(10)
    alice.fetch([0])
    old, alice.peer, alice.epoch = alice.peer, broker.new_peer(), 0
    alice.fetch([0])
    broker.call(old.close)
    assert alice.fetch().error_code == 0
    assert len(broker.shares.sessions) == 1


def test_all_sessions_of_a_connection_end_with_it(broker: ShareBroker, alice: Member, bob: Member) -> None:
    bob.peer = alice.peer
    alice.fetch([0])
    bob.fetch([0])
    broker.call(alice.peer.close)
    assert len(broker.shares.sessions) == 0


# --- limits and rights


def test_members_wait_while_too_many_have_sessions(small: ShareBroker) -> None:
    first, second, third = (Member(small, name) for name in ("a", "b", "c"))
    first.fetch([0])
    second.fetch([0])
    task = third.begin([0], max_wait_ms=500)
    small.run(499)
    assert not task.done()
    small.run(1)
    assert task.result().error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED
    assert first.fetch([0], epoch=0).error_code == 0, "a member may begin its own session again"
    small.call(second.peer.close)
    third.epoch = 0
    assert third.fetch([0]).error_code == 0


@pytest.mark.parametrize("member_id", ["", "x" * 37])
def test_a_member_id_has_a_length(broker: ShareBroker, member_id: str) -> None:
    member = Member(broker, member_id)
    assert member.fetch([0]).error_code == ErrorCode.INVALID_REQUEST
    assert member.acknowledge({}).error_code == ErrorCode.INVALID_REQUEST


def test_the_group_must_be_readable(broker: ShareBroker, alice: Member) -> None:
    broker.rights.denied.add(GROUP)
    response = alice.fetch([0])
    assert response.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert response.error_message == "User:ANONYMOUS lacks READ on Group:workers"
    assert alice.acknowledge({}).error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED


def test_share_groups_may_be_disabled(broker: ShareBroker, alice: Member) -> None:
    task = alice.begin([0], max_wait_ms=500)
    broker.publish(FeatureLevelRecord(name="share.version", feature_level=0))
    assert partitions_of(task.result())[0].error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert len(broker.shares.sessions) == 0
    assert alice.fetch().error_code == ErrorCode.UNSUPPORTED_VERSION
    assert alice.acknowledge({}).error_code == ErrorCode.UNSUPPORTED_VERSION
