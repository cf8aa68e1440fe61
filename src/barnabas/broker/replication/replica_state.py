"""A leader's state of one follower, from the follower's fetches alone.

A follower that fetches from an offset has everything below it. It was caught up at the time of a fetch from the
leader's log end, or if it now fetches from where the log end was at its previous fetch.
"""

from __future__ import annotations

__all__ = ["UNKNOWN_OFFSET", "FollowerContact", "ReplicaState"]

UNKNOWN_OFFSET = -1
ANY_BROKER_EPOCH = -1
"""The broker epoch in fetches older than version 15: not compared."""


class FollowerContact:
    """The time at which the fetch session of a follower was last used.

    A request of a session omits partitions without news: until that time the follower is known to have all records.
    """

    __slots__ = ("answered_round", "confirmed_round", "last_fetch_ms")

    def __init__(self, now_ms: int) -> None:
        self.last_fetch_ms = now_ms
        self.answered_round = 0
        """The newest read round (``read_rounds``) when the session was answered last."""
        self.confirmed_round = 0
        """The read round of the answer that preceded the last request."""

    def continues(self, now_ms: int) -> None:
        """Handle a request that was sent after the last answer."""
        self.last_fetch_ms = now_ms
        self.confirmed_round = self.answered_round


class ReplicaState:
    """Times are of a monotonic clock. ``broker_epoch`` is None before the first fetch in this leadership."""

    __slots__ = (
        "broker_epoch",
        "broker_id",
        "contact",
        "last_caught_up_ms",
        "last_fetch_leader_end_offset",
        "last_fetch_ms",
        "log_end_offset",
        "log_start_offset",
        "sent_offset",
    )

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.broker_epoch: int | None = None
        self.log_start_offset = UNKNOWN_OFFSET
        self.log_end_offset = UNKNOWN_OFFSET
        self.last_caught_up_ms: int | None = None
        self.last_fetch_ms: int | None = None
        self.last_fetch_leader_end_offset = UNKNOWN_OFFSET
        self.contact: FollowerContact | None = None
        self.sent_offset = UNKNOWN_OFFSET
        """The first offset of the records that it received last."""

    def begin_epoch(self, *, leader_end_offset: int, now_ms: int, is_in_sync: bool) -> None:
        """Start a new epoch of the same leader: a replica in sync gets the whole time limit to show that it still is.

        Another broker may have led in between, and the follower may have truncated its log: its log end is unknown.
        """
        self.log_start_offset = self.log_end_offset = UNKNOWN_OFFSET
        self.broker_epoch = self.contact = None
        self.last_caught_up_ms = self.last_fetch_ms = now_ms if is_in_sync else None
        self.last_fetch_leader_end_offset = leader_end_offset

    def fetched(
        self,
        *,
        log_end_offset: int,
        log_start_offset: int,
        leader_end_offset: int,
        broker_epoch: int,
        now_ms: int,
        contact: FollowerContact | None = None,
    ) -> None:
        """The follower fetches from ``log_end_offset`` on while the leader's log ends at ``leader_end_offset``."""
        if log_end_offset >= leader_end_offset:
            self._caught_up_at(now_ms)
        elif log_end_offset >= self.last_fetch_leader_end_offset and self.last_fetch_ms is not None:
            self._caught_up_at(self.last_fetch_ms)
        self.log_start_offset = log_start_offset
        self.log_end_offset = log_end_offset
        self.last_fetch_leader_end_offset = max(leader_end_offset, self.last_fetch_leader_end_offset)
        self.last_fetch_ms = now_ms
        self.broker_epoch = broker_epoch
        self.contact = contact

    def leader_appends(self, leader_end_offset: int) -> None:
        """The leader's log grows beyond this offset: a follower with all records had them at its last fetch, named
        or not."""
        if self.contact is not None and self.log_end_offset == leader_end_offset:
            self._caught_up_at(self.contact.last_fetch_ms)
            self.last_fetch_ms = max(self.last_fetch_ms or 0, self.contact.last_fetch_ms)

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        if self.log_end_offset == leader_end_offset:
            return True
        return self.last_caught_up_ms is not None and now_ms - self.last_caught_up_ms <= lag_time_max_ms

    def spoke_since(self, time_ms: int) -> bool:
        """Whether its session sent a request after that time, which confirms the records that it had."""
        return self.contact is not None and self.contact.last_fetch_ms > time_ms

    def has_followed_since(self, read_round: int) -> bool:
        """Whether it has fetched from this leader, in this leader epoch, since that round began."""
        return self.contact is not None and self.contact.confirmed_round >= read_round

    def lose_contact(self, contact: FollowerContact | None) -> None:
        """Drop what this session confirmed of the partition."""
        if self.contact is contact:
            self.contact = None

    def _caught_up_at(self, time_ms: int) -> None:
        if self.last_caught_up_ms is None or time_ms > self.last_caught_up_ms:
            self.last_caught_up_ms = time_ms

    def __repr__(self) -> str:
        return f"ReplicaState({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"
