"""A leader's state of one follower, derived only from the follower's fetches.

A follower that fetches from an offset has all records below it. A fetch from the leader's log end shows that it is
caught up now. A fetch from the log end of its previous fetch shows that it was caught up then.
"""

from __future__ import annotations

__all__ = ["UNKNOWN_OFFSET", "FollowerContact", "ReplicaState"]

UNKNOWN_OFFSET = -1
ANY_BROKER_EPOCH = -1
"""The broker epoch in fetches before version 15. It is not compared."""


class FollowerContact:
    """The time at which a follower's fetch session was last used.

    A request in a session omits unchanged partitions: up to that time the follower is known to have their records.
    """

    __slots__ = ("answered_round", "confirmed_round", "last_fetch_ms")

    def __init__(self, now_ms: int) -> None:
        self.last_fetch_ms = now_ms
        self.answered_round = 0
        """The newest read round (``read_rounds``) at the last answer to the session."""
        self.confirmed_round = 0
        """The read round of the answer that preceded the last request."""

    def continues(self, now_ms: int) -> None:
        """Handle a request that the follower sent after the last answer."""
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
        """The first offset of the records that the follower received last."""

    def begin_epoch(self, *, leader_end_offset: int, now_ms: int, is_in_sync: bool) -> None:
        """Start a new epoch of the same leader. A replica in sync has the full time limit to prove that it still is.

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
        """Handle a fetch from ``log_end_offset`` on, while the leader's log ends at ``leader_end_offset``."""
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
        """Handle an append after ``leader_end_offset``.

        A follower with all records had them at the session's last fetch, even if that fetch did not name the partition.
        """
        if self.contact is not None and self.log_end_offset == leader_end_offset:
            self._caught_up_at(self.contact.last_fetch_ms)
            self.last_fetch_ms = max(self.last_fetch_ms or 0, self.contact.last_fetch_ms)

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        if self.log_end_offset == leader_end_offset:
            return True
        return self.last_caught_up_ms is not None and now_ms - self.last_caught_up_ms <= lag_time_max_ms

    def is_confirmed_since(self, time_ms: int) -> bool:
        """Return whether the follower's session sent a request after that time, which confirms its records."""
        return self.contact is not None and self.contact.last_fetch_ms > time_ms

    def has_followed_since(self, read_round: int) -> bool:
        """Return whether the follower has fetched from this leader, in this leader epoch, since that round began."""
        return self.contact is not None and self.contact.confirmed_round >= read_round

    def lose_contact(self, contact: FollowerContact | None) -> None:
        """Discard the facts that this session has confirmed about the partition."""
        if self.contact is contact:
            self.contact = None

    def _caught_up_at(self, time_ms: int) -> None:
        if self.last_caught_up_ms is None or time_ms > self.last_caught_up_ms:
            self.last_caught_up_ms = time_ms

    def __repr__(self) -> str:
        return f"ReplicaState({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"
