"""Limits failed passwords: a few in a burst, then one every few seconds.

A client over the limit gets 429 without a check of the password, so that guessing is slow and costs the worker nothing.
The memory is bounded: the keys that were inactive longest are forgotten first, as they would be with time.
"""

from __future__ import annotations

__all__ = ["FailureBudget"]

_AT_ONCE = 10
_EVERY_S = 6.0
_REMEMBERED_MAX = 10_000


class FailureBudget:
    """A leaky bucket of failures for each key. Times are seconds of a monotonic clock."""

    def __init__(self, *, at_once: int = _AT_ONCE, every_s: float = _EVERY_S) -> None:
        self._at_once = at_once
        self._every_s = every_s
        self._levels: dict[str, tuple[float, float]] = {}

    def wait_s(self, key: str, now_s: float) -> float:
        """Return 0 if another attempt is allowed, otherwise how long to wait for it."""
        excess = self._level(key, now_s) - self._at_once + 1
        return max(0.0, excess * self._every_s)

    def failed(self, key: str, now_s: float) -> None:
        level = self._level(key, now_s) + 1
        self._levels.pop(key, None)
        while len(self._levels) >= _REMEMBERED_MAX:
            del self._levels[next(iter(self._levels))]
        self._levels[key] = (level, now_s)

    def succeeded(self, key: str) -> None:
        self._levels.pop(key, None)

    def _level(self, key: str, now_s: float) -> float:
        level, at_s = self._levels.get(key, (0.0, now_s))
        return max(0.0, level - (now_s - at_s) / self._every_s)
