"""Incremental cooperative assignment, story by story (KIP-415)."""

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


def test_the_first_member_gets_everything_at_once() -> None:
    driver = AssignorDriver(c1=4, c2=4)
    driver.join("a")
    driver.round()
    assert driver.counts() == {"a": (2, 8)}
    assert driver.delay_ms == 0


def test_a_new_member_gets_what_others_gave_up_in_the_round_before() -> None:
    driver = settled("a")
    driver.join("b")
    first = driver.round()
    assert (len(first["a"].revoked_connectors), len(first["a"].revoked_tasks)) == (1, 4)
    assert driver.counts() == {"a": (1, 4), "b": (0, 0)}
    driver.round()
    assert driver.counts() == {"a": (1, 4), "b": (1, 4)}
    driver.check_balance()


def test_members_give_up_what_they_had_first() -> None:
    driver = settled("a")
    has = driver.allocations["a"]
    assert has is not None
    driver.join("b")
    assert set(driver.round()["a"].revoked_tasks) == set(has.tasks[:4])


def test_of_two_rounds_in_a_row_that_take_work_away_the_second_waits() -> None:
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


def test_each_further_round_that_takes_work_away_waits_forty_times_as_long_up_to_the_maximum() -> None:
    driver = settled("a", max_delay_ms=5_000)
    driver.configure(c1=60, c2=60)
    driver.settle()
    driver.join("b")
    driver.round()  # Work is taken away ...
    delays = []
    for number in range(4):
        driver.join(f"new-{number}")
        driver.round()  # ... and would be again: it is put off ...
        delays.append(driver.delay_ms)
        driver.now_ms += driver.delay_ms
        driver.round()  # ... until now.
        assert any(assignment.revokes for assignment in driver.last.values())
    assert delays == [40, 1_600, 5_000, 5_000]


def test_without_a_maximum_delay_work_is_taken_away_at_once_every_time() -> None:
    driver = settled("a", max_delay_ms=0)
    for new in ("b", "c", "d"):
        driver.join(new)
        driver.round()
        assert driver.delay_ms == 0
        assert any(assignment.revokes for assignment in driver.last.values())
    driver.settle()
    driver.check_balance()


def test_what_a_gone_member_ran_waits_for_it_as_long_as_is_configured() -> None:
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


def test_a_second_member_that_goes_shares_the_delay_of_the_first() -> None:
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


def test_a_member_that_is_back_in_time_gets_its_work_again_and_nobody_is_disturbed() -> None:
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


def test_several_that_are_new_when_work_is_lost_share_it() -> None:
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


def test_a_candidate_that_is_gone_again_gets_nothing() -> None:
    driver = settled("a", "b")
    driver.leave("b")
    driver.round()
    driver.join("c")
    driver.round()
    driver.leave("c")
    driver.now_ms += driver.delay_ms
    driver.round()
    assert driver.counts() == {"a": (2, 8)}


def test_without_a_maximum_delay_the_work_of_a_gone_member_is_handed_out_at_once() -> None:
    driver = settled("a", "b", max_delay_ms=0)
    driver.leave("b")
    driver.round()
    assert (driver.counts(), driver.delay_ms) == ({"a": (2, 8)}, 0)


def test_a_new_leader_knows_nothing_and_hands_out_everything_at_once() -> None:
    driver = settled("a", "b")
    driver.leave("a")
    driver.round()
    assert (driver.counts(), driver.delay_ms) == ({"b": (2, 8)}, 0)


def test_a_leader_that_is_back_leads_no_more_and_gets_its_share() -> None:
    driver = settled("a", "b")
    driver.leave("a")
    driver.round()
    driver.join("a")
    driver.settle()
    driver.check_balance()


def test_an_assignment_that_reached_nobody_is_made_again() -> None:
    driver = AssignorDriver(c1=4, c2=4)
    driver.join("a", "b")
    driver.round(loses=["a", "b"])
    driver.round()
    assert driver.delay_ms == 0
    driver.check_balance()


def test_an_assignment_that_one_member_missed_is_given_to_it_without_delay() -> None:
    driver = settled("a", "b")
    driver.configure(c1=4, c2=4, c3=2)
    driver.round(loses=["b"])
    driver.round()
    assert driver.delay_ms == 0
    driver.check_balance()


def test_what_was_not_given_up_is_asked_for_again() -> None:
    driver = settled("a")
    driver.join("b")
    driver.round(loses=["a"])
    driver.settle()
    driver.check_balance()


def test_what_is_deleted_is_taken_away_at_once_and_the_rest_is_shared_anew() -> None:
    driver = settled("a", "b")
    driver.configure(c1=4)
    driver.round()
    gone = {connector for assignment in driver.last.values() for connector in assignment.revoked_connectors}
    tasks = {task for assignment in driver.last.values() for task in assignment.revoked_tasks}
    assert gone == {"c2"}
    assert tasks >= {ConnectorTaskId("c2", number) for number in range(4)}
    driver.settle()
    driver.check_balance()


def test_what_is_deleted_while_the_leader_changes_is_taken_away_too() -> None:
    driver = settled("a", "b", "c")
    driver.configure(c1=4)
    driver.leave("a")
    driver.settle()
    driver.check_balance()


def test_what_two_members_run_is_taken_from_both_and_given_to_one_in_the_next_round() -> None:
    driver = settled("a", "b")
    twice = driver.allocations["a"]
    assert twice is not None
    driver.join("c")
    driver.allocations["c"] = Assignment(2, 0, "old", "http://old/", 1, twice.connectors, twice.tasks)
    driver.round()
    assert set(driver.last["a"].revoked_tasks) == set(driver.last["c"].revoked_tasks) == set(twice.tasks)
    driver.settle()
    driver.check_balance()


def test_what_two_members_run_and_nobody_wants_is_taken_from_both() -> None:
    driver = settled("a", "b")
    twice = driver.allocations["a"]
    assert twice is not None
    driver.join("c")
    driver.allocations["c"] = Assignment(2, 0, "old", "http://old/", 1, twice.connectors, twice.tasks)
    driver.configure()
    driver.settle()
    assert set(driver.counts().values()) == {(0, 0)}


def test_tasks_of_a_connector_that_is_not_complete_are_not_handed_out() -> None:
    driver = settled("a")
    driver.configure(c1=4, c2=0)
    driver.settle()
    assert driver.counts() == {"a": (2, 4)}


@pytest.mark.parametrize("joins_back", [True, False])
def test_immediately_the_work_of_a_gone_member_is_handed_out_in_the_round_that_shows_it(joins_back: bool) -> None:
    driver = settled("a", "b", "c", immediately=True)
    driver.leave("c")
    driver.round()
    assert driver.delay_ms == 0
    driver.check_balance()
    if joins_back:
        driver.join("c")
        driver.settle()
        driver.check_balance()


def test_immediately_no_member_that_is_gone_delays_anything_after_work_was_taken_away() -> None:
    driver = settled("a", immediately=True)
    driver.join("b")
    driver.round()
    driver.leave("b")
    driver.round()
    assert (driver.counts(), driver.delay_ms) == ({"a": (2, 8)}, 0)


def test_immediately_what_is_lost_while_balancing_waits_is_handed_out_all_the_same() -> None:
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
