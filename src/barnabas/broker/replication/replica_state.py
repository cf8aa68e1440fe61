"""What a leader knows of one follower, from the follower's fetches and from nothing else.

A follower that fetches from an offset has everything below it. It was caught up at the time of a fetch that asked from
the leader's end, or when it asks now from where the end was at its fetch before.
"""

from __future__ import annotations

__all__ = ["UNKNOWN_OFFSET", "FollowerContact", "ReplicaState"]

UNKNOWN_OFFSET = -1
ANY_BROKER_EPOCH = -1
"""Of fetches older than version 15: not to be compared."""


class FollowerContact:
    """When the fetch session of a follower was used last.

    A request of a session does not name what has no news: that the follower has all of it is true until then.
    """

    __slots__ = ("answered_round", "confirmed_round", "last_fetch_ms")

    def __init__(self, now_ms: int) -> None:
        self.last_fetch_ms = now_ms
        self.answered_round = 0
        """The newest read round (``read_rounds``) when the session was answered last."""
        self.confirmed_round = 0
        """That of the answer on which the last request was sent."""

    def continues(self, now_ms: int) -> None:
        """A request has come that was sent after the last answer."""
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
        """Where the records began that it was sent last."""

    def begin_epoch(self, *, leader_end_offset: int, now_ms: int, is_in_sync: bool) -> None:
        """A new leader epoch of the same leader: who is in sync gets the whole time to show that it still is.

        Another broker may have led in between, and may have had the follower cut its log: what it has is not known.
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
        """The follower asks from ``log_end_offset`` on while the leader's log ends at ``leader_end_offset``."""
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
        """The leader's log grows beyond this offset: who had everything had it at its last fetch, named or not."""
        if self.contact is not None and self.log_end_offset == leader_end_offset:
            self._caught_up_at(self.contact.last_fetch_ms)
            self.last_fetch_ms = max(self.last_fetch_ms or 0, self.contact.last_fetch_ms)

    def is_caught_up(self, leader_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        if self.log_end_offset == leader_end_offset:
            return True
        return self.last_caught_up_ms is not None and now_ms - self.last_caught_up_ms <= lag_time_max_ms

    def spoke_since(self, time_ms: int) -> bool:
        """Whether a request of its session came after that time, and so said that it still has what it had."""
        return self.contact is not None and self.contact.last_fetch_ms > time_ms

    def has_followed_since(self, read_round: int) -> bool:
        """Whether it has fetched from this leader, in this leader epoch, when that round had begun."""
        return self.contact is not None and self.contact.confirmed_round >= read_round

    def lose_contact(self, contact: FollowerContact | None) -> None:
        """What this session said of the partition does not hold any more."""
        if self.contact is contact:
            self.contact = None

    def _caught_up_at(self, time_ms: int) -> None:
        if self.last_caught_up_ms is None or time_ms > self.last_caught_up_ms:
            self.last_caught_up_ms = time_ms

    def __repr__(self) -> str:
        return f"ReplicaState({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"
