"""Subscriptions by regular expression: matched once for a group, again after a while, and when topics appear."""

from __future__ import annotations

import pytest

from barnabas.common.errors import ApiException, ErrorCode
from barnabas.coordinator.group.group_coordinator_config import GroupCoordinatorConfig
from tests.unit.coordinator.consumer_group_driver import Consumer, ConsumerGroupDriver
from tests.unit.coordinator.group_driver import GROUP

REFRESH_MS = GroupCoordinatorConfig().group_consumer_regex_refresh_interval_ms


def joined(driver: ConsumerGroupDriver, member_id: str, regex: str = "or.*", topics: tuple[str, ...] = ()) -> Consumer:
    member = Consumer(driver, member_id, topics=topics, regex=regex)
    assert member.join().error_code == ErrorCode.NONE
    return member


def keep_alive(driver: ConsumerGroupDriver, *members: Consumer, for_ms: int) -> None:
    for _ in range(for_ms // 30_000 + 1):
        driver.advance(for_ms // (for_ms // 30_000 + 1))
        for member in members:
            member.beat()


def test_a_member_receives_partitions_when_its_pattern_is_matched(driver: ConsumerGroupDriver) -> None:
    member = joined(driver, "a")
    assert member.owned == {}
    assert driver.asked_to_match == [(GROUP, frozenset({"or.*"}))]
    driver.match()
    driver.settle(member)
    assert member.owned == {"orders": set(range(6))}
    (described,) = driver.describe_consumers().members
    assert (described.subscribed_topic_names, described.subscribed_topic_regex) == ([], "or.*")


def test_one_pattern_is_matched_once_for_all_its_members(driver: ConsumerGroupDriver) -> None:
    first = joined(driver, "a")
    second = joined(driver, "b")
    assert len(driver.asked_to_match) == 1, "a match is under way"
    driver.match()
    third = joined(driver, "c")
    assert not driver.asked_to_match
    driver.settle(first, second, third)
    assert len(driver.owners(first, second, third)) == 6


def test_a_member_may_subscribe_by_name_and_by_pattern(driver: ConsumerGroupDriver) -> None:
    member = joined(driver, "a", topics=("prices",))
    driver.match()
    driver.settle(member)
    assert member.owned == {"orders": set(range(6)), "prices": {0, 1, 2}}
    member.change(regex="")
    driver.settle(member)
    assert member.owned == {"prices": {0, 1, 2}}
    assert driver.group().resolved == {}


def test_a_new_pattern_of_a_group_is_matched_after_a_pause(driver: ConsumerGroupDriver) -> None:
    first = joined(driver, "a")
    driver.match()
    second = joined(driver, "b", regex="p.*")
    assert not driver.asked_to_match
    driver.advance(10_001)
    second.beat()
    assert driver.asked_to_match == [(GROUP, frozenset({"or.*", "p.*"}))]
    driver.match()
    driver.settle(first, second)
    assert (first.owned, second.owned) == ({"orders": set(range(6))}, {"prices": {0, 1, 2}})


def test_a_new_topic_is_found(driver: ConsumerGroupDriver) -> None:
    member = joined(driver, "a")
    driver.match()
    driver.metadata.create_topic("orange", 1)
    driver.advance(10_001)
    member.beat()
    driver.match()
    driver.settle(member)
    assert member.owned == {"orders": set(range(6)), "orange": {0}}


def test_patterns_are_matched_again_after_the_refresh_interval(driver: ConsumerGroupDriver) -> None:
    """The member's rights may have changed."""
    member = joined(driver, "a")
    driver.match()
    driver.hidden_topics = {"orders"}
    keep_alive(driver, member, for_ms=REFRESH_MS)
    assert not driver.asked_to_match
    keep_alive(driver, member, for_ms=20)
    driver.match()
    driver.settle(member)
    assert member.owned == {}


def test_a_failed_match_is_started_again(driver: ConsumerGroupDriver) -> None:
    member = joined(driver, "a")
    driver.match(fails=True)
    member.beat()
    assert len(driver.asked_to_match) == 1
    driver.match()
    driver.settle(member)
    assert member.owned == {"orders": set(range(6))}


def test_a_pattern_that_nobody_uses_is_forgotten(driver: ConsumerGroupDriver) -> None:
    first, second = joined(driver, "a"), joined(driver, "b")
    driver.match()
    first.leave()
    assert set(driver.group().resolved) == {"or.*"}
    second.leave()
    assert driver.group().resolved == {}
    assert driver.restarted().group().resolved == {}


def test_a_match_for_members_that_left_is_dropped(driver: ConsumerGroupDriver) -> None:
    member = joined(driver, "a")
    member.leave()
    driver.match()
    assert driver.group().resolved == {}
    assert driver.group().epoch == 2


def test_an_invalid_pattern_refuses_the_member(driver: ConsumerGroupDriver, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(group_id: str, patterns: frozenset[str]) -> None:
        raise ApiException(ErrorCode.INVALID_REGULAR_EXPRESSION, "no")

    monkeypatch.setattr(driver, "_match_topics", refuse)
    response = Consumer(driver, "a", topics=(), regex="[").join()
    assert (response.error_code, response.error_message) == (ErrorCode.INVALID_REGULAR_EXPRESSION, "no")
    assert driver.shard.groups.find(GROUP) is None


def test_resolved_patterns_are_loaded(driver: ConsumerGroupDriver) -> None:
    member = joined(driver, "a")
    driver.match()
    driver.settle(member)
    successor = driver.restarted()
    member.driver = successor
    assert successor.group().resolved == driver.group().resolved
    assert member.beat().error_code == ErrorCode.NONE
    assert not successor.asked_to_match
    successor.metadata.add_partitions("orders", 7)
    successor.settle(member)
    assert member.owned == {"orders": set(range(7))}
