"""Deadlines of members: the action receives the ids, and the last one set counts."""

from __future__ import annotations

from barnabas.coordinator.coordinator_result import CoordinatorResult, TimerAction
from barnabas.coordinator.group.member_timers import MemberAction, MemberTimers, TimerKind
from barnabas.coordinator.timer_queue import TimerQueue

Fired = list[tuple[str, str, str, int]]


def noting(name: str, fired: Fired) -> MemberAction:
    def note(group_id: str, member_id: str, now_ms: int) -> CoordinatorResult[None]:
        fired.append((name, group_id, member_id, now_ms))
        return CoordinatorResult()

    return note


def run_due(queue: TimerQueue[TimerAction], now_ms: int) -> None:
    while (timer := queue.pop_due(now_ms)) is not None:
        timer.action(now_ms)


def test_each_member_has_its_own_deadline_with_one_action() -> None:
    queue, fired = TimerQueue[TimerAction](), Fired()
    timers, action = MemberTimers(queue), noting("session", fired)
    timers.schedule("g", "a", TimerKind.SESSION, 10, action)
    timers.schedule("g", "b", TimerKind.SESSION, 20, action)
    run_due(queue, 10)
    run_due(queue, 25)
    assert fired == [("session", "g", "a", 10), ("session", "g", "b", 25)]


def test_a_later_deadline_and_its_action_replace_the_earlier_ones() -> None:
    queue, fired = TimerQueue[TimerAction](), Fired()
    timers = MemberTimers(queue)
    timers.schedule("g", "a", TimerKind.REBALANCE, 10, noting("first", fired))
    timers.schedule("g", "a", TimerKind.REBALANCE, 30, noting("second", fired))
    run_due(queue, 29)
    assert fired == []
    run_due(queue, 30)
    assert fired == [("second", "g", "a", 30)]


def test_kinds_are_separate_and_can_be_cancelled() -> None:
    queue, fired = TimerQueue[TimerAction](), Fired()
    timers = MemberTimers(queue)
    timers.schedule("g", "a", TimerKind.SESSION, 10, noting("session", fired))
    timers.schedule("g", "a", TimerKind.SYNC, 10, noting("sync", fired))
    timers.cancel("g", "a", TimerKind.SESSION)
    assert not timers.is_scheduled("g", "a", TimerKind.SESSION)
    run_due(queue, 10)
    assert [name for name, *_ in fired] == ["sync"]
