"""When the next heartbeat is due: after the interval of the coordinator, or after growing pauses while it fails."""

from __future__ import annotations

__all__ = ["HeartbeatSchedule"]


class HeartbeatSchedule:
    """One heartbeat is in flight at most. Times are milliseconds on the caller's clock."""

    def __init__(self, *, backoff_ms: int, backoff_ms_max: int) -> None:
        self._backoff_ms = backoff_ms
        self._backoff_ms_max = max(backoff_ms, backoff_ms_max)
        self._interval_ms = 0
        self._next_ms = 0
        self._not_before_ms = 0
        self._failures = 0
        self.is_in_flight = False

    def due_ms(self, *, is_urgent: bool) -> int | None:
        """Return when to send; None while an answer is due. An urgent heartbeat does not wait for the interval."""
        if self.is_in_flight:
            return None
        return self._not_before_ms if is_urgent else max(self._not_before_ms, self._next_ms)

    def sent(self, now_ms: int) -> None:
        self.is_in_flight = True
        self._next_ms = now_ms + self._interval_ms

    def answered(self, interval_ms: int, now_ms: int) -> None:
        self.is_in_flight = False
        self._failures = self._not_before_ms = 0
        if interval_ms != self._interval_ms:
            self._interval_ms = interval_ms
            self._next_ms = now_ms + interval_ms

    def failed(self, now_ms: int) -> None:
        """Send again after a pause, which doubles with each failure in succession."""
        self.is_in_flight = False
        pause_ms = min(self._backoff_ms << min(self._failures, 30), self._backoff_ms_max)
        self._failures += 1
        self._not_before_ms = self._next_ms = now_ms + pause_ms

    def reset(self) -> None:
        """Send at once: the member joins again."""
        self.is_in_flight = False
        self._failures = self._not_before_ms = self._next_ms = 0
