"""After any events in a group, every unit of work has exactly one owner, and the load is even."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.unit.connect.decide.group.assignor_driver import AssignorDriver

MEMBERS = "abcdef"
EVENTS = st.one_of(
    st.tuples(st.just("join"), st.sampled_from(MEMBERS)),
    st.tuples(st.just("leave"), st.sampled_from(MEMBERS)),
    st.tuples(st.just("configure"), st.dictionaries(st.sampled_from(["c1", "c2", "c3"]), st.integers(0, 6))),
    st.tuples(st.just("wait"), st.sampled_from([10, 1_000, 400_000])),
    st.tuples(st.just("round"), st.sets(st.sampled_from(MEMBERS), max_size=2)),
)


def play(driver: AssignorDriver, events: list[tuple[str, object]]) -> None:
    for kind, value in events:
        if kind == "join" and value not in driver.allocations:
            driver.join(str(value))
        elif kind == "leave" and value in driver.allocations and len(driver.allocations) > 1:
            driver.leave(str(value))
        elif kind == "configure" and isinstance(value, dict):
            driver.configure(**value)
        elif kind == "wait" and isinstance(value, int):
            driver.now_ms += value
        elif kind == "round" and isinstance(value, set):
            driver.round(loses=value)


@settings(max_examples=150, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(
    events=st.lists(EVENTS, max_size=25),
    max_delay_ms=st.sampled_from([0, 5_000, 300_000]),
    immediately=st.booleans(),
)
def test_a_group_reaches_a_balance_after_any_history(
    events: list[tuple[str, object]], max_delay_ms: int, immediately: bool
) -> None:
    driver = AssignorDriver(max_delay_ms=max_delay_ms, immediately=immediately, c1=3, c2=2)
    driver.join("a")
    play(driver, events)
    driver.now_ms += 1_000_000
    driver.settle()
    driver.round()
    driver.settle()
    driver.check_balance()


@settings(max_examples=100, suppress_health_check=[HealthCheck.too_slow], deadline=None)
@given(events=st.lists(EVENTS, max_size=20), departed=st.sampled_from(MEMBERS))
def test_with_immediate_reassignment_no_work_is_ever_left_unassigned(
    events: list[tuple[str, object]], departed: str
) -> None:
    """The round that detects departed members assigns all of their work to new owners."""
    driver = AssignorDriver(immediately=True, c1=3, c2=2)
    driver.join("a")
    play(driver, events)
    driver.now_ms += 1_000_000
    driver.settle()
    if departed in driver.allocations and len(driver.allocations) > 1:
        driver.leave(departed)
    driver.round()
    taken = {
        item
        for assignment in driver.last.values()
        for item in (*assignment.revoked_connectors, *assignment.revoked_tasks)
    }
    running = {item for items in driver.running.values() for item in items}
    assert running | taken == driver.configured
