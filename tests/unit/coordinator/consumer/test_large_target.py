"""The target of a large group is computed between requests and stored in several batches."""

from __future__ import annotations

from itertools import combinations

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.coordinator.group import cluster_view, large_target
from barnabas.coordinator.group.modern_group import Partitions
from tests.unit.coordinator.consumer_group_driver import Consumer, ConsumerGroupDriver
from tests.unit.coordinator.group_driver import GROUP


@pytest.fixture(autouse=True)
def small_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large_target, "_SIZE_MAX", 5)
    monkeypatch.setattr(large_target, "_BATCH_PARTITIONS_MAX", 3)


def step(driver: ConsumerGroupDriver) -> None:
    driver.advance(1)


def is_disjoint(targets: dict[str, Partitions]) -> bool:
    return not any(
        first.get(topic_id, frozenset()) & second.get(topic_id, frozenset())
        for first, second in combinations(targets.values(), 2)
        for topic_id in first
    )


def test_members_reach_their_target_as_in_a_small_group(driver: ConsumerGroupDriver) -> None:
    members = driver.consumers(4)
    assert len(driver.owners(*members)) == 6
    assert driver.group().state_name == "Stable"
    members[0].leave()
    driver.settle(*members[1:])
    assert len(driver.owners(*members[1:])) == 6
    assert driver.restarted().describe_consumers() == driver.describe_consumers()


def test_the_request_that_starts_the_computation_does_not_wait_for_it(driver: ConsumerGroupDriver) -> None:
    member = Consumer(driver, "a")
    response = member.join()
    assert (response.error_code, response.member_epoch, member.owned) == (ErrorCode.NONE, 1, {})
    driver.advance(100)
    assert driver.group().assignment_epoch == 2
    member.beat()
    assert member.owned == {"orders": set(range(6))}


def test_at_every_step_no_partition_has_two_members_as_its_target(driver: ConsumerGroupDriver) -> None:
    """Also a coordinator that loads a part of the batches."""
    members = driver.consumers(2)
    driver.advance(1_000)
    Consumer(driver, "third").join()
    batches = 0
    while driver.group().assignment_epoch < driver.group().epoch:
        before = len(driver.topic.log(0).batches)
        step(driver)
        batches += len(driver.topic.log(0).batches) - before
        assert is_disjoint(driver.group().target)
        loaded = driver.restarted()
        assert loaded.group().target == driver.group().target
        driver.metadata.coordinators = [driver.coordinator]
    assert batches > 2
    assert len(members) == 2


def test_a_coordinator_that_loads_a_part_computes_the_target_again(driver: ConsumerGroupDriver) -> None:
    members = driver.consumers(2)
    driver.advance(1_000)
    third = Consumer(driver, "third")
    third.join()
    before = len(driver.topic.log(0).batches)
    while len(driver.topic.log(0).batches) == before:
        step(driver)
    successor = driver.restarted()
    assert successor.group().assignment_epoch < successor.group().epoch
    for member in (*members, third):
        member.driver = successor
    successor.settle(*members, third)
    assert len(successor.owners(*members, third)) == 6


def test_a_member_that_leaves_meanwhile_has_no_target(driver: ConsumerGroupDriver) -> None:
    first, second = driver.consumers(2)
    driver.advance(1_000)
    Consumer(driver, "third").join()
    step(driver)
    second.leave()
    driver.advance(100)
    assert second.member_id not in driver.group().target
    driver.settle(first)


def test_a_static_member_that_is_replaced_meanwhile_passes_its_target_on(driver: ConsumerGroupDriver) -> None:
    (first,) = driver.consumers(1)
    static = Consumer(driver, "old", instance="desk")
    static.join()
    step(driver)
    static.leave(-2)
    returned = Consumer(driver, "new", instance="desk")
    returned.join()
    driver.advance(100)
    assert "old" not in driver.group().target
    assert sum(len(found) for found in driver.group().target["new"].values()) == 3
    driver.settle(first, returned)
    assert len(driver.owners(first, returned)) == 6


def test_a_batch_that_cannot_be_written_ends_the_computation(driver: ConsumerGroupDriver) -> None:
    member = Consumer(driver, "a")
    member.join()
    driver.topic.refuse_with = ErrorCode.NOT_ENOUGH_REPLICAS
    driver.advance(100)
    driver.topic.refuse_with = None
    driver.advance(100)
    assert driver.group().assignment_epoch == 1
    member.beat()
    driver.advance(100)
    assert driver.group().assignment_epoch == 2, "the next heartbeat has started it again"


def test_a_group_that_ends_meanwhile_gets_no_target(driver: ConsumerGroupDriver) -> None:
    member = Consumer(driver, "a")
    member.join()
    step(driver)
    member.leave()
    driver.delete_groups(GROUP)
    driver.advance(100)
    assert driver.shard.groups.find(GROUP) is None
    assert driver.restarted().shard.groups.find(GROUP) is None


def test_many_new_topics_are_read_between_requests(
    driver: ConsumerGroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_view, "_PARTITIONS_AT_ONCE", 5)
    member = Consumer(driver, "a", topics=["orders", "prices"])
    assert member.join().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    driver.advance(100)
    assert member.join().error_code == ErrorCode.NONE
    whole_hash = driver.group().metadata_hash
    monkeypatch.undo()
    assert whole_hash == cluster_view.ClusterView(driver.metadata.image).metadata_hash(["orders", "prices"])


def test_a_removal_does_not_wait_for_topics_that_are_read(
    driver: ConsumerGroupDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = driver.consumers(2)
    monkeypatch.setattr(cluster_view, "_PARTITIONS_AT_ONCE", 5)
    driver.metadata.add_partitions("orders", 7)
    assert second.leave().error_code == ErrorCode.NONE
    assert first.beat().error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    driver.advance(100)
    driver.settle(first)
    assert first.owned == {"orders": set(range(7))}
