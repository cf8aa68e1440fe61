"""Hold an assignment until the worker has read as much of the config topic as the leader that decided it.

A failed read is repeated after ``scheduled.rebalance.max.delay.ms``/10/5, then /4, /3, /2 and /1. After the last
failure the worker should give up its work.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from barnabas.connect.decide.group.connect_protocol import Assignment
from barnabas.connect.decide.group.group_settings import GroupSettings
from barnabas.connect.decide.group.membership_events import MembershipEvent, ReadConfigs

__all__ = ["CatchUp", "Verdict"]

_ATTEMPTS = 5
NEVER_MS = float("inf")


class Verdict(Enum):
    WAIT = "not to be said yet"
    GOOD = "the assignment can be acted upon"
    REJOIN = "the assignment is of no use"
    UNREADABLE = "there is less in the topic than some member has read"


class CatchUp:
    def __init__(self, settings: GroupSettings, notify: Callable[[MembershipEvent], None]) -> None:
        self.pending: Assignment | None = None
        self.is_reading = False
        self.read_at_ms = NEVER_MS
        self._settings = settings
        self._notify = notify
        self._attempts_left = _ATTEMPTS
        self._has_read = False

    def begin(self, assignment: Assignment) -> None:
        self.pending = assignment
        self._has_read = False
        self.read_at_ms = NEVER_MS

    def forget(self) -> None:
        self.pending = None
        self.read_at_ms = NEVER_MS

    def done_reading(self) -> None:
        self.is_reading = False
        self._has_read = True
        self._attempts_left = _ATTEMPTS

    def verdict(self, offset: int, *, is_leader: bool) -> Verdict:
        """Return the verdict. Request a read first if it is needed. ``offset`` is the worker's own."""
        assignment = self.pending
        if assignment is None or self.is_reading or self.read_at_ms != NEVER_MS:
            return Verdict.WAIT
        is_behind = offset < assignment.config_offset
        if not self._has_read and (is_behind or (assignment.has_failed and is_leader)):
            self.read()
            return Verdict.WAIT
        if is_behind:
            return Verdict.UNREADABLE
        self.pending = None
        return Verdict.REJOIN if assignment.has_failed or offset != assignment.config_offset else Verdict.GOOD

    def read(self) -> None:
        self.read_at_ms = NEVER_MS
        if self.pending is not None:
            self.is_reading = True
            self._notify(ReadConfigs(self.pending.config_offset, self._settings.worker_sync_timeout_ms))

    def failed(self) -> float | None:
        """Return the wait before the next attempt. None after the last attempt; then the count starts again."""
        self.is_reading = False
        if self._attempts_left == 0:
            self._attempts_left = _ATTEMPTS
            return None
        pause_ms = self._settings.scheduled_rebalance_max_delay_ms / 10 / self._attempts_left
        self._attempts_left -= 1
        return pause_ms
