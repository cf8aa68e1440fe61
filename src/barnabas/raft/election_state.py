"""The state of an election that a replica keeps across a restart."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.raft.replica_key import ReplicaKey

__all__ = ["ElectionState"]


@dataclass(frozen=True, slots=True)
class ElectionState:
    """The epoch, its leader if known, and the replica that received this one's vote in it.

    Losing it could let a replica vote twice in an epoch, so it is durable before anything that depends on it
    leaves the process.
    """

    epoch: int
    leader_id: int | None = None
    voted_key: ReplicaKey | None = None

    def is_leader(self, node_id: int) -> bool:
        return self.leader_id == node_id

    def is_voted_candidate(self, key: ReplicaKey) -> bool:
        return self.voted_key is not None and self.voted_key.matches(key)
