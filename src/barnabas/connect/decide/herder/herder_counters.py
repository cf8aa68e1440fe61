"""The herder's own counters, for metrics."""

from __future__ import annotations

__all__ = ["RebalanceTimes", "StartUps"]


class RebalanceTimes:
    """How long rebalances took. Times in milliseconds, of a monotonic clock."""

    def __init__(self) -> None:
        self.completed = 0
        self.max_ms = 0.0
        self.sum_ms = 0.0
        self.last_ms: float | None = None
        self._began_ms: float | None = None

    @property
    def is_rebalancing(self) -> bool:
        return self._began_ms is not None

    def began(self, now_ms: float) -> None:
        if self._began_ms is None:
            self._began_ms = now_ms

    def ended(self, now_ms: float) -> None:
        took_ms = now_ms - (now_ms if self._began_ms is None else self._began_ms)
        self._began_ms = None
        self.completed += 1
        self.sum_ms += took_ms
        self.max_ms = max(self.max_ms, took_ms)
        self.last_ms = now_ms


class StartUps:
    """How often a start was attempted, and with which result."""

    def __init__(self) -> None:
        self.succeeded = 0
        self.failed = 0
