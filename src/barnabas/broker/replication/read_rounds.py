"""Confirms that followers still follow this leader: read index rounds, as in Raft.

A follower's fetch alone proves little. It may have waited in a socket while this process was stopped, and the follower
may lead by now. But a fetch that continues a session was sent after the answer to the previous fetch. So each question
receives a number, and an answer to a follower stores the newest number. The follower's next fetch confirms that number:
the follower sent it after the question arrived, and knew no other leader then.

Numbers are used instead of times, because two events can occur in the same millisecond.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.broker.replication.replica_state import FollowerContact

__all__ = ["ReadRounds"]


class ReadRounds:
    """Rounds of all partitions that a broker leads."""

    __slots__ = ("is_awaited", "newest", "on_fetch")

    def __init__(self) -> None:
        self.newest = 0
        self.is_awaited = False
        """Whether a read waits for followers."""
        self.on_fetch: Callable[[], None] | None = None
        """Called whenever a follower has fetched while a read waits."""

    def begin(self) -> int:
        self.newest += 1
        return self.newest

    def wants_early_answer(self, contact: FollowerContact) -> bool:
        """Return whether to answer a follower without delay, so that it fetches again sooner."""
        return self.is_awaited and contact.answered_round < self.newest

    def fetched(self) -> None:
        if self.is_awaited and self.on_fetch is not None:
            self.on_fetch()
