"""Logs refused clients with the reason: once a minute per host and reason, a few lines in ten seconds for all.

A refused client often retries many times a second: the log must not grow with its attempts.
"""

from __future__ import annotations

import logging

__all__ = ["RefusalLog"]

log = logging.getLogger(__name__)

_QUIET_S = 60.0
_KEPT_MAX = 512
_WINDOW_S = 10.0
_LINES_PER_WINDOW = 20
_REASON_LENGTH_MAX = 400


class _Entry:
    __slots__ = ("quiet_until", "suppressed")

    def __init__(self, quiet_until: float) -> None:
        self.quiet_until = quiet_until
        self.suppressed = 0


class RefusalLog:
    """The refusals of one listener. A reason may contain a name chosen by the peer: it is shortened to one line.

    ``verb`` describes the action on the peer.
    """

    def __init__(self, listener: str, verb: str = "refused") -> None:
        self._listener = listener
        self._verb = verb
        self._entries: dict[tuple[str, str], _Entry] = {}
        self._window_ends = 0.0
        self._lines_left = 0
        self._untold = 0

    def refused(self, host: str, port: int, reason: str, now: float) -> None:
        """``now`` is the loop's time."""
        reason = _one_line(reason)
        key = (host, reason)
        entry = self._entries.pop(key, None)
        if entry is not None and now < entry.quiet_until:
            entry.suppressed += 1
            self._entries[key] = entry
            return
        if not self._may_tell(now):
            return
        again = f" (and {entry.suppressed} times before that)" if entry is not None and entry.suppressed else ""
        log.warning("listener %s: %s %s:%d: %s%s", self._listener, self._verb, host, port, reason, again)
        if len(self._entries) >= _KEPT_MAX:
            del self._entries[next(iter(self._entries))]
        self._entries[key] = _Entry(now + _QUIET_S)

    def _may_tell(self, now: float) -> bool:
        if now >= self._window_ends:
            if self._untold:
                log.warning(
                    "listener %s: %s %d more connections of other hosts", self._listener, self._verb, self._untold
                )
            self._window_ends, self._lines_left, self._untold = now + _WINDOW_S, _LINES_PER_WINDOW, 0
        if not self._lines_left:
            self._untold += 1
            return False
        self._lines_left -= 1
        return True


def _one_line(reason: str) -> str:
    shown = "".join(char if char.isprintable() else f"\\u{ord(char):04x}" for char in reason[:_REASON_LENGTH_MAX])
    return shown if len(reason) <= _REASON_LENGTH_MAX else f"{shown}..."
