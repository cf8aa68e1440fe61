"""The answers to a vote request and their result."""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.voter_set import VoterSet

__all__ = ["VoteTally"]


class VoteTally:
    """The votes of one round. A voter that has answered can't take its answer back."""

    def __init__(self, voters: VoterSet, granted_by: Iterable[int] = ()) -> None:
        self.voters = voters
        self._answers: dict[int, bool | None] = dict.fromkeys(voters.ids)
        self._gone: set[int] = set()
        for voter_id in granted_by:
            self.record(voter_id, granted=True)

    def record(self, voter_id: int, *, granted: bool) -> bool:
        """Record an answer; return False if it is not from a voter or contradicts an earlier one."""
        if voter_id not in self._answers:
            return False
        earlier = self._answers[voter_id]
        if earlier is not None and earlier is not granted:
            return False
        self._answers[voter_id] = granted
        return True

    def connection_refused(self, voter_id: int) -> None:
        """Record that the voter's machine refused a connection: its process has stopped and will hardly answer."""
        self._gone.add(voter_id)

    @property
    def unanswered(self) -> list[int]:
        return [voter_id for voter_id, answer in self._answers.items() if answer is None]

    @property
    def granting(self) -> list[ReplicaKey]:
        return [voter.key for voter in self.voters if self._answers[voter.key.id]]

    @property
    def is_granted(self) -> bool:
        return sum(answer is True for answer in self._answers.values()) >= self.voters.majority

    @property
    def is_rejected(self) -> bool:
        """Whether a majority can no longer be reached."""
        possible = sum(answer is not False for answer in self._answers.values())
        return possible < self.voters.majority

    @property
    def is_lost(self) -> bool:
        """Whether a majority is out of reach because voters have stopped and others split their votes."""
        hopeful = sum(answer or (answer is None and voter not in self._gone) for voter, answer in self._answers.items())
        return bool(self._gone) and hopeful < self.voters.majority
