"""Recovery of a voter that lost acknowledged records or forgot its vote (protocol-aware recovery).

Raft relies on two promises of a voter: it keeps each record that it acknowledged, and it votes once in an epoch. A
voter whose log was damaged broke the first one, and a voter without its quorum-state may break the second one. Until it
can keep them again it

- grants no vote and no pre-vote, and does not stand for election: a majority that elects a leader is one without it,
  and shares a voter that still has the record with each majority that committed one;
- acknowledges only what it durably holds now. Its fetch offset is its log end after the damaged part was set aside, so
  the leader stops counting it for what it lost, and counts it for a lost record only once it has that record again.
  While it may have voted in an epoch that it does not know, it fetches without its id and is not counted at all.

It is a voter like any other when it follows a leader and holds all that could be committed before: its log has reached
the high watermark that this leader reported, and either the end that it had before the damage or the end of the
leader's log. A leader reports a high watermark only after a record of its own epoch was committed, and everything
committed before lies below it. What the leader's log lacks, although this voter had it, was never committed.

The other voters limit the epochs in which a voter may have voted without knowing: a candidate that requested a vote in
an epoch was in that epoch, and does not go back. So a voter that forgot requests the epoch of each other voter (with a
pre-vote, which binds no voter; with a vote in epoch 1, which is over or has a leader, if the voter does not know
pre-votes), and adopts the highest one.

P. Alagappan et al., Protocol-Aware Recovery for Consensus-Based Storage, FAST '18.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

__all__ = ["LostPromises", "VoterRecovery"]


@dataclass(frozen=True, slots=True)
class LostPromises:
    """The state that a voter must regain before it votes. It survives restarts, next to quorum-state."""

    end_offset: int
    """The former end of its log, according to its files."""
    forgot_votes: bool = False
    """Whether its epoch and its vote are unknown."""
    reason: str = ""


class VoterRecovery:
    """The progress of this process in the recovery."""

    def __init__(self, lost: LostPromises) -> None:
        self.lost = lost
        self.next_question_ms = 0
        """When to contact the voters again that have not answered."""
        self.without_pre_votes: set[int] = set()
        """Voters with older software, which do not support pre-votes."""
        self._answered: set[int] = set()
        self._reported: tuple[int, int] | None = None
        self._leader_end: tuple[int, int] | None = None

    def unanswered(self, other_voters: Iterable[int]) -> list[int]:
        """The voters whose epoch this one still has to learn."""
        if not self.lost.forgot_votes:
            return []
        return [voter_id for voter_id in other_voters if voter_id not in self._answered]

    def knows_epochs(self, other_voters: Iterable[int]) -> bool:
        """Return whether this voter can't have voted in an epoch higher than its own."""
        voters = list(other_voters)
        return not self.lost.forgot_votes or (bool(voters) and not self.unanswered(voters))

    def answered(self, voter_id: int) -> None:
        """Record that this voter reported its epoch, which was adopted if higher."""
        self._answered.add(voter_id)

    def leader_reported(self, epoch: int, high_watermark: int) -> None:
        """Record that the leader of ``epoch`` reports everything below as committed."""
        if high_watermark >= 0:
            self._reported = (epoch, high_watermark)

    def reached_leader(self, epoch: int, end_offset: int) -> None:
        """Record that the log of the leader of ``epoch`` did not go on behind this one's ``end_offset``."""
        self._leader_end = (epoch, end_offset)

    def is_over(self, *, epoch: int, durable_end_offset: int, other_voters: Iterable[int]) -> bool:
        """Return whether a follower in ``epoch``, with its log up to this end, has all that it must have."""
        if self._reported is None or self._reported[0] != epoch or not self.knows_epochs(other_voters):
            return False
        needed = self.lost.end_offset
        if self._leader_end is not None and self._leader_end[0] == epoch:
            needed = min(needed, self._leader_end[1])
        return durable_end_offset >= max(self._reported[1], needed)
