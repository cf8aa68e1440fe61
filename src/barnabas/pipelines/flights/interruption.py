"""Turn SIGINT, SIGTERM and SIGHUP into an exception in the main thread, once.

The first signal ends the work. The clean-up that follows is bounded in time, and a second signal does not interrupt it.
"""

from __future__ import annotations

import signal
from types import FrameType

__all__ = ["Interrupted", "Interruption"]

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupted(BaseException):
    """Not an Exception, so that no error handler on the way swallows it."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_status = 128 + number


class Interruption:
    def __init__(self) -> None:
        self._is_shielded = False

    def install(self) -> None:
        for number in _SIGNALS:
            signal.signal(number, self._handle)

    def shield(self) -> None:
        """Ignore signals from now on, during the clean-up."""
        self._is_shielded = True

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if not self._is_shielded:
            self._is_shielded = True
            raise Interrupted(number)
