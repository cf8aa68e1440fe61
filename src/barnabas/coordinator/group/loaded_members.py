"""The deadlines of members that were read from the log."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from barnabas.coordinator.group.assignor.group_spec import Steps, WorkMeter
from barnabas.coordinator.group.member_timers import MemberTimers, TimerKind
from barnabas.coordinator.group.modern_group import ModernGroup

__all__ = ["start_deadlines"]

G = TypeVar("G", bound=ModernGroup[Any, Any])


def start_deadlines(groups: Iterable[G], timers: MemberTimers, start: Callable[[G, Any], None]) -> Steps[None]:
    """Call ``start`` for the members of all groups, in steps; not for those that have sent a heartbeat meanwhile."""
    meter = WorkMeter()
    for group, member_id in [(found, member_id) for found in groups for member_id in found.members]:
        member = group.members.get(member_id)
        if member is not None and not timers.is_scheduled(group.group_id, member_id, TimerKind.SESSION):
            start(group, member)
        if meter.is_full(1):
            yield
