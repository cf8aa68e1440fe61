"""The deadlines of the members of one partition's groups: one timer for each member and purpose."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum

from barnabas.coordinator.coordinator_result import TimerAction
from barnabas.coordinator.timer_queue import Timer, TimerQueue

__all__ = ["REMOVAL_RETRY_PAUSE_MS", "MemberTimers", "TimerKind"]

REMOVAL_RETRY_PAUSE_MS = 500
"""After this time a member is removed whose removal could not be written."""


class TimerKind(Enum):
    SESSION = "session"
    REBALANCE = "rebalance"
    JOIN = "join"
    """A member of the classic protocol that was told to rebalance must join again."""
    SYNC = "sync"
    """A member of the classic protocol that has joined must fetch its assignment."""
    INITIAL_REBALANCE = "initial rebalance"
    """A streams group waits for more members before its first assignment. This deadline is of no member."""


class MemberTimers:
    def __init__(self, timers: TimerQueue[TimerAction]) -> None:
        self._timers = timers
        self._by_key: dict[tuple[str, str, TimerKind], Timer[TimerAction]] = {}

    def schedule(self, group_id: str, member_id: str, kind: TimerKind, deadline_ms: int, action: TimerAction) -> None:
        """Set a member's deadline, or move it."""
        key = (group_id, member_id, kind)
        timer = self._by_key.get(key)
        if timer is None:
            timer = self._by_key[key] = Timer(action)
        else:
            timer.action = action
        self._timers.schedule(timer, deadline_ms)

    def is_scheduled(self, group_id: str, member_id: str, kind: TimerKind) -> bool:
        timer = self._by_key.get((group_id, member_id, kind))
        return timer is not None and timer.is_scheduled

    def cancel(self, group_id: str, member_id: str, kind: TimerKind) -> None:
        timer = self._by_key.pop((group_id, member_id, kind), None)
        if timer is not None:
            timer.cancel()

    def cancel_all(self, group_id: str, member_ids: Iterable[str]) -> None:
        for member_id in member_ids:
            for kind in TimerKind:
                self.cancel(group_id, member_id, kind)

    def clear(self) -> None:
        for timer in self._by_key.values():
            timer.cancel()
        self._by_key.clear()
