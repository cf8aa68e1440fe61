"""Static members keep their partitions while they are away for a short time (KIP-345 in KIP-848)."""

from __future__ import annotations

from barnabas.common.errors import ErrorCode
from tests.unit.coordinator.consumer_group_driver import CONSUMER_SESSION_MS, Consumer, ConsumerGroupDriver
from tests.unit.coordinator.group_driver import GROUP


def joined(driver: ConsumerGroupDriver, member_id: str, instance: str = "desk") -> Consumer:
    member = Consumer(driver, member_id, instance=instance)
    assert member.join().error_code == ErrorCode.NONE
    return member


def test_a_member_that_leaves_for_a_short_time_keeps_its_partitions(driver: ConsumerGroupDriver) -> None:
    (other,) = driver.consumers(1)
    member = joined(driver, "first")
    driver.settle(other, member)
    owned, epoch = member.owned, driver.group().epoch
    response = member.leave(-2)
    assert (response.error_code, response.member_epoch) == (ErrorCode.NONE, -2)
    driver.settle(other)
    assert len(other.owned["orders"]) == 3
    returned = joined(driver, "second")
    assert (returned.owned, returned.epoch) == (owned, epoch)
    assert driver.group().epoch == epoch


def test_it_may_return_under_its_old_member_id(driver: ConsumerGroupDriver) -> None:
    member = joined(driver, "first")
    owned = member.owned
    member.leave(-2)
    assert joined(driver, "first").owned == owned
    driver.advance(CONSUMER_SESSION_MS - 1)
    assert list(driver.group().members) == ["first"], "its session has started anew"


def test_it_is_removed_if_it_does_not_return(driver: ConsumerGroupDriver) -> None:
    (other,) = driver.consumers(1)
    member = joined(driver, "first")
    driver.settle(other, member)
    member.leave(-2)
    for _ in range(4):
        driver.advance(CONSUMER_SESSION_MS // 4)
        other.beat()
    driver.settle(other)
    assert other.owned == {"orders": set(range(6))}


def test_an_instance_id_in_use_is_refused(driver: ConsumerGroupDriver) -> None:
    joined(driver, "first")
    response = Consumer(driver, "second", instance="desk").join()
    assert response.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert response.error_message == (
        "Static member second with instance id desk cannot join the group because the instance id is owned by first "
        "member."
    )


def test_the_predecessor_is_fenced(driver: ConsumerGroupDriver) -> None:
    first = joined(driver, "first")
    first.leave(-2)
    joined(driver, "second")
    for response in (first.beat(), first.leave(), first.leave(-2)):
        assert response.error_code == ErrorCode.FENCED_INSTANCE_ID
        assert response.error_message == "Static member first with instance id desk was fenced by member second."


def test_an_unknown_instance_id_is_told(driver: ConsumerGroupDriver) -> None:
    driver.consumers(1)
    stranger = Consumer(driver, "stranger", instance="nobody")
    stranger.epoch = 1
    for response in (stranger.beat(), stranger.leave(), stranger.leave(-2)):
        assert response.error_code == ErrorCode.UNKNOWN_MEMBER_ID
        assert response.error_message == "Instance id nobody is unknown."


def test_a_static_member_that_leaves_for_good_frees_its_partitions(driver: ConsumerGroupDriver) -> None:
    (other,) = driver.consumers(1)
    member = joined(driver, "first")
    driver.settle(other, member)
    assert member.leave(-1).error_code == ErrorCode.NONE
    driver.settle(other)
    assert other.owned == {"orders": set(range(6))}
    assert driver.group().static_members == {}


def test_its_successor_takes_over_what_it_must_still_give_up(driver: ConsumerGroupDriver) -> None:
    """Also a member in the middle of a revocation may be restarted."""
    member = joined(driver, "first")
    driver.advance(1_000)
    other = Consumer(driver, "other")
    other.join()
    member.send(member.request(epoch=member.epoch, owned=member.owned))
    member.leave(-2)
    returned = joined(driver, "second")
    driver.settle(returned, other)
    assert len(driver.owners(returned, other)) == 6


def test_the_settings_of_a_group_apply(driver: ConsumerGroupDriver) -> None:
    driver.metadata.configure_group(GROUP, "consumer.session.timeout.ms", "60000")
    driver.metadata.configure_group(GROUP, "consumer.heartbeat.interval.ms", "7000")
    member = joined(driver, "first")
    assert member.interval_ms == 7_000
    driver.advance(59_999)
    assert list(driver.group().members) == ["first"]
    driver.advance(1)
    assert not driver.group().members


def test_a_setting_outside_of_the_nodes_limits_is_bounded(driver: ConsumerGroupDriver) -> None:
    """The limits may have been changed after the setting was accepted."""
    driver.metadata.configure_group(GROUP, "consumer.session.timeout.ms", "900000")
    joined(driver, "first")
    driver.advance(driver.config.group_consumer_max_session_timeout_ms)
    assert not driver.group().members
