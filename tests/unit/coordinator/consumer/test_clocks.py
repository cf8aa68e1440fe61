"""A coordinator whose clock is behind that of the one before it: no group waits until its clock has caught up."""

from __future__ import annotations

from tests.unit.coordinator.consumer_group_driver import Consumer, ConsumerGroupDriver

HOUR_MS = 3_600_000


def successor_an_hour_behind(driver: ConsumerGroupDriver) -> ConsumerGroupDriver:
    driver.now_ms -= HOUR_MS
    return driver.restarted()


def test_a_target_is_computed_although_the_last_one_is_of_the_future(driver: ConsumerGroupDriver) -> None:
    (first,) = driver.consumers(1)
    successor = successor_an_hour_behind(driver)
    first.driver = successor
    second = Consumer(successor, "second")
    second.join()
    successor.settle(first, second)
    assert len(first.owned["orders"]) == len(second.owned["orders"]) == 3


def test_patterns_are_matched_although_the_last_match_is_of_the_future(driver: ConsumerGroupDriver) -> None:
    member = Consumer(driver, "member", topics=(), regex="or.*")
    member.join()
    driver.match()
    driver.settle(member)
    member.driver = successor_an_hour_behind(driver)
    member.driver.metadata.create_topic("oranges", 1)
    member.beat()
    member.driver.match()
    member.driver.settle(member)
    assert member.owned == {"orders": set(range(6)), "oranges": {0}}
