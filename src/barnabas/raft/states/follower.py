"""Follower: fetches from the leader of the epoch, and prepares an election if the leader does not respond."""

from __future__ import annotations

from collections.abc import Mapping

from barnabas.raft.replica_key import OffsetAndEpoch, ReplicaKey
from barnabas.raft.states.epoch_state import EpochState
from barnabas.raft.voter_set import Endpoint

__all__ = ["FollowerState"]


class FollowerState(EpochState):
    name = "Follower"

    def __init__(
        self,
        epoch: int,
        *,
        leader_id: int,
        leader_endpoints: Mapping[str, Endpoint],
        voted_key: ReplicaKey | None,
        fetch_deadline_ms: int,
    ) -> None:
        super().__init__(epoch)
        self._leader_id = leader_id
        self._voted_key = voted_key
        self.leader_endpoints = leader_endpoints
        self.is_leader_unreachable = False
        """Whether the last request to those endpoints has failed: then a response with other endpoints is accepted."""
        self.fetch_deadline_ms = fetch_deadline_ms
        self.has_fetched_from_leader = False
        self.update_deadline_ms = fetch_deadline_ms
        self.has_described_itself = False
        self.fetching_snapshot: OffsetAndEpoch | None = None
        self.snapshot_position = 0
        self.snapshot_is_complete = False

    @property
    def leader_id(self) -> int:
        return self._leader_id

    @property
    def voted_key(self) -> ReplicaKey | None:
        return self._voted_key

    @property
    def deadline_ms(self) -> int:
        return self.fetch_deadline_ms

    def leader_is_gone(self, deadline_ms: int) -> None:
        """Shorten the wait because the leader's machine refused a connection.

        A leader that only does not respond is given more time. This happens once for each leader; after that the fetch
        timeout applies again.
        """
        if self.has_fetched_from_leader:
            self.has_fetched_from_leader = False
            self.fetch_deadline_ms = min(self.fetch_deadline_ms, deadline_ms)

    def start_fetching_snapshot(self, snapshot_id: OffsetAndEpoch | None) -> None:
        self.fetching_snapshot = snapshot_id
        self.snapshot_position = 0
        self.snapshot_is_complete = False

    def can_grant_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Refuse even a pre-vote after a response from the leader: the leader is alive."""
        return is_pre_vote and is_log_up_to_date and not self.has_fetched_from_leader
