"""The machine's clock, for nodes and workers. Deciding code receives times and never imports it."""

from __future__ import annotations

from time import monotonic_ns, time_ns

__all__ = ["SystemClock"]


class SystemClock:
    def now_ms(self) -> int:
        return time_ns() // 1_000_000

    def monotonic_ms(self) -> int:
        return monotonic_ns() // 1_000_000
