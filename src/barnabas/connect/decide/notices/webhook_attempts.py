"""What an attempt to deliver a notice means, and the pause before the next one. Pure: no socket, no clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

__all__ = ["AttemptBudget", "Outcome", "outcome_of"]

_RETRIED = frozenset({408, 425, 429})


class Outcome(Enum):
    ACCEPTED = "accepted"
    RETRY = "retry"
    REFUSED = "refused"
    """Another attempt would not help: the URL, the secret or the receiver is wrong."""


def outcome_of(status: int) -> Outcome:
    """Return what an answer means. A redirect is refused: a notice goes only where the settings say."""
    if 200 <= status < 300:
        return Outcome.ACCEPTED
    return Outcome.RETRY if status >= 500 or status in _RETRIED else Outcome.REFUSED


@dataclass(frozen=True, slots=True)
class AttemptBudget:
    """How often a notice is sent again: ``barnabas.connect.webhook.retry.*``."""

    retries_max: int
    backoff_ms: int
    backoff_max_ms: int

    def pause_ms(self, retry: int, asked_s: int | None = None) -> int | None:
        """Return the pause before the retry of this number, from 1; None if it is not allowed.

        ``asked_s`` is the server's ``Retry-After`` in seconds. It lengthens the pause up to the longest one.
        """
        if retry > self.retries_max:
            return None
        pause_ms = min(self.backoff_ms << min(retry - 1, 32), self.backoff_max_ms)
        return pause_ms if asked_s is None else min(max(pause_ms, asked_s * 1000), self.backoff_max_ms)
