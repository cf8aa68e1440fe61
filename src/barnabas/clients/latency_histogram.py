"""Percentiles of any number of durations, in constant memory.

Buckets are as in HdrHistogram: as wide as a microsecond up to 256 µs, and no wider than 1/128 of their value above
that. So a percentile is at most 0.8 % too large, whatever was recorded; average and maximum are exact.
"""

from __future__ import annotations

__all__ = ["LatencyHistogram"]

_BITS = 7
_HALF = 1 << _BITS
_EXACT = 2 * _HALF
_US_MAX = (1 << 40) - 1
"""Twelve days; longer durations count as that."""
_BUCKETS = (40 - _BITS) * _HALF + _HALF


class LatencyHistogram:
    """Durations are in seconds; a negative one (a clock that was set back) counts as 0."""

    __slots__ = ("_counts", "_max_us", "_sum_us", "count")

    def __init__(self) -> None:
        self._counts = [0] * _BUCKETS
        self._sum_us = 0
        self._max_us = 0
        self.count = 0

    def record(self, duration_s: float, count: int = 1) -> None:
        """Record a duration ``count`` times."""
        value = int(duration_s * 1_000_000)
        if value < _EXACT:
            value = max(value, 0)
            index = value
        else:
            value = min(value, _US_MAX)
            shift = value.bit_length() - _BITS - 1
            index = (shift << _BITS) + (value >> shift)
        self._counts[index] += count
        self._sum_us += value * count
        self.count += count
        if value > self._max_us:
            self._max_us = value

    def record_run(self, now: float, first_s: float, interval_s: float, length: int) -> None:
        """Record events that ended now, of which the first began at ``first_s`` and each next an interval later."""
        if not interval_s:
            self.record(now - first_s, length)
            return
        for index in range(length):
            self.record(now - first_s - index * interval_s)

    def merge(self, other: LatencyHistogram) -> None:
        """Add another histogram."""
        self._counts = [mine + theirs for mine, theirs in zip(self._counts, other._counts, strict=True)]
        self._sum_us += other._sum_us
        self._max_us = max(self._max_us, other._max_us)
        self.count += other.count

    @property
    def average_s(self) -> float:
        return self._sum_us / self.count / 1_000_000 if self.count else 0.0

    @property
    def max_s(self) -> float:
        return self._max_us / 1_000_000

    def percentile_s(self, percentile: float) -> float:
        """Return the latency below which this percentage lies; 0 if nothing was recorded."""
        wanted = max(1, -int(-self.count * percentile // 100))
        seen = 0
        for index, count in enumerate(self._counts):
            seen += count
            if seen >= wanted and count:
                return min(_highest_of(index), self._max_us) / 1_000_000
        return 0.0


def _highest_of(index: int) -> int:
    """Return the largest value of a bucket."""
    if index < _EXACT:
        return index
    shift = (index >> _BITS) - 1
    return ((index - (shift << _BITS) + 1) << shift) - 1
