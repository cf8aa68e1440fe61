"""Log a line for each request of a known sender; for others a limited number, so that they can't fill the log.

A line names the user and the address of the client. Changes are INFO, reads are DEBUG, refused requests are warnings
with the reason. A connector, task or other object that does not exist is an answer, not a refusal.

Text from unknown clients, such as the path, is truncated and shown on one line. Their refused requests are logged as on
a node: once a minute for each host and reason, and a few lines in ten seconds for all (``network.refusal_log``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from barnabas.network.refusal_log import RefusalLog

__all__ = ["AnsweredRequest", "LineBudget", "Outcome", "RequestLog", "one_line"]

log = logging.getLogger("barnabas.connect.rest.application")

_SAFE_METHODS = frozenset(("GET", "HEAD", "OPTIONS"))
_SHOWN_LENGTH_MAX = 300
_WINDOW_S = 10.0
_LINES_PER_WINDOW = 100
_FAILURES_PER_WINDOW = 5


def one_line(text: str) -> str:
    shown = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in text[:_SHOWN_LENGTH_MAX])
    return shown if len(text) <= _SHOWN_LENGTH_MAX else f"{shown}..."


@dataclass(frozen=True, slots=True)
class AnsweredRequest:
    method: str
    path: str
    host: str
    port: int
    is_known: bool
    """Whether its sender is authenticated."""
    user: str = ""
    """Empty until the sender is authenticated."""

    def __str__(self) -> str:
        return f"{one_line(self.method)} {one_line(self.path)} by {one_line(self.user) or 'an unknown user'}"


@dataclass(frozen=True, slots=True)
class Outcome:
    """``reason`` is the message of an answer that is an error."""

    status: int
    spent_ms: float
    reason: str = ""
    is_refusal: bool = False

    def __str__(self) -> str:
        reason = f": {one_line(' '.join(self.reason.split()))}" if self.reason else ""
        return f"{self.status} after {self.spent_ms:.0f} ms{reason}"


class LineBudget:
    """Allows this many lines in ten seconds. ``now_s`` is monotonic."""

    def __init__(self, lines: int, now_s: Callable[[], float], window_s: float = _WINDOW_S) -> None:
        self._lines = lines
        self._now_s = now_s
        self._window_s = window_s
        self._ends_s = float("-inf")
        self._left = 0
        self.suppressed = 0
        """The number of lines not written since the last line."""

    def take(self) -> bool:
        """Return whether a line may be written now."""
        now_s = self._now_s()
        if now_s >= self._ends_s:
            self._ends_s, self._left = now_s + self._window_s, self._lines
        if not self._left:
            self.suppressed += 1
            return False
        self._left -= 1
        return True

    def since_last(self) -> str:
        """Return the text about lines that were not written."""
        count, self.suppressed = self.suppressed, 0
        return f" (and {count} more that are not logged)" if count else ""


class RequestLog:
    """``logger`` is that of the worker, unless another server uses this."""

    def __init__(self, now_s: Callable[[], float], logger: logging.Logger = log) -> None:
        self._now_s = now_s
        self._log = logger
        self._refusals = RefusalLog("REST", "refused")
        self._lines = LineBudget(_LINES_PER_WINDOW, now_s)
        self._failures = LineBudget(_FAILURES_PER_WINDOW, now_s)

    def answered(self, request: AnsweredRequest, outcome: Outcome) -> None:
        level = self._level(request, outcome)
        if not self._log.isEnabledFor(level):
            return
        if request.is_known:
            self._log.log(level, "%s from %s:%d: %s", request, request.host, request.port, outcome)
        elif outcome.is_refusal:
            reason = f"{request}: {outcome.status} {' '.join(outcome.reason.split())}"
            self._refusals.refused(request.host, request.port, reason, self._now_s())
        elif self._lines.take():
            more = self._lines.since_last()
            self._log.log(level, "%s from %s:%d: %s%s", request, request.host, request.port, outcome, more)

    @staticmethod
    def _level(request: AnsweredRequest, outcome: Outcome) -> int:
        if outcome.is_refusal:
            return logging.WARNING
        return logging.DEBUG if request.method in _SAFE_METHODS else logging.INFO

    def failed(self, request: AnsweredRequest) -> None:
        """Log an exception without another explanation; call it in its handler."""
        if request.is_known or self._failures.take():
            peer = f"{request.host}:{request.port}"
            self._log.exception(
                "%s from %s failed%s", request, peer, "" if request.is_known else self._failures.since_last()
            )
