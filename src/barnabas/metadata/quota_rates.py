"""Measures the use of a quota: a rate over sliding windows, and a token bucket. The arithmetic is Kafka's.

A rate is counted in samples of one window each. The time that it is divided by is at least that of all windows but one,
so that an idle client may send a burst before being slowed down. The throttle time is the time until the rate would be
at the limit again without further requests.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import TypeVar

__all__ = ["SimpleRate", "TokenBucket", "WindowedRate", "still_used"]

K = TypeVar("K", bound=Hashable)


class WindowedRate:
    __slots__ = ("_count", "_samples", "_window_ms", "total")

    def __init__(self, *, count: int, window_ms: int) -> None:
        self._count = count
        self._window_ms = window_ms
        self._samples: deque[list[float]] = deque()
        self.total = 0.0

    def record(self, value: float, now_ms: int) -> None:
        self._forget(now_ms)
        if not self._samples or now_ms - self._samples[-1][0] >= self._window_ms:
            self._samples.append([now_ms, 0.0])
        self._samples[-1][1] += value
        self.total += value

    def throttle_ms(self, limit: float, now_ms: int) -> int:
        """0 while the rate per second is within ``limit``."""
        self._forget(now_ms)
        if not self._samples:
            return 0
        elapsed_ms = self._counted_ms(now_ms - int(self._samples[0][0]))
        rate = self.total * 1000 / elapsed_ms
        return round((rate - limit) / limit * elapsed_ms) if rate > limit else 0

    def _counted_ms(self, elapsed_ms: int) -> int:
        """Return the divisor of the total, when the oldest sample is ``elapsed_ms`` old."""
        missing = max(self._count - 1 - elapsed_ms // self._window_ms, 0)
        return max(elapsed_ms + missing * self._window_ms, 1)

    def is_idle(self, now_ms: int) -> bool:
        self._forget(now_ms)
        return not self._samples

    def _forget(self, now_ms: int) -> None:
        oldest_ms = now_ms - self._count * self._window_ms
        samples = self._samples
        while samples and samples[0][0] <= oldest_ms:
            self.total -= samples.popleft()[1]
        if not samples:
            self.total = 0.0


class SimpleRate(WindowedRate):
    """Counts from the oldest sample on, one window at least: idle time does not allow a burst."""

    __slots__ = ()

    def _counted_ms(self, elapsed_ms: int) -> int:
        return max(elapsed_ms, self._window_ms)


class TokenBucket:
    """Fills at ``limit`` tokens a second up to a burst; may go below zero, then nothing until it is positive."""

    __slots__ = ("_burst_s", "_filled_ms", "tokens")

    def __init__(self, limit: float, *, burst_s: float, now_ms: int) -> None:
        self._burst_s = burst_s
        self._filled_ms = now_ms
        self.tokens = limit * burst_s

    def fill(self, limit: float, now_ms: int) -> float:
        self.tokens = min(limit * self._burst_s, self.tokens + (now_ms - self._filled_ms) / 1000 * limit)
        self._filled_ms = now_ms
        return self.tokens

    def take(self, count: float) -> None:
        self.tokens -= count

    def throttle_ms(self, limit: float) -> int:
        return round(-self.tokens / limit * 1000) if self.tokens < 0 else 0


def still_used(rates: dict[K, WindowedRate], now_ms: int) -> dict[K, WindowedRate]:
    """Return the non-empty ones, or none if most of them are not empty.

    Otherwise a client that invents names would cause a scan of all of them for each new one.
    """
    kept = {key: rate for key, rate in rates.items() if not rate.is_idle(now_ms)}
    return kept if len(kept) <= len(rates) // 2 else {}
