"""Members of the classic protocol in a consumer group: JoinGroup, SyncGroup, Heartbeat and LeaveGroup against it."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig, MigrationPolicy
from tests.unit.coordinator.consumer_group_driver import ClassicConsumer, Consumer, ConsumerGroupDriver
from tests.unit.coordinator.group_driver import GROUP


@pytest.fixture
def member(driver: ConsumerGroupDriver) -> Consumer:
    """A member of the consumer protocol, so that the group is of its kind."""
    (member,) = driver.consumers(1)
    return member


def test_a_classic_member_shares_the_partitions(driver: ConsumerGroupDriver, member: Consumer) -> None:
    classic = ClassicConsumer(driver)
    assert classic.join_and_sync() == ErrorCode.NONE
    driver.settle(member, classic)
    assert len(driver.owners(member, classic)) == 6
    assert (len(classic.owned["orders"]), classic.epoch) == (3, member.epoch)
    described = {found.member_id: found.member_type for found in driver.describe_consumers().members}
    assert described == {member.member_id: 1, classic.member_id: 0}


def test_a_new_member_learns_its_id_first(driver: ConsumerGroupDriver, member: Consumer) -> None:
    classic = ClassicConsumer(driver)
    response = classic.send_join().value
    assert response.error_code == ErrorCode.MEMBER_ID_REQUIRED
    assert response.member_id
    assert list(driver.group().members) == [member.member_id]
    old = ClassicConsumer(driver, version=3)
    assert old.send_join().value.error_code == ErrorCode.NONE


def test_the_answer_has_an_epoch_as_generation_and_no_leader(driver: ConsumerGroupDriver, member: Consumer) -> None:
    classic = ClassicConsumer(driver, protocols=["roundrobin", "range"])
    classic.join()
    driver.advance(1_000)
    response = classic.send_join().value
    assert response.generation_id == driver.group().members[classic.member_id].member_epoch == 3
    assert (response.protocol_type, response.protocol_name) == ("consumer", "roundrobin")
    assert (response.leader, response.members, response.skip_assignment) == ("", [], False)


def test_a_partition_moves_from_a_classic_member_in_two_joins(driver: ConsumerGroupDriver, member: Consumer) -> None:
    classic = ClassicConsumer(driver)
    classic.join_and_sync()
    driver.settle(member, classic)
    third = Consumer(driver, "third")
    driver.advance(1_000)
    third.join()
    member.beat()
    member.beat()
    before = set(classic.owned["orders"])
    assert classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert classic.join_and_sync() == ErrorCode.NONE
    kept = classic.owned["orders"]
    assert kept < before
    third.beat()
    assert not (before - kept) & third.owned.get("orders", set()), "the classic member has not confirmed yet"
    assert classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    assert classic.join_and_sync() == ErrorCode.NONE
    assert classic.heartbeat() == ErrorCode.NONE
    driver.settle(member, classic, third)
    assert len(driver.owners(member, classic, third)) == 6


def test_a_member_that_waits_for_partitions_is_told_when_they_are_free(
    driver: ConsumerGroupDriver, member: Consumer
) -> None:
    classic = ClassicConsumer(driver)
    driver.advance(1_000)
    assert classic.join_and_sync() == ErrorCode.NONE
    assert classic.owned == {}
    assert classic.heartbeat() == ErrorCode.NONE, "nothing to receive yet"
    member.beat()
    member.beat()
    assert classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
    classic.join_and_sync()
    assert len(classic.owned["orders"]) == 3


# -- errors


def test_requests_of_strangers_are_refused(driver: ConsumerGroupDriver, member: Consumer) -> None:
    classic = ClassicConsumer(driver)
    classic.join_and_sync()
    unknown, fenced = ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.ILLEGAL_GENERATION
    assert driver.heartbeat("stranger", 1) == unknown
    assert driver.heartbeat(member.member_id, member.epoch) == unknown, "it uses the other protocol"
    assert driver.heartbeat(classic.member_id, classic.epoch + 1) == fenced
    assert driver.heartbeat(classic.member_id, classic.epoch, instance="nobody") == unknown
    assert driver.sync("stranger", 1).value.error_code == unknown
    assert driver.sync(member.member_id, member.epoch).value.error_code == unknown
    assert driver.sync(classic.member_id, classic.epoch - 1).value.error_code == fenced
    for options in ({"protocol_type": "connect"}, {"protocol_name": "sticky"}):
        answer = driver.sync(classic.member_id, classic.epoch, **options).value  # type: ignore[arg-type]
        assert answer.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_member_without_a_common_protocol_is_refused(driver: ConsumerGroupDriver, member: Consumer) -> None:
    ClassicConsumer(driver, protocols=["range", "sticky"]).join()
    assert ClassicConsumer(driver, protocols=["roundrobin"]).join() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert ClassicConsumer(driver, protocols=["sticky"]).join() == ErrorCode.NONE
    other_type = driver.join("x", protocol_type="connect").value
    assert (other_type.error_code, other_type.member_id) == (ErrorCode.INCONSISTENT_GROUP_PROTOCOL, "")
    assert driver.join("x", protocols={}).value.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_subscription_that_cannot_be_read_refuses_the_member(driver: ConsumerGroupDriver, member: Consumer) -> None:
    """Kafka answers as if it had failed, too."""
    for data in (b"", b"\x00", b"\xff\xff", b"\x00\x01\x00"):
        assert driver.join("x", protocols={"range": data}).value.error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert list(driver.group().members) == [member.member_id]


def test_a_group_whose_migration_is_disabled_accepts_no_classic_member(driver: ConsumerGroupDriver) -> None:
    config = GroupCoordinatorConfig(
        group_consumer_migration_policy=MigrationPolicy.DISABLED, offsets_topic_num_partitions=1
    )
    strict = driver.restarted(config)
    strict.consumers(1)
    assert ClassicConsumer(strict).join() == ErrorCode.INCONSISTENT_GROUP_PROTOCOL


def test_a_full_group_refuses_a_classic_member(driver: ConsumerGroupDriver) -> None:
    small = driver.restarted(GroupCoordinatorConfig(group_consumer_max_size=1, offsets_topic_num_partitions=1))
    small.consumers(1)
    assert ClassicConsumer(small).join() == ErrorCode.GROUP_MAX_SIZE_REACHED


def test_a_member_must_rejoin_before_it_can_sync_an_old_epoch(driver: ConsumerGroupDriver, member: Consumer) -> None:
    classic = ClassicConsumer(driver)
    classic.join()
    Consumer(driver, "third").join()
    driver.advance(1_000)
    member.beat()  # Computes the target.
    assert classic.sync() == ErrorCode.REBALANCE_IN_PROGRESS
    assert classic.join_and_sync() == ErrorCode.NONE


# -- deadlines


def test_a_member_that_does_not_sync_is_removed(driver: ConsumerGroupDriver, member: Consumer) -> None:
    classic = ClassicConsumer(driver, rebalance_ms=8_000)
    classic.join()
    driver.advance(7_999)
    assert classic.member_id in driver.group().members
    driver.advance(1)
    assert classic.member_id not in driver.group().members


def test_a_member_that_does_not_join_again_is_removed(driver: ConsumerGroupDriver, member: Consumer) -> None:
    classic = ClassicConsumer(driver, rebalance_ms=8_000)
    classic.join_and_sync()
    driver.settle(member, classic)
    third = Consumer(driver, "third")
    driver.advance(1_000)
    third.join()
    for _ in range(8):
        assert classic.heartbeat() == ErrorCode.REBALANCE_IN_PROGRESS
        assert classic.member_id in driver.group().members
        driver.advance(1_000)
    assert classic.member_id not in driver.group().members
    assert classic.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID


def test_its_session_is_that_of_its_request(driver: ConsumerGroupDriver, member: Consumer) -> None:
    classic = ClassicConsumer(driver, session_ms=10_000)
    classic.join_and_sync()
    driver.settle(member, classic)
    driver.advance(9_999)
    assert classic.heartbeat() == ErrorCode.NONE
    driver.advance(10_000)
    assert classic.member_id not in driver.group().members


# -- leaving


def test_members_of_both_protocols_are_removed_by_name(driver: ConsumerGroupDriver, member: Consumer) -> None:
    other = Consumer(driver, "other", instance="desk")
    other.join()
    classic = ClassicConsumer(driver)
    classic.join_and_sync()
    answer = driver.leave((classic.member_id, None), ("", "desk"), ("stranger", None), ("", "nobody")).value
    assert [found.error_code for found in answer.members] == [0, 0, 25, 25]
    assert list(driver.group().members) == [member.member_id]
    fenced = driver.leave((classic.member_id, None), group="nowhere").value
    assert [found.error_code for found in fenced.members] == [ErrorCode.UNKNOWN_MEMBER_ID]


def test_a_member_named_twice_leaves_once(driver: ConsumerGroupDriver, member: Consumer) -> None:
    classic = ClassicConsumer(driver)
    classic.join_and_sync()
    epoch = driver.group().epoch
    answer = driver.leave((classic.member_id, None), (classic.member_id, None)).value
    assert [found.error_code for found in answer.members] == [0, 0]
    assert driver.group().epoch == epoch + 1


# -- static members change the protocol


def test_a_static_member_turns_from_classic_to_consumer_and_keeps_its_partitions(
    driver: ConsumerGroupDriver, member: Consumer
) -> None:
    classic = ClassicConsumer(driver, instance="desk")
    classic.join_and_sync()
    driver.settle(member, classic)
    returned = Consumer(driver, "returned", instance="desk")
    assert returned.join().error_code == ErrorCode.NONE
    assert returned.owned == classic.owned
    assert classic.heartbeat() == ErrorCode.FENCED_INSTANCE_ID
    assert driver.group().classic_member_count == 0


def test_a_static_member_turns_from_consumer_to_classic(driver: ConsumerGroupDriver, member: Consumer) -> None:
    second = Consumer(driver, "second", instance="desk")
    second.join()
    driver.settle(member, second)
    classic = ClassicConsumer(driver, instance="desk")
    assert classic.join_and_sync() == ErrorCode.NONE
    assert classic.owned == second.owned
    assert second.beat().error_code == ErrorCode.FENCED_INSTANCE_ID
    driver.settle(member, classic)
    assert len(driver.owners(member, classic)) == 6


def test_a_static_member_that_names_another_id_is_fenced(driver: ConsumerGroupDriver, member: Consumer) -> None:
    ClassicConsumer(driver, instance="desk").join_and_sync()
    stranger = ClassicConsumer(driver, instance="desk")
    stranger.member_id = "stranger"
    assert stranger.join() == ErrorCode.FENCED_INSTANCE_ID
    stranger.instance = "nobody"
    assert stranger.join() == ErrorCode.UNKNOWN_MEMBER_ID
    assert len(driver.group(GROUP).members) == 2
