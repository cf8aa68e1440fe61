"""The deadlines of the members of one partition's groups: one timer for each member and purpose.

Every member has a session as long as it lives, so its timer keeps only what differs between members: the action of all
sessions is the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from sys import intern
from typing import TypeAlias

from barnabas.coordinator.coordinator_result import CoordinatorResult, TimerAction
from barnabas.coordinator.timer_queue import Timer, TimerQueue

__all__ = ["REMOVAL_RETRY_PAUSE_MS", "MemberAction", "MemberTimers", "TimerKind"]

REMOVAL_RETRY_PAUSE_MS = 500
"""After this time a member is removed whose removal could not be written."""

MemberAction: TypeAlias = Callable[[str, str, int], CoordinatorResult[None]]
"""Receives the ids of the group and of the member, and the time."""


class TimerKind(Enum):
    SESSION = "session"
    REBALANCE = "rebalance"
    JOIN = "join"
    """A member of the classic protocol that was requested to rebalance must join again."""
    SYNC = "sync"
    """A member of the classic protocol that has joined must fetch its assignment."""
    INITIAL_REBALANCE = "initial rebalance"
    """A streams group waits for more members before its first assignment. This deadline is of no member."""


class _ActionOfMember:
    """A TimerAction that knows its member; smaller than a closure or a partial."""

    __slots__ = ("action", "group_id", "member_id")

    def __init__(self, group_id: str, member_id: str, action: MemberAction) -> None:
        self.group_id = group_id
        self.member_id = member_id
        self.action = action

    def __call__(self, now_ms: int) -> CoordinatorResult[None]:
        return self.action(self.group_id, self.member_id, now_ms)


class MemberTimers:
    def __init__(self, timers: TimerQueue[TimerAction]) -> None:
        self._timers = timers
        self._by_key: dict[tuple[str, str, TimerKind], Timer[TimerAction]] = {}

    def schedule(self, group_id: str, member_id: str, kind: TimerKind, deadline_ms: int, action: MemberAction) -> None:
        """Set a member's deadline, or move it."""
        timer = self._by_key.get((group_id, member_id, kind))
        if timer is None:
            group_id = intern(group_id)  # Each request has a string of its own.
            timer = Timer(_ActionOfMember(group_id, member_id, action))
            self._by_key[group_id, member_id, kind] = timer
        elif isinstance(timer.action, _ActionOfMember):
            timer.action.action = action
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
