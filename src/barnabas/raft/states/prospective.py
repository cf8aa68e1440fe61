"""Prospective: checks with pre-votes whether it would win, before an election disturbs the quorum (KIP-996)."""

from __future__ import annotations

from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.states.epoch_state import EpochState
from barnabas.raft.states.unattached import grant_without_leader
from barnabas.raft.states.vote_tally import VoteTally
from barnabas.raft.voter_set import VoterSet

__all__ = ["ProspectiveState"]


class ProspectiveState(EpochState):
    """Epoch, leader and vote are unchanged: a pre-vote for oneself is never stored."""

    name = "Prospective"

    def __init__(
        self,
        epoch: int,
        *,
        node_id: int,
        voters: VoterSet,
        election_deadline_ms: int,
        leader_id: int | None,
        voted_key: ReplicaKey | None,
    ) -> None:
        super().__init__(epoch)
        self._leader_id = leader_id
        self._voted_key = voted_key
        self._election_deadline_ms = election_deadline_ms
        self.votes = VoteTally(voters, granted_by=[node_id])

    @property
    def leader_id(self) -> int | None:
        return self._leader_id

    @property
    def voted_key(self) -> ReplicaKey | None:
        return self._voted_key

    @property
    def deadline_ms(self) -> int:
        return self._election_deadline_ms

    def can_grant_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        return grant_without_leader(
            candidate,
            leader_id=self._leader_id,
            voted_key=self._voted_key,
            is_log_up_to_date=is_log_up_to_date,
            is_pre_vote=is_pre_vote,
        )
