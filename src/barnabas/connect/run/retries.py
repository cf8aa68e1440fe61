"""Attempts that are repeated while the worker starts: pauses grow, and the log has a line for each cause only."""

from __future__ import annotations

import asyncio
import logging

__all__ = ["Retries"]

log = logging.getLogger(__name__)

_PAUSE_MAX_S = 5.0
_QUIET_S = 30.0


class Retries:
    """Call ``failed`` after each failed attempt, on the event loop.

    The cause is logged when it is new, and again every 30 s. During the first ``grace_s`` it is not logged, because it
    may pass by itself.
    """

    def __init__(self, *, pause_s: float = 0.25, grace_s: float = 0.0) -> None:
        self.problem: str | None = None
        """The cause of the last failure."""
        self._pause_s = pause_s
        self._grace_s = grace_s
        self._quiet_until_s: float | None = None
        self._logged: str | None = None

    async def failed(self, problem: str) -> None:
        """Log the problem if it is news, and wait before the next attempt."""
        self.problem = problem
        self._log(problem, asyncio.get_running_loop().time())
        pause_s, self._pause_s = self._pause_s, min(self._pause_s * 2, _PAUSE_MAX_S)
        await asyncio.sleep(pause_s)

    def _log(self, problem: str, now_s: float) -> None:
        if self._quiet_until_s is None:
            self._quiet_until_s = now_s + self._grace_s
        is_another = self._logged is not None and problem != self._logged
        if is_another or now_s >= self._quiet_until_s:
            log.warning("%s; trying again", problem)
            self._logged, self._quiet_until_s = problem, now_s + _QUIET_S
