"""Deadlines whose owner advances the time."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from barnabas.coordinator.timer_queue import Timer, TimerQueue


def fired(queue: TimerQueue[str], now_ms: int) -> list[str]:
    names: list[str] = []
    while (timer := queue.pop_due(now_ms)) is not None:
        names.append(timer.action)
    return names


def test_timers_fire_in_order_of_their_deadlines() -> None:
    queue: TimerQueue[str] = TimerQueue()
    for name, deadline in (("b", 20), ("a", 10), ("c", 30)):
        queue.schedule(Timer(name), deadline)
    assert queue.next_deadline_ms() == 10
    assert fired(queue, 9) == []
    assert fired(queue, 25) == ["a", "b"]
    assert queue.next_deadline_ms() == 30


def test_a_later_deadline_costs_no_entry_and_an_earlier_one_is_kept() -> None:
    queue: TimerQueue[str] = TimerQueue()
    timer = Timer("session")
    for deadline in range(100, 200):
        queue.schedule(timer, deadline)
    assert len(queue) == 1
    assert fired(queue, 198) == []
    queue.schedule(timer, 150)
    assert fired(queue, 198) == ["session"]
    assert not timer.is_scheduled


def test_a_cancelled_timer_does_not_fire_and_may_be_set_again() -> None:
    queue: TimerQueue[str] = TimerQueue()
    timer = Timer("join")
    queue.schedule(timer, 10)
    timer.cancel()
    assert fired(queue, 50) == []
    queue.schedule(timer, 60)
    assert fired(queue, 60) == ["join"]
    assert queue.next_deadline_ms() is None


@given(
    st.lists(st.tuples(st.sampled_from(["set", "cancel", "tick"]), st.integers(0, 3), st.integers(0, 50)), max_size=60)
)
def test_the_queue_agrees_with_a_simple_table_of_deadlines(steps: list[tuple[str, int, int]]) -> None:
    queue: TimerQueue[str] = TimerQueue()
    timers = [Timer(str(index)) for index in range(4)]
    table: dict[str, int] = {}
    now = 0
    for action, index, amount in steps:
        if action == "set":
            queue.schedule(timers[index], now + amount)
            table[str(index)] = now + amount
        elif action == "cancel":
            timers[index].cancel()
            table.pop(str(index), None)
        else:
            now += amount
            due = {name for name, deadline in table.items() if deadline <= now}
            assert set(fired(queue, now)) == due
            table = {name: deadline for name, deadline in table.items() if name not in due}
        deadline = queue.next_deadline_ms()
        assert not table or (deadline is not None and deadline <= min(table.values()))
