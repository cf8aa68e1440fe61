"""Candidate: has started an epoch, voted for itself in it, and requests the votes of the others."""

from __future__ import annotations

from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.states.epoch_state import EpochState
from barnabas.raft.states.vote_tally import VoteTally
from barnabas.raft.voter_set import VoterSet

__all__ = ["CandidateState"]


class CandidateState(EpochState):
    name = "Candidate"

    def __init__(self, epoch: int, *, key: ReplicaKey, voters: VoterSet, election_deadline_ms: int) -> None:
        super().__init__(epoch)
        self._key = key
        self._election_deadline_ms = election_deadline_ms
        self.votes = VoteTally(voters, granted_by=[key.id])

    @property
    def voted_key(self) -> ReplicaKey | None:
        return self._key

    @property
    def deadline_ms(self) -> int:
        return self._election_deadline_ms

    def stand_again(self, deadline_ms: int) -> None:
        """End an election that can't be won, without waiting for its timeout."""
        self._election_deadline_ms = min(self._election_deadline_ms, deadline_ms)

    def can_grant_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        return is_pre_vote and is_log_up_to_date
