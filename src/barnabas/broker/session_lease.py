"""A leader lease: the time until which no other broker can lead because this one was unreachable.

The controller counts a session from the arrival of a heartbeat, which is after it was sent. So if the answer does not
report the broker as fenced, it will not be fenced for ``broker.session.timeout.ms`` from the time of sending. The
clocks of both need only run equally fast.

An answer that arrives after that time proves less. The session may have ended, and other brokers may lead by now. The
answered heartbeat itself may have unfenced the broker, which the answer does not report. A new session begins, and the
lease holds again when the broker has applied the metadata that was committed at the time of the answer.

Leases do not cover leaderships that move in a controlled way (a reassignment, an election of the preferred leader). A
broker in contact with the controller learns about these from the metadata log.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["SessionLease"]


class SessionLease:
    """Times are seconds of a monotonic clock that continues while the process is stopped."""

    __slots__ = ("_caught_up_session", "_session_end_s", "_session_timeout_s", "on_held", "session", "until_s")

    def __init__(self, session_timeout_s: float) -> None:
        self._session_timeout_s = session_timeout_s
        self._session_end_s = -inf
        self._caught_up_session = 0
        self.session = 0
        """The number of the newest session."""
        self.until_s = -inf
        """The lease holds before this time."""
        self.on_held: Callable[[], None] | None = None
        """Called whenever the lease is extended."""

    def holds(self, now_s: float) -> bool:
        return now_s < self.until_s

    def renewed(self, *, sent_s: float, answered_s: float) -> None:
        """Handle an answered heartbeat: this broker is not fenced."""
        if answered_s >= self._session_end_s:
            self.session += 1
        self._session_end_s = max(self._session_end_s, sent_s + self._session_timeout_s)
        self._hold()

    def fenced(self) -> None:
        """End the lease: the controller has ended the session."""
        self._session_end_s = self.until_s = -inf

    @property
    def needs_to_catch_up(self) -> bool:
        return self._caught_up_session != self.session

    def caught_up(self, session: int) -> None:
        """Note that the metadata that was committed when the beginning of that session was known has been applied."""
        if session == self.session:
            self._caught_up_session = session
            self._hold()

    def _hold(self) -> None:
        if self._caught_up_session == self.session:
            self.until_s = self._session_end_s
            if self.on_held is not None:
                self.on_held()
