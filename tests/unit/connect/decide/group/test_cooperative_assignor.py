"""Incremental cooperative assignment, one scenario per test (KIP-415)."""

from __future__ import annotations

import pytest

from barnabas.connect.decide.group.connect_protocol import Assignment
from barnabas.connect.identifiers import ConnectorTaskId
from tests.unit.connect.decide.group.assignor_driver import AssignorDriver

MAX_DELAY_MS = 300_000


def settled(*members: str, **options: object) -> AssignorDriver:
    """A group at rest with two connectors of four tasks each."""
    driver = AssignorDriver(c1=4, c2=4, **options)  # type: ignore[arg-type]
    driver.join(*members)
    driver.settle()
    driver.check_balance()
    return driver


def test_the_first_member_receives_everything_immediately() -> None:
    driver = AssignorDriver(c1=4, c2=4)
    driver.join("a")
    driver.round()
    assert driver.counts() == {"a": (2, 8)}
    assert driver.delay_ms == 0


def test_a_new_member_receives_the_units_revoked_in_the_previous_round() -> None:
    driver = settled("a")
    driver.join("b")
    first = driver.round()
    assert (len(first["a"].revoked_connectors), len(first["a"].revoked_tasks)) == (1, 4)
    assert driver.counts() == {"a": (1, 4), "b": (0, 0)}
    driver.round()
    assert driver.counts() == {"a": (1, 4), "b": (1, 4)}
    driver.check_balance()


def test_members_give_up_their_oldest_units() -> None:
    driver = settled("a")
    has = driver.allocations["a"]
    assert has is not None
    driver.join("b")
    assert set(driver.round()["a"].revoked_tasks) == set(has.tasks[:4])


def test_the_second_of_two_consecutive_rounds_with_revocations_is_delayed() -> None:
    driver = settled("a")
    driver.join("b")
    driver.round()
    driver.join("c")
    driver.round()
    assert driver.delay_ms == 40
    assert not any(assignment.revokes for assignment in driver.last.values())
    driver.now_ms += 40
    driver.settle()
    driver.check_balance()


def test_each_consecutive_revocation_multiplies_the_delay_by_forty_up_to_the_maximum() -> None:
    driver = settled("a", max_delay_ms=5_000)
    driver.configure(c1=60, c2=60)
    driver.settle()
    driver.join("b")
    driver.round()  # Units are revoked ...
    delays = []
    for number in range(4):
        driver.join(f"new-{number}")
        driver.round()  # ... and would be revoked again: the round is delayed ...
        delays.append(driver.delay_ms)
        driver.now_ms += driver.delay_ms
        driver.round()  # ... until this round.
        assert any(assignment.revokes for assignment in driver.last.values())
    assert delays == [40, 1_600, 5_000, 5_000]


def test_without_a_maximum_delay_units_are_revoked_immediately_every_time() -> None:
    driver = settled("a", max_delay_ms=0)
    for new in ("b", "c", "d"):
        driver.join(new)
        driver.round()
        assert driver.delay_ms == 0
        assert any(assignment.revokes for assignment in driver.last.values())
    driver.settle()
    driver.check_balance()


def test_units_of_a_departed_member_are_kept_for_the_configured_delay() -> None:
    driver = settled("a", "b")
    driver.leave("b")
    driver.round()
    assert (driver.counts(), driver.delay_ms) == ({"a": (1, 4)}, MAX_DELAY_MS)
    driver.now_ms += 100_000
    driver.round()
    assert (driver.counts(), driver.delay_ms) == ({"a": (1, 4)}, MAX_DELAY_MS - 100_000)
    driver.now_ms += 200_000
    driver.round()
    assert (driver.counts(), driver.delay_ms) == ({"a": (2, 8)}, 0)


def test_a_second_departed_member_shares_the_delay_of_the_first() -> None:
    driver = settled("a", "b", "c")
    driver.leave("c")
    driver.round()
    driver.now_ms += 200_000
    driver.leave("b")
    driver.round()
    assert driver.delay_ms == 100_000
    driver.now_ms += 100_000
    driver.settle()
    driver.check_balance()


def test_a_member_that_returns_in_time_receives_its_work_again_and_others_keep_theirs() -> None:
    driver = settled("a", "b")
    before = driver.running
    driver.leave("b")
    driver.round()
    driver.now_ms += 10_000
    driver.join("b")
    driver.round()
    assert driver.counts() == {"a": (1, 4), "b": (0, 0)}
    driver.now_ms += driver.delay_ms
    driver.round()
    assert driver.running == before
    assert not any(assignment.revokes for assignment in driver.last.values())


def test_new_members_share_the_lost_work() -> None:
    driver = settled("a", "b")
    driver.leave("b")
    driver.round()
    driver.join("c", "d")
    driver.round()
    driver.now_ms += driver.delay_ms
    driver.round()
    assert {member: counts for member, counts in driver.counts().items() if member != "a"} == {"c": (1, 2), "d": (0, 2)}
    driver.settle()
    driver.check_balance()


