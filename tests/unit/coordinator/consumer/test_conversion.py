"""A group changes its protocol while it has members: upgrade, downgrade, and what prevents them (KIP-848)."""

from __future__ import annotations

from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.group.classic.classic_group import ClassicGroup
from barnabas.coordinator.group.consumer.consumer_group import ConsumerGroup
from barnabas.coordinator.group.consumer_protocol import write_assignment
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig, MigrationPolicy
from barnabas.protocol.record_serde import encode_versioned
from barnabas.protocol.records.consumer_protocol_assignment import ConsumerProtocolAssignment, TopicPartition
from tests.unit.coordinator.consumer_group_driver import (
    CONSUMER_SESSION_MS,
    ClassicConsumer,
    Consumer,
    ConsumerGroupDriver,
)
from tests.unit.coordinator.group_driver import GROUP, subscription


def kind_of(driver: ConsumerGroupDriver) -> type | None:
    found = driver.shard.groups.find(GROUP)
    return None if found is None else type(found)


def with_policy(driver: ConsumerGroupDriver, policy: MigrationPolicy, **settings: Any) -> ConsumerGroupDriver:
    config = GroupCoordinatorConfig(
        group_initial_rebalance_delay_ms=0,
        offsets_topic_num_partitions=1,
        group_consumer_migration_policy=policy,
        **settings,
    )
    return driver.restarted(config)


def assign(driver: ConsumerGroupDriver, *members: ClassicConsumer) -> None:
    """Let the first lead a generation and divide the partitions."""
    count = driver.metadata.view.partition_count(driver.metadata.id_of("orders"))
    shares = {
        member.member_id: write_assignment({"orders": range(index, count, len(members))}, member.subscription())
        for index, member in enumerate(members)
    }
    for member in members[1:]:
        driver.sync(member.member_id, member.epoch, instance=member.instance, protocol_name=member.protocol)
    members[0].sync(shares)
    for member in members[1:]:
        assert member.sync() == ErrorCode.NONE


def classic_group(driver: ConsumerGroupDriver, count: int, *, static: bool = False) -> list[ClassicConsumer]:
    """A Stable classic group."""
    members = [ClassicConsumer(driver, instance=f"i{index}" if static else None) for index in range(count)]
    for member in members:
        answer = member.send_join()
        if answer.is_complete and answer.value.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            member.member_id = answer.value.member_id
            member.send_join()
        if member.joining is not None and member.joining.is_complete:
            member.joined(member.joining.value)
    waiting = [member for member in members if member.joining is not None]
    for member in waiting[:-1]:
        member.send_join()
    for member in waiting:
        assert member.joining is not None
        assert member.joined(member.joining.value) == ErrorCode.NONE
    assign(driver, *members)
    assert driver.state() == "Stable"
    return members


# -- upgrade


def test_a_classic_group_becomes_a_consumer_group_with_its_assignment(driver: ConsumerGroupDriver) -> None:
    first, second = classic_group(driver, 2)
    generation = first.epoch
    newcomer = Consumer(driver, "newcomer")
    assert newcomer.join().error_code == ErrorCode.NONE
    assert kind_of(driver) is ConsumerGroup
    assert newcomer.owned == {}
    assert driver.group().epoch == generation + 1
    assert first.owned != second.owned
    driver.settle(newcomer, first, second)
    assert len(driver.owners(newcomer, first, second)) == 6
    assert {first.epoch, second.epoch} == {newcomer.epoch}


def test_the_upgrade_is_loaded_as_it_was_written(driver: ConsumerGroupDriver) -> None:
    classic_group(driver, 2)
    Consumer(driver, "newcomer").join()
    assert driver.restarted().describe_consumers() == driver.describe_consumers()


def test_waiting_requests_of_the_classic_group_are_answered(driver: ConsumerGroupDriver) -> None:
    first, second = classic_group(driver, 2)
    waiting = first.send_join()  # The leader starts a rebalance, and waits for the other.
    assert not waiting.is_complete
    Consumer(driver, "newcomer").join()
    assert waiting.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert first.join_and_sync() == ErrorCode.NONE
    assert second.beat() == ErrorCode.NONE


def test_a_sync_that_waits_for_its_leader_is_answered(driver: ConsumerGroupDriver) -> None:
    first, second = classic_group(driver, 2)
    rejoined = first.send_join()
    second.join()
    first.joined(rejoined.value)
    parked = driver.sync(second.member_id, second.epoch)
    assert not parked.is_complete
    Consumer(driver, "newcomer").join()
    assert parked.value.error_code == ErrorCode.REBALANCE_IN_PROGRESS
    assert second.join_and_sync() == ErrorCode.NONE


