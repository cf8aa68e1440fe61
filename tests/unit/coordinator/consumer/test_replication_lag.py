"""Replicas confirm late: decisions build on each other, and answers wait until what they build on is committed."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer_protocol import write_assignment
from barnabas.protocol.messages.heartbeat import HeartbeatRequest
from tests.unit.coordinator.consumer_group_driver import ClassicConsumer, Consumer, ConsumerGroupDriver
from tests.unit.coordinator.group_driver import GROUP


@pytest.fixture
def lagging(driver: ConsumerGroupDriver) -> ConsumerGroupDriver:
    driver.topic.auto_commit = False
    return driver


def commit(driver: ConsumerGroupDriver) -> None:
    driver.topic.commit(0)


def test_an_answer_waits_for_the_commit_and_the_next_decision_does_not(lagging: ConsumerGroupDriver) -> None:
    first, second = Consumer(lagging, "first"), Consumer(lagging, "second")
    joined = first.send(first.request(epoch=0, is_full=True, owned={}))
    lagging.advance(1_000)
    followed = second.send(second.request(epoch=0, is_full=True, owned={}))
    assert not joined.is_complete
    assert not followed.is_complete
    assert lagging.group().epoch == 3
    commit(lagging)
    first.received(joined.value)
    second.received(followed.value)
    assert (first.owned, second.owned) == ({"orders": set(range(6))}, {})
    assert (first.epoch, second.epoch) == (2, 3)


def test_an_answer_without_records_waits_for_what_it_builds_on(lagging: ConsumerGroupDriver) -> None:
    member = Consumer(lagging, "member")
    joined = member.send(member.request(epoch=0, is_full=True, owned={}))
    again = member.send(member.request(epoch=2, owned={"orders": set(range(6))}))
    assert not again.is_complete
    commit(lagging)
    assert (joined.value.member_epoch, again.value.member_epoch) == (2, 2)
    later = member.send(member.request(epoch=2))
    assert later.is_complete, "everything is committed"


def test_several_steps_of_a_reconciliation_may_be_uncommitted(lagging: ConsumerGroupDriver) -> None:
    """The members' requests do not wait for earlier answers: their connections were lost."""
    first, second = Consumer(lagging, "first"), Consumer(lagging, "second")
    first.send(first.request(epoch=0, is_full=True, owned={}))
    lagging.advance(1_000)
    second.send(second.request(epoch=0, is_full=True, owned={}))
    first.send(first.request(epoch=2, owned={"orders": set(range(6))}))
    kept = set(next(iter(lagging.group().members["first"].assigned.values())))
    first.send(first.request(epoch=2, owned={"orders": kept}))
    received = second.send(second.request(epoch=3, owned={}))
    assert not received.is_complete
    commit(lagging)
    second.received(received.value)
    assert second.owned == {"orders": set(range(6)) - kept}
    assert lagging.restarted().describe_consumers() == lagging.describe_consumers()


def test_a_write_that_is_never_committed_is_answered_after_a_while(lagging: ConsumerGroupDriver) -> None:
    member = Consumer(lagging, "member")
    joined = member.send(member.request(epoch=0, is_full=True, owned={}))
    lagging.advance(lagging.config.offsets_commit_timeout_ms)
    assert joined.value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = member.send(member.request(epoch=0, is_full=True, owned={}))
    commit(lagging)
    assert again.value.error_code == ErrorCode.NONE, "it is the member that joined before"
    assert len(lagging.group().members) == 1


def test_what_was_not_committed_is_lost_with_the_coordinator(lagging: ConsumerGroupDriver) -> None:
    member = Consumer(lagging, "member")
    joined = member.send(member.request(epoch=0, is_full=True, owned={}))
    log = lagging.topic.log(0)
    del log.batches[:]
    log.log_end_offset = 0
    lagging.coordinator.runtime.unload(0, lagging.now_ms)
    assert joined.value.error_code == ErrorCode.NOT_COORDINATOR
    successor = lagging.restarted()
    assert successor.shard.groups.find(GROUP) is None


