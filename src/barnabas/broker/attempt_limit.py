"""Limits the wait for one answer before the request is sent again over another connection.

A peer that hangs keeps its connections open and never answers, so the first attempt is short. Later attempts are
longer, for a peer that is slow but alive. With one short limit for all attempts a slow peer could never answer in time,
and every attempt would add to its work.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["AttemptLimit"]

_DOUBLINGS_MAX: Final = 16


class AttemptLimit(NamedTuple):
    """The first attempt may take ``first_ms``, each later one twice as long as the one before, up to ``max_ms``."""

    first_ms: int
    max_ms: int

    def of(self, attempts: int) -> int:
        """Return the limit of this attempt; attempts are counted from 1."""
        return min(self.first_ms << min(attempts - 1, _DOUBLINGS_MAX), self.max_ms)
