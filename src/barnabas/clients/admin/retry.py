"""Retries: for which errors, how often, and until when."""

from __future__ import annotations

import asyncio
import random

from barnabas.common.error_code import ErrorCode

__all__ = ["COORDINATOR_MOVED", "LEADER_MOVED", "RETRIED", "Backoff", "Deadline"]

COORDINATOR_MOVED = frozenset(
    {ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
)
LEADER_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)
RETRIED = (
    frozenset(
        {
            ErrorCode.NOT_CONTROLLER,
            ErrorCode.THROTTLING_QUOTA_EXCEEDED,
            ErrorCode.NETWORK_EXCEPTION,
            ErrorCode.UNSTABLE_OFFSET_COMMIT,
        }
    )
    | COORDINATOR_MOVED
    | LEADER_MOVED
)
"""Errors that are retried until the deadline. Others that Kafka calls retriable (an unknown topic) are answers."""


class Deadline:
    """A moment on the event loop's clock."""

    __slots__ = ("_loop", "at", "limit_s")

    def __init__(self, limit_s: float) -> None:
        self._loop = asyncio.get_running_loop()
        self.limit_s = limit_s
        self.at = self._loop.time() + limit_s

    @property
    def remaining_s(self) -> float:
        return max(0.0, self.at - self._loop.time())

    @property
    def is_over(self) -> bool:
        return self._loop.time() >= self.at


class Backoff:
    """Pauses that double from ``retry.backoff.ms`` to ``retry.backoff.max.ms``, each a fifth longer or shorter."""

    __slots__ = ("_most_s", "_next_s")

    def __init__(self, first_ms: float, most_ms: float) -> None:
        self._next_s = first_ms / 1000
        self._most_s = max(first_ms, most_ms) / 1000

    async def pause(self, deadline: Deadline, at_least_s: float = 0) -> bool:
        """Wait before another attempt. Return False immediately when no time is left."""
        pause = max(at_least_s, self._next_s * random.uniform(0.8, 1.2))
        self._next_s = min(self._most_s, self._next_s * 2)
        if pause >= deadline.remaining_s:
            return False
        await asyncio.sleep(pause)
        return True
