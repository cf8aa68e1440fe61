"""The former leader of this epoch, which has resigned and requests the election of another."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.states.epoch_state import EpochState

__all__ = ["ResignedState"]


class ResignedState(EpochState):
    name = "Resigned"

    def __init__(
        self,
        epoch: int,
        *,
        node_id: int,
        election_deadline_ms: int,
        unacked_voters: Iterable[int],
        preferred_successors: Sequence[ReplicaKey],
    ) -> None:
        super().__init__(epoch)
        self._node_id = node_id
        self._election_deadline_ms = election_deadline_ms
        self.unacked_voters = set(unacked_voters) - {node_id}
        self.preferred_successors = preferred_successors

    @property
    def leader_id(self) -> int:
        """This replica itself: an epoch has one leader, also after it has resigned."""
        return self._node_id

    @property
    def deadline_ms(self) -> int:
        return self._election_deadline_ms

    def acknowledge(self, voter_id: int) -> None:
        self.unacked_voters.discard(voter_id)

    def can_grant_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        return is_pre_vote and is_log_up_to_date
