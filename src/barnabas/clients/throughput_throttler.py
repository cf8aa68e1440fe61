"""Schedules events at a rate, independent of answers.

A late sender catches up, and a late event counts from the time when it was due. So a cluster that stalls for a
second shows in all the latencies of that second, and not in one of them ("coordinated omission").
"""

from __future__ import annotations

__all__ = ["Pacer"]


class Pacer:
    """Times are seconds on the caller's clock. Without a rate every event is due immediately."""

    __slots__ = ("_began_at", "interval_s")

    def __init__(self, rate_per_s: float | None, began_at: float) -> None:
        if rate_per_s is not None and rate_per_s <= 0:
            raise ValueError(f"a rate is more than 0: {rate_per_s}")
        self._began_at = began_at
        self.interval_s = 0.0 if rate_per_s is None else 1 / rate_per_s

    @property
    def is_paced(self) -> bool:
        return self.interval_s > 0

    def due_at(self, index: int) -> float:
        """Return when the event of this number (from 0) is due."""
        return self._began_at + index * self.interval_s

    def due_count(self, now: float, made: int, at_most: int) -> int:
        """Return how many more events are due, after so many."""
        if not self.interval_s:
            return at_most
        due = int((now - self._began_at) / self.interval_s) + 1
        return max(0, min(due - made, at_most))

    def wait_s(self, now: float, made: int) -> float:
        """Return how long until the next event is due."""
        return max(0.0, self.due_at(made) - now)
