"""A replica that knows the epoch but follows no leader; it may have voted, or know the leader without an address."""

from __future__ import annotations

from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.states.epoch_state import EpochState

__all__ = ["UnattachedState"]


class UnattachedState(EpochState):
    name = "Unattached"

    def __init__(
        self,
        epoch: int,
        *,
        election_deadline_ms: int,
        leader_id: int | None = None,
        voted_key: ReplicaKey | None = None,
    ) -> None:
        super().__init__(epoch)
        self._leader_id = leader_id
        self._voted_key = voted_key
        self._election_deadline_ms = election_deadline_ms

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


def grant_without_leader(
    candidate: ReplicaKey,
    *,
    leader_id: int | None,
    voted_key: ReplicaKey | None,
    is_log_up_to_date: bool,
    is_pre_vote: bool,
) -> bool:
    """The rule of Unattached and Prospective: one real vote an epoch, which may be repeated to the same candidate."""
    if is_pre_vote:
        return is_log_up_to_date
    if voted_key is not None:
        if voted_key.id != candidate.id:
            return False
        return not voted_key.has_directory or voted_key.directory_id == candidate.directory_id
    return leader_id is None and is_log_up_to_date
