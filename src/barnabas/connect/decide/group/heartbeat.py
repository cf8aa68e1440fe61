"""When a member must consider itself dead, and when its next heartbeat is due. Pure; the caller gives all times, in
milliseconds.

The coordinator ends a session when it has received nothing from a member for ``session.timeout.ms``; then other members
get its work. The member must have stopped before that. So a member gives up its work

- when it could not reach the coordinator for ``heartbeat.interval.ms`` (connection refused or closed, or another
  coordinator), or
- when the time since it sent the last answered request leaves only enough of the session to stop everything, or
- when the group has been rebalancing, without a response to this member, for so long that the coordinator may soon
  continue without it (``rebalance.timeout.ms``): its JoinGroup or SyncGroup may be lost although heartbeats arrive.

A member also learns from the response to a heartbeat that the group rebalances. So our members send a heartbeat at
least once a second, whatever the interval is: a rebalance then begins within a second.
"""

from __future__ import annotations

from barnabas.connect.decide.group.group_settings import GroupSettings

__all__ = ["Heartbeat"]

_INTERVAL_MAX_MS = 1_000


class Heartbeat:
    def __init__(self, settings: GroupSettings) -> None:
        self._interval_ms = min(settings.heartbeat_interval_ms, _INTERVAL_MAX_MS)
        self._unreachable_max_ms = settings.heartbeat_interval_ms
        self._silence_max_ms = max(
            settings.heartbeat_interval_ms,
            settings.session_timeout_ms - settings.task_shutdown_graceful_timeout_ms,
        )
        self._rebalance_max_ms = max(
            settings.heartbeat_interval_ms,
            settings.rebalance_timeout_ms - settings.task_shutdown_graceful_timeout_ms,
        )
        self._poll_gap_max_ms = settings.rebalance_timeout_ms
        self._heard_ms = 0.0
        self._took_part_ms = 0.0
        self._unreachable_since_ms: float | None = None
        self._next_heartbeat_ms = 0.0
        self._polled_ms = 0.0

    def joined(self, now_ms: float) -> None:
        self._next_heartbeat_ms = now_ms + self._interval_ms

    def sent(self, now_ms: float) -> None:
        self._next_heartbeat_ms = now_ms + self._interval_ms

    def heard(self, sent_ms: float) -> None:
        """Note that the coordinator answered the request sent at ``sent_ms``, with this worker as a member."""
        self._heard_ms = max(self._heard_ms, sent_ms)
        self._unreachable_since_ms = None

    def took_part(self, sent_ms: float) -> None:
        """Note that the request sent at ``sent_ms`` found no rebalance that waited for this member."""
        self._took_part_ms = max(self._took_part_ms, sent_ms)

    def unreachable(self, now_ms: float) -> None:
        if self._unreachable_since_ms is None:
            self._unreachable_since_ms = now_ms

    def polled(self, now_ms: float) -> None:
        """Note that the worker is alive."""
        self._polled_ms = now_ms

    @property
    def next_heartbeat_ms(self) -> float:
        return self._next_heartbeat_ms

    @property
    def lost_at_ms(self) -> float:
        """Return when to give up the work, unless the coordinator responds first."""
        at_ms = min(self._heard_ms + self._silence_max_ms, self._took_part_ms + self._rebalance_max_ms)
        if self._unreachable_since_ms is not None:
            at_ms = min(at_ms, self._unreachable_since_ms + self._unreachable_max_ms)
        return at_ms

    @property
    def worker_hangs_at_ms(self) -> float:
        """Return when the worker counts as stuck, unless it polls first."""
        return self._polled_ms + self._poll_gap_max_ms

    def why_lost(self, now_ms: float) -> str:
        if now_ms >= self._took_part_ms + self._rebalance_max_ms:
            return (
                f"the group has been rebalancing without this worker for {(now_ms - self._took_part_ms) / 1000:.1f} s, "
                "and its coordinator soon continues without it (rebalance.timeout.ms)"
            )
        return f"the group's coordinator has not responded for {(now_ms - self._heard_ms) / 1000:.1f} s"
