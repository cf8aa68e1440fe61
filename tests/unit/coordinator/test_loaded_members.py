"""The deadlines of members that were read from the log."""

from __future__ import annotations

from barnabas.coordinator.coordinator_result import CoordinatorResult, TimerAction
from barnabas.coordinator.group.loaded_members import start_deadlines
from barnabas.coordinator.group.member_timers import MemberTimers, TimerKind
from barnabas.coordinator.group.share.share_group import ShareGroup
from barnabas.coordinator.group.share.share_group_member import ShareGroupMember
from barnabas.coordinator.timer_queue import TimerQueue


def test_a_member_that_was_heard_since_the_log_was_read_keeps_its_deadlines() -> None:
    timers = MemberTimers(TimerQueue[TimerAction]())
    group = ShareGroup("queue")
    group.members |= {name: ShareGroupMember(name) for name in ("heard", "silent", "gone")}
    started: list[str] = []

    def start(found: ShareGroup, member: ShareGroupMember) -> None:
        assert found is group
        started.append(member.member_id)
        group.members.pop("gone", None)

    timers.schedule("queue", "heard", TimerKind.SESSION, 5_000, lambda group_id, member_id, now_ms: CoordinatorResult())
    assert list(start_deadlines([group], timers, start)) == []
    assert started == ["silent"]