def test_sessions_of_classic_members_start_anew(driver: ConsumerGroupDriver) -> None:
    (classic,) = classic_group(driver, 1)
    driver.advance(9_000)
    newcomer = Consumer(driver, "newcomer")
    newcomer.join()
    driver.advance(9_999)
    assert classic.heartbeat() != ErrorCode.UNKNOWN_MEMBER_ID
    driver.advance(10_000)
    assert list(driver.group().members) == ["newcomer"]


def test_an_upgrade_that_cannot_be_written_changes_nothing(driver: ConsumerGroupDriver) -> None:
    first, second = classic_group(driver, 2)
    driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    newcomer = Consumer(driver, "newcomer")
    assert newcomer.join().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.topic.refuse_with = None
    assert kind_of(driver) is ClassicGroup
    assert (first.heartbeat(), second.heartbeat()) == (ErrorCode.NONE, ErrorCode.NONE)
    driver.advance(10_000)
    assert driver.state() == "Empty", "its sessions still run"


def test_an_empty_classic_group_becomes_a_consumer_group(driver: ConsumerGroupDriver) -> None:
    (classic,) = classic_group(driver, 1)
    driver.commit(5)
    driver.commit(7, member_id=classic.member_id, generation=classic.epoch)
    classic.leave()
    pending = driver.join().value.member_id  # It has not joined yet, and is forgotten.
    newcomer = Consumer(driver, "newcomer")
    newcomer.join()
    assert newcomer.owned == {"orders": set(range(6))}
    assert driver.committed() == 7
    assert pending not in driver.group().members
    assert driver.restarted().describe_consumers() == driver.describe_consumers()


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.DOWNGRADE])
def test_an_upgrade_may_be_disabled(driver: ConsumerGroupDriver, policy: MigrationPolicy) -> None:
    strict = with_policy(driver, policy)
    classic_group(strict, 1)
    response = Consumer(strict, "newcomer").join()
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert response.error_message == (
        f"Cannot upgrade classic group {GROUP} to consumer group because online upgrade is disabled."
    )
    assert kind_of(strict) is ClassicGroup


def test_a_large_group_stays_classic(driver: ConsumerGroupDriver) -> None:
    small = with_policy(driver, MigrationPolicy.BIDIRECTIONAL, group_consumer_max_size=1)
    classic_group(small, 2)
    response = Consumer(small, "newcomer").join()
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "group size exceeds" in (response.error_message or "")


def test_a_group_of_another_protocol_type_stays_classic(driver: ConsumerGroupDriver) -> None:
    member_id, joined = driver.join_known(protocol_type="connect", protocols={"compatible": b"x"})
    driver.sync(member_id, joined.value.generation_id, {member_id: b""}, protocol_type="connect", protocol_name=None)
    response = Consumer(driver, "newcomer").join()
    assert response.error_code == ErrorCode.GROUP_ID_NOT_FOUND
    assert "does not use the consumer embedded protocol" in (response.error_message or "")


@pytest.mark.parametrize(
    ("assignment", "code", "reason"),
    [
        (b"\x00\x01\xff", ErrorCode.GROUP_ID_NOT_FOUND, "the embedded consumer protocol is malformed"),
        (
            encode_versioned(ConsumerProtocolAssignment(user_data=b"x"), 1),
            ErrorCode.GROUP_ID_NOT_FOUND,
            "an unsupported custom assignor is in use",
        ),
    ],
)
def test_an_assignment_that_would_be_lost_prevents_the_upgrade(
    driver: ConsumerGroupDriver, assignment: bytes, code: ErrorCode, reason: str
) -> None:
    member_id, joined = driver.join_known()
    driver.sync(member_id, joined.value.generation_id, {member_id: assignment})
    response = Consumer(driver, "newcomer").join()
    assert (response.error_code, kind_of(driver)) == (code, ClassicGroup)
    assert reason in (response.error_message or "")


