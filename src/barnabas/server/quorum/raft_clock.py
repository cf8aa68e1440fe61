"""One clock for deadlines and timestamps: wall time that never decreases."""

from __future__ import annotations

from barnabas.common.clock import Clock

__all__ = ["RaftClock"]


class RaftClock:
    """Follows the wall clock forward. If the wall clock is set back, it continues at the pace of the monotonic clock.

    If it jumped back, timers would freeze, and batches would have decreasing timestamps.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._last_ms = clock.now_ms()
        self._last_monotonic_ms = clock.monotonic_ms()

    def now_ms(self) -> int:
        monotonic_ms = self._clock.monotonic_ms()
        self._last_ms = max(self._clock.now_ms(), self._last_ms + monotonic_ms - self._last_monotonic_ms)
        self._last_monotonic_ms = monotonic_ms
        return self._last_ms
