"""The settings of a group for heartbeats: its own where it has any, else the node's, within the node's limits."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.coordinator.group.cluster_view import ClusterView

__all__ = ["HeartbeatLimits", "HeartbeatSettings", "Limited", "is_within"]


class Limited(NamedTuple):
    default: int
    lowest: int
    highest: int


class HeartbeatLimits(NamedTuple):
    """The node's settings for groups of one kind."""

    session_timeout_ms: Limited
    heartbeat_interval_ms: Limited
    assignment_interval_ms: Limited


class HeartbeatSettings:
    def __init__(self, kind: str, limits: HeartbeatLimits, view: ClusterView) -> None:
        """``kind`` is the first word of the settings' names: consumer, share, streams."""
        self._kind = kind
        self._limits = limits
        self._view = view
        self._session_timeout = f"{kind}.session.timeout.ms"
        self._heartbeat_interval = f"{kind}.heartbeat.interval.ms"
        self._assignment_interval = f"{kind}.assignment.interval.ms"

    def session_timeout_ms(self, group_id: str) -> int:
        return self._own(group_id, self._session_timeout, self._limits.session_timeout_ms)

    def heartbeat_interval_ms(self, group_id: str) -> int:
        return self._own(group_id, self._heartbeat_interval, self._limits.heartbeat_interval_ms)

    def assignment_interval_ms(self, group_id: str) -> int:
        limits = self._limits.assignment_interval_ms
        changed = self._view.assignment_intervals_ms.get(self._kind, limits.default)
        return self._own(group_id, self._assignment_interval, limits._replace(default=changed))

    def may_assign(self, group_id: str, last_ms: int, now_ms: int) -> bool:
        """Return whether a target may be computed when the last one is of ``last_ms``; 0 for none."""
        return not last_ms or not is_within(self.assignment_interval_ms(group_id), last_ms, now_ms)

    def _own(self, group_id: str, name: str, limited: Limited) -> int:
        text = self._view.settings_of(group_id).get(name)
        return limited.default if text is None else min(max(int(text), limited.lowest), limited.highest)


def is_within(span_ms: int, since_ms: int, now_ms: int) -> bool:
    """Return whether less than a span has passed. A time in the future is of another broker, whose clock was ahead:
    Kafka's coordinators would wait until then."""
    return since_ms <= now_ms < since_ms + span_ms