def test_a_partition_that_was_assigned_twice_prevents_the_upgrade(driver: ConsumerGroupDriver) -> None:
    first, second = classic_group(driver, 2)
    rejoined = first.send_join()
    second.join()
    first.joined(rejoined.value)
    both = encode_versioned(
        ConsumerProtocolAssignment(assigned_partitions=[TopicPartition(topic="orders", partitions=[0])]), 1
    )
    first.sync({first.member_id: both, second.member_id: both})
    response = Consumer(driver, "newcomer").join()
    assert (response.error_code, response.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    assert kind_of(driver) is ClassicGroup


def test_a_static_classic_member_returns_with_the_consumer_protocol(driver: ConsumerGroupDriver) -> None:
    first, second = classic_group(driver, 2, static=True)
    returned = Consumer(driver, "returned", instance="i0")
    assert returned.join().error_code == ErrorCode.NONE
    assert returned.owned == first.owned
    assert first.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    driver.settle(returned, second)
    assert len(driver.owners(returned, second)) == 6


# -- downgrade


def mixed_group(driver: ConsumerGroupDriver, **options: object) -> tuple[Consumer, ClassicConsumer, ClassicConsumer]:
    member = Consumer(driver, "member", **options)  # type: ignore[arg-type]
    member.join()
    first, second = ClassicConsumer(driver), ClassicConsumer(driver)
    first.join_and_sync()
    second.join_and_sync()
    driver.settle(member, first, second)
    return member, first, second


def test_a_group_becomes_classic_when_its_last_consumer_member_leaves(driver: ConsumerGroupDriver) -> None:
    member, first, second = mixed_group(driver)
    epoch = driver.group().epoch
    assert member.leave().error_code == ErrorCode.NONE
    assert kind_of(driver) is ClassicGroup
    assert driver.state() == "PreparingRebalance"
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    waiting = first.send_join()
    assert second.join() == ErrorCode.NONE
    assert first.joined(waiting.value) == ErrorCode.NONE
    assert first.epoch == epoch + 1
    leader, follower = (first, second) if waiting.value.members else (second, first)
    assign(driver, leader, follower)
    assert len(driver.owners(first, second)) == 6


def test_the_downgrade_is_loaded_as_it_was_written(driver: ConsumerGroupDriver) -> None:
    member, first, _ = mixed_group(driver)
    member.leave()
    successor = driver.restarted()
    assert kind_of(successor) is ClassicGroup
    described = successor.describe()
    assert described.group_state == "Stable"
    assert len(described.members) == 2
    assert successor.heartbeat(first.member_id, first.epoch) == ErrorCode.NONE


def test_a_group_becomes_classic_when_the_session_of_its_last_consumer_member_ends(
    driver: ConsumerGroupDriver,
) -> None:
    _, first, second = mixed_group(driver)
    for _ in range(9):
        driver.advance(CONSUMER_SESSION_MS // 9)
        first.heartbeat()
        second.heartbeat()
    assert kind_of(driver) is ClassicGroup


def test_a_downgrade_that_cannot_be_written_is_tried_again(driver: ConsumerGroupDriver) -> None:
    member, first, second = mixed_group(driver)
    driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert member.leave().error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert kind_of(driver) is ConsumerGroup
    driver.topic.refuse_with = None
    assert (first.heartbeat(), second.heartbeat()) == (ErrorCode.NONE, ErrorCode.NONE)
    assert member.leave().error_code == ErrorCode.NONE
    assert kind_of(driver) is ClassicGroup


def test_deadlines_of_the_consumer_group_end_with_it(driver: ConsumerGroupDriver) -> None:
    """A member that was told to join again must not be removed from the group that was converted back."""
    member, first, second = mixed_group(driver)
    third = Consumer(driver, "third")
    driver.advance(1_000)
    third.join()
    assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS  # Starts its deadline.
    third.leave()
    member.leave()
    waiting = first.send_join()
    second.join()
    first.joined(waiting.value)
    leader, follower = (first, second) if waiting.value.members else (second, first)
    assign(driver, leader, follower)
    again = Consumer(driver, "again")
    again.join()
    driver.settle(again, first, second)
    for _ in range(8):
        driver.advance(4_000)
        again.beat()
        assert (first.beat(), second.beat()) == (ErrorCode.NONE, ErrorCode.NONE)
    assert len(driver.group().members) == 3


@pytest.mark.parametrize("policy", [MigrationPolicy.DISABLED, MigrationPolicy.UPGRADE])
def test_a_downgrade_may_be_disabled(driver: ConsumerGroupDriver, policy: MigrationPolicy) -> None:
    member, first, second = mixed_group(driver)
    strict = with_policy(driver, policy)
    for found in (member, first, second):
        found.driver = strict
    member.leave()
    assert kind_of(strict) is ConsumerGroup
    if policy is MigrationPolicy.UPGRADE:
        assert first.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS, "no other member lets the target be computed"
        strict.settle(first, second)
        assert len(strict.owners(first, second)) == 6
    else:
        assert first.heartbeat() == ErrorCode.NONE
        assert first.join() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_group_that_is_too_large_for_the_classic_protocol_stays(driver: ConsumerGroupDriver) -> None:
    small = with_policy(driver, MigrationPolicy.BIDIRECTIONAL, group_max_size=1)
    member, _, _ = mixed_group(small)
    member.leave()
    assert kind_of(small) is ConsumerGroup


def test_the_last_member_of_all_leaves_an_empty_consumer_group(driver: ConsumerGroupDriver) -> None:
    member = Consumer(driver, "member")
    member.join()
    member.leave()
    assert kind_of(driver) is ConsumerGroup


def test_a_static_member_that_returns_with_the_classic_protocol_converts_the_group(
    driver: ConsumerGroupDriver,
) -> None:
    """It keeps its assignment, and no other member has to join again."""
    member, first, second = mixed_group(driver, instance="desk")
    epoch = driver.group().epoch
    returned = ClassicConsumer(driver, instance="desk")
    assert returned.join() == ErrorCode.NONE
    assert (kind_of(driver), driver.state()) == (ClassicGroup, "Stable")
    assert returned.epoch == epoch
    assert returned.sync() == ErrorCode.NONE
    assert returned.owned == member.owned
    assert (first.heartbeat(), second.heartbeat()) == (ErrorCode.NONE, ErrorCode.NONE)
    assert member.beat().error_code == ErrorCode.GROUP_ID_NOT_FOUND
    described = {found.member_id for found in driver.restarted().describe().members}
    assert described == {returned.member_id, first.member_id, second.member_id}


def test_with_an_old_target_the_whole_group_joins_again(driver: ConsumerGroupDriver) -> None:
    _, first, second = mixed_group(driver, instance="desk")
    driver.metadata.add_partitions("orders", 8)
    returned = ClassicConsumer(driver, instance="desk")
    assert returned.join() == ErrorCode.NONE
    assert driver.state() == "PreparingRebalance"
    assert first.heartbeat() == second.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS


def test_if_a_member_must_still_give_up_partitions_the_whole_group_joins_again(driver: ConsumerGroupDriver) -> None:
    """Otherwise the one that returns would receive them while they are in use."""
    (first,) = classic_group(driver, 1)
    member = Consumer(driver, "member", instance="desk")
    member.join()
    assert (len(first.owned["orders"]), member.owned) == (6, {})
    returned = ClassicConsumer(driver, instance="desk")
    assert returned.join() == ErrorCode.NONE
    assert driver.state() == "PreparingRebalance"
    assert returned.sync() != ErrorCode.NONE
    assert returned.owned == {}


def test_an_empty_consumer_group_becomes_classic(driver: ConsumerGroupDriver) -> None:
    member = Consumer(driver, "member")
    member.join()
    driver.commit(5, member_id="member", generation=member.epoch, version=9)
    member.leave()
    classic = ClassicConsumer(driver)
    assert classic.join() == ErrorCode.NONE
    assert (kind_of(driver), driver.state()) == (ClassicGroup, "CompletingRebalance")
    assert classic.epoch == 1
    assign(driver, classic)
    assert driver.committed() == 5
    successor = driver.restarted()
    assert kind_of(successor) is ClassicGroup
    assert successor.heartbeat(classic.member_id, classic.epoch) == ErrorCode.NONE


def test_an_empty_group_that_cannot_be_converted_stays(driver: ConsumerGroupDriver) -> None:
    member = Consumer(driver, "member")
    member.join()
    member.leave()
    driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    assert driver.join().value.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
    driver.topic.refuse_with = None
    assert kind_of(driver) is ConsumerGroup
    assert driver.join("stranger").value.error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert kind_of(driver) is ConsumerGroup


def test_a_subscription_that_cannot_be_read_prevents_the_downgrade_only(driver: ConsumerGroupDriver) -> None:
    """The second protocol of a member is not read when it joins."""
    member = Consumer(driver, "member")
    member.join()
    strange = {"range": subscription("orders"), "custom": b"\xff\xff"}
    driver.join("x", protocols=strange)
    driver.join("y", protocols={"custom": subscription("orders")})
    assert len(driver.group().members) == 3
    assert member.leave().error_code == ErrorCode.NONE
    assert kind_of(driver) is ConsumerGroup
    assert set(driver.group().members) == {"x", "y"}
