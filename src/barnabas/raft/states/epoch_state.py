"""The interface of every state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

from barnabas.raft.election_state import ElectionState
from barnabas.raft.replica_key import ReplicaKey

__all__ = ["EpochState", "FOREVER_MS"]

FOREVER_MS = 1 << 62
"""A deadline that is never reached."""


class EpochState(ABC):
    name: ClassVar[str]

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch

    @property
    def leader_id(self) -> int | None:
        return None

    @property
    def voted_key(self) -> ReplicaKey | None:
        return None

    @property
    @abstractmethod
    def deadline_ms(self) -> int:
        """When work is due in this state even without a message."""

    @abstractmethod
    def can_grant_vote(self, candidate: ReplicaKey, *, is_log_up_to_date: bool, is_pre_vote: bool) -> bool:
        """Return whether ``candidate``, whose epoch is this one, receives this replica's vote."""

    def election(self) -> ElectionState:
        return ElectionState(self.epoch, self.leader_id, self.voted_key)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.election()})"
