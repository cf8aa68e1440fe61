"""The settings of a group for heartbeats: its own where it has any, else the node's, within the node's limits."""

from __future__ import annotations

from typing import NamedTuple

from barnabas.coordinator.group.cluster_view import ClusterView

__all__ = ["HeartbeatLimits", "HeartbeatSettings", "Limited"]


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

    def _own(self, group_id: str, name: str, limited: Limited) -> int:
        text = self._view.settings_of(group_id).get(name)
        return limited.default if text is None else min(max(int(text), limited.lowest), limited.highest)
