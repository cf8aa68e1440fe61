"""The clock as a port: code that decides receives times and never reads a clock."""

from typing import Protocol

__all__ = ["Clock"]


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back, for deadlines."""
        ...