def test_an_upgrade_overtakes_a_generation_that_is_not_committed_yet(lagging: ConsumerGroupDriver) -> None:
    """The classic record is in the log before the conversion, and must not bring the classic group back."""
    classic = ClassicConsumer(lagging)
    assert classic.join() == ErrorCode.NONE
    share = write_assignment({"orders": range(6)}, classic.subscription())
    synced = lagging.sync(classic.member_id, classic.epoch, {classic.member_id: share})
    newcomer = Consumer(lagging, "newcomer")
    joined = newcomer.send(newcomer.request(epoch=0, is_full=True, owned={}))
    assert synced.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert isinstance(lagging.shard.groups.find(GROUP), ConsumerGroup)
    commit(lagging)
    assert joined.value.error_code == ErrorCode.NONE
    group = lagging.group()
    assert set(group.members) == {classic.member_id, "newcomer"}
    assert lagging.restarted().describe_consumers() == lagging.describe_consumers()


def test_a_downgrade_is_seen_whole_before_it_is_committed(lagging: ConsumerGroupDriver) -> None:
    member, classic = Consumer(lagging, "member"), ClassicConsumer(lagging)
    lagging.topic.auto_commit = True
    member.join()
    classic.join_and_sync()
    lagging.settle(member, classic)
    lagging.topic.auto_commit = False
    left = member.send(member.request(epoch=-1))
    assert isinstance(lagging.shard.groups.find(GROUP), ClassicGroup)
    assert not left.is_complete
    rejoined = classic.send_join().value
    assert rejoined.error_code == ErrorCode.NONE
    assert classic.joined(rejoined) == ErrorCode.NONE
    share = write_assignment({"orders": range(6)}, classic.subscription())
    synced = lagging.sync(classic.member_id, classic.epoch, {classic.member_id: share})
    assert not synced.is_complete
    commit(lagging)
    assert left.value.error_code == ErrorCode.NONE
    assert synced.value.error_code == ErrorCode.NONE
    assert lagging.state() == "Stable"
    assert lagging.restarted().describe().members[0].member_assignment == share


def test_a_member_may_join_a_group_whose_deletion_is_not_committed_yet(lagging: ConsumerGroupDriver) -> None:
    member = Consumer(lagging, "member")
    lagging.topic.auto_commit = True
    member.join()
    lagging.commit(5, member_id="member", generation=member.epoch)
    member.leave()
    lagging.topic.auto_commit = False
    deleted = lagging.coordinator.delete_groups([GROUP], lagging.now_ms)
    joined = member.send(member.request(epoch=0, is_full=True, owned={}))
    assert lagging.committed() == 5, "the offset exists until its removal is committed"
    commit(lagging)
    assert [result.error_code for part in deleted.value for result in part] == [ErrorCode.NONE]
    assert joined.value.error_code == ErrorCode.NONE
    assert set(lagging.group().members) == {"member"}
    assert lagging.committed() == -1
    successor = lagging.restarted()
    assert set(successor.group().members) == {"member"}
    assert successor.committed() == -1


def test_a_group_that_expires_may_be_joined_before_that_is_committed(lagging: ConsumerGroupDriver) -> None:
    member = Consumer(lagging, "member")
    lagging.topic.auto_commit = True
    member.join()
    member.leave()
    lagging.topic.auto_commit = False
    lagging.advance(lagging.config.offsets_retention_check_interval_ms)
    assert lagging.shard.groups.find(GROUP) is None
    member.send(member.request(epoch=0, is_full=True, owned={}))
    commit(lagging)
    assert set(lagging.group().members) == {"member"}
    assert set(lagging.restarted().group().members) == {"member"}


def test_a_heartbeat_of_a_classic_member_waits_too(lagging: ConsumerGroupDriver) -> None:
    member, classic = Consumer(lagging, "member"), ClassicConsumer(lagging)
    lagging.topic.auto_commit = True
    member.join()
    classic.join_and_sync()
    lagging.settle(member, classic)
    lagging.topic.auto_commit = False
    third = Consumer(lagging, "third")
    lagging.advance(1_000)
    third.send(third.request(epoch=0, is_full=True, owned={}))
    request = HeartbeatRequest(group_id=GROUP, generation_id=classic.epoch, member_id=classic.member_id)
    answer = lagging.coordinator.heartbeat(request, lagging.now_ms)
    assert not answer.is_complete
    commit(lagging)
    assert answer.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