def test_a_candidate_that_has_left_again_receives_nothing() -> None:
    driver = settled("a", "b")
    driver.leave("b")
    driver.round()
    driver.join("c")
    driver.round()
    driver.leave("c")
    driver.now_ms += driver.delay_ms
    driver.round()
    assert driver.counts() == {"a": (2, 8)}


def test_without_a_maximum_delay_the_work_of_a_departed_member_is_assigned_immediately() -> None:
    driver = settled("a", "b", max_delay_ms=0)
    driver.leave("b")
    driver.round()
    assert (driver.counts(), driver.delay_ms) == ({"a": (2, 8)}, 0)


def test_a_new_leader_has_no_history_and_assigns_everything_immediately() -> None:
    driver = settled("a", "b")
    driver.leave("a")
    driver.round()
    assert (driver.counts(), driver.delay_ms) == ({"b": (2, 8)}, 0)


def test_a_former_leader_that_returns_is_a_follower_and_receives_its_share() -> None:
    driver = settled("a", "b")
    driver.leave("a")
    driver.round()
    driver.join("a")
    driver.settle()
    driver.check_balance()


def test_an_assignment_that_reached_no_member_is_repeated() -> None:
    driver = AssignorDriver(c1=4, c2=4)
    driver.join("a", "b")
    driver.round(loses=["a", "b"])
    driver.round()
    assert driver.delay_ms == 0
    driver.check_balance()


def test_an_assignment_that_one_member_missed_is_repeated_without_delay() -> None:
    driver = settled("a", "b")
    driver.configure(c1=4, c2=4, c3=2)
    driver.round(loses=["b"])
    driver.round()
    assert driver.delay_ms == 0
    driver.check_balance()


def test_units_that_were_not_given_up_are_revoked_again() -> None:
    driver = settled("a")
    driver.join("b")
    driver.round(loses=["a"])
    driver.settle()
    driver.check_balance()


def test_deleted_units_are_revoked_immediately_and_the_rest_is_balanced_again() -> None:
    driver = settled("a", "b")
    driver.configure(c1=4)
    driver.round()
    gone = {connector for assignment in driver.last.values() for connector in assignment.revoked_connectors}
    tasks = {task for assignment in driver.last.values() for task in assignment.revoked_tasks}
    assert gone == {"c2"}
    assert tasks >= {ConnectorTaskId("c2", number) for number in range(4)}
    driver.settle()
    driver.check_balance()


def test_units_deleted_during_a_change_of_leader_are_revoked_too() -> None:
    driver = settled("a", "b", "c")
    driver.configure(c1=4)
    driver.leave("a")
    driver.settle()
    driver.check_balance()


def test_duplicate_units_are_revoked_from_both_members_and_assigned_to_one_in_the_next_round() -> None:
    driver = settled("a", "b")
    twice = driver.allocations["a"]
    assert twice is not None
    driver.join("c")
    driver.allocations["c"] = Assignment(2, 0, "old", "http://old/", 1, twice.connectors, twice.tasks)
    driver.round()
    assert set(driver.last["a"].revoked_tasks) == set(driver.last["c"].revoked_tasks) == set(twice.tasks)
    driver.settle()
    driver.check_balance()


def test_deleted_units_that_two_members_run_are_revoked_from_both() -> None:
    driver = settled("a", "b")
    twice = driver.allocations["a"]
    assert twice is not None
    driver.join("c")
    driver.allocations["c"] = Assignment(2, 0, "old", "http://old/", 1, twice.connectors, twice.tasks)
    driver.configure()
    driver.settle()
    assert set(driver.counts().values()) == {(0, 0)}


def test_tasks_of_an_incomplete_connector_are_not_assigned() -> None:
    driver = settled("a")
    driver.configure(c1=4, c2=0)
    driver.settle()
    assert driver.counts() == {"a": (2, 4)}


@pytest.mark.parametrize("joins_back", [True, False])
def test_with_immediate_reassignment_the_work_of_a_departed_member_moves_in_the_same_round(joins_back: bool) -> None:
    driver = settled("a", "b", "c", immediately=True)
    driver.leave("c")
    driver.round()
    assert driver.delay_ms == 0
    driver.check_balance()
    if joins_back:
        driver.join("c")
        driver.settle()
        driver.check_balance()


def test_with_immediate_reassignment_a_departed_member_causes_no_delay_after_a_revocation() -> None:
    driver = settled("a", immediately=True)
    driver.join("b")
    driver.round()
    driver.leave("b")
    driver.round()
    assert (driver.counts(), driver.delay_ms) == ({"a": (2, 8)}, 0)


def test_with_immediate_reassignment_lost_work_is_assigned_even_while_balancing_is_delayed() -> None:
    driver = settled("a", "b", immediately=True)
    driver.join("c")
    driver.round()
    driver.join("d", "e")
    driver.round()
    assert driver.delay_ms == 40
    driver.leave("b")
    driver.now_ms += 10
    driver.round()
    assert driver.delay_ms in (0, 30)
    running = {item for items in driver.running.values() for item in items}
    assert running == driver.configured
    driver.now_ms += 40
    driver.settle()
    driver.check_balance()
