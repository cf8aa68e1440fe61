"""The clock as a port: deciding code is handed times, it never reads them."""

from typing import Protocol

__all__ = ["Clock"]


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock milliseconds since the epoch."""
        ...

    def monotonic_ms(self) -> int:
        """Milliseconds that never go back, for deadlines."""
        ...
