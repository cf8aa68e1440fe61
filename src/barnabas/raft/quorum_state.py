"""The state that this replica is in, and every legal move to another.

``LEGAL_MOVES`` is the whole table; any other move is a bug in barnabas. Epochs never decrease, and an epoch has one
leader at most. The ``ElectionState`` after a move is passed to ``persist`` before the move is visible, except for
Prospective and Resigned, which add nothing that must survive a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from barnabas.common.errors import invariant
from barnabas.raft.batch_accumulator import BatchAccumulator
from barnabas.raft.control_record_state_machine import ControlRecordStateMachine
from barnabas.raft.election_state import ElectionState
from barnabas.raft.log_state import LogState
from barnabas.raft.ports import RandomBelow
from barnabas.raft.raft_config import RaftConfig
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.states.candidate import CandidateState
from barnabas.raft.states.epoch_state import FOREVER_MS, EpochState
from barnabas.raft.states.follower import FollowerState
from barnabas.raft.states.leader import LeaderState
from barnabas.raft.states.prospective import ProspectiveState
from barnabas.raft.states.resigned import ResignedState
from barnabas.raft.states.unattached import UnattachedState
from barnabas.raft.voter_recovery import VoterRecovery
from barnabas.raft.voter_set import Endpoint, VoterSet

__all__ = ["LEGAL_MOVES", "QuorumState"]

LEGAL_MOVES: Mapping[type[EpochState], frozenset[type[EpochState]]] = {
    # A higher epoch without leader; the election timer; a leader was found.
    UnattachedState: frozenset({UnattachedState, ProspectiveState, FollowerState}),
    # A higher epoch, or pre-votes refused; a real vote for another; pre-votes granted; a leader was found, or the old
    # one still leads.
    ProspectiveState: frozenset({UnattachedState, ProspectiveState, CandidateState, FollowerState}),
    # A higher epoch; the timer after a lost election; a majority; another voter won.
    CandidateState: frozenset({UnattachedState, ProspectiveState, LeaderState, FollowerState}),
    # A higher epoch; the fetch timer; a leader of a higher epoch.
    FollowerState: frozenset({UnattachedState, ProspectiveState, FollowerState}),
    # A higher epoch without and with leader; shutdown, a fault above, or a majority no longer fetches.
    LeaderState: frozenset({UnattachedState, FollowerState, ResignedState}),
    # The timer or a higher epoch; the only voter need not wait; a leader of a higher epoch.
    ResignedState: frozenset({UnattachedState, ProspectiveState, FollowerState}),
}

S = TypeVar("S", bound=EpochState)


class QuorumState:
    def __init__(
        self,
        *,
        config: RaftConfig,
        log: LogState,
        control_records: ControlRecordStateMachine,
        random_below: RandomBelow,
        persist: Callable[[ElectionState], None],
    ) -> None:
        self._config = config
        self._log = log
        self._control_records = control_records
        self._random_below = random_below
        self._persist = persist
        self.recovery: VoterRecovery | None = None
        """Not None while this voter must not vote."""
        self._state: EpochState = UnattachedState(0, election_deadline_ms=FOREVER_MS)
        self._persisted: ElectionState | None = None

    # --- reading

    @property
    def state(self) -> EpochState:
        return self._state

    @property
    def epoch(self) -> int:
        return self._state.epoch

    @property
    def leader_id(self) -> int | None:
        return self._state.leader_id

    @property
    def voters(self) -> VoterSet:
        return self._control_records.last_voter_set

    @property
    def is_voter(self) -> bool:
        return self._config.can_be_voter and self.voters.is_voter(self._config.key)

    @property
    def may_vote(self) -> bool:
        """Whether this replica may stand for election and grant votes."""
        return self.is_voter and self.recovery is None

    @property
    def may_stand(self) -> bool:
        """Whether this replica may stand for election: as a voter, or to commit the change that removes it."""
        return self.may_vote or self._may_commit_own_removal

    @property
    def _may_commit_own_removal(self) -> bool:
        """Whether the last change of the voters removed this replica, and may still need it (Raft, 4.2.2).

        Perhaps no voter has that change in its log. Then this replica refuses its vote to all of them, and the voters
        before the change may need that vote: only the leadership of this replica lets them progress. It does not count
        its own vote. A restarted replica does not know what is committed before a leader reports it.
        """
        changed_at, before = self._control_records.last_voter_set_offset, self._control_records.voter_set_before_last
        if changed_at is None or before is None or not self._config.can_be_voter or self.recovery is not None:
            return False
        committed_end = self._log.high_watermark
        is_committed = committed_end is not None and changed_at < committed_end
        return not is_committed and not self.is_voter and before.is_voter(self._config.key)

    @property
    def is_only_voter(self) -> bool:
        """Exclude a voter that lost records: the change that made the others voters may be among the lost ones."""
        return self._config.can_be_voter and self.recovery is None and self.voters.is_only_voter(self._config.key)

    def in_state(self, state: type[S]) -> S | None:
        now = self._state
        return now if type(now) is state else None

    # --- start

    def initialize(self, stored: ElectionState | None, last_log_epoch: int, now_ms: int) -> None:
        """Return the state after a restart; a leader never continues to lead its earlier epoch."""
        self._persisted = stored
        election = stored or ElectionState(0)
        key = self._config.key
        if election.epoch < last_log_epoch:
            # The file is behind the log, which a crash between both writes can cause: the log's epoch was real.
            self._start_in(UnattachedState(last_log_epoch, election_deadline_ms=self._election_deadline(now_ms)))
        elif self._config.can_be_voter and election.is_leader(key.id):
            # Also after its removal: its vote for itself in this epoch is not stored.
            self._start_in(
                ResignedState(
                    election.epoch,
                    node_id=key.id,
                    election_deadline_ms=self._spread_deadline(now_ms),
                    unacked_voters=self.voters.ids,
                    preferred_successors=[voter for voter in self.voters.keys if voter.id != key.id],
                )
            )
        elif self.may_stand and election.is_voted_candidate(key):
            self._start_in(
                CandidateState(
                    election.epoch, key=key, voters=self.voters, election_deadline_ms=self._election_deadline(now_ms)
                )
            )
        else:
            self._start_in(self._follower_or_unattached(election, now_ms))

    def _follower_or_unattached(self, election: ElectionState, now_ms: int) -> EpochState:
        leader_id = election.leader_id
        leader = self.voters.get(leader_id) if leader_id is not None else None
        if leader is not None and leader_id is not None and leader_id != self._config.node_id:
            return FollowerState(
                election.epoch,
                leader_id=leader_id,
                leader_endpoints=leader.listeners,
                voted_key=election.voted_key,
                fetch_deadline_ms=now_ms + self._config.fetch_timeout_ms,
            )
        return UnattachedState(
            election.epoch,
            election_deadline_ms=self._election_deadline(now_ms),
            leader_id=leader_id if leader_id != self._config.node_id else None,
            voted_key=election.voted_key,
        )

    def _start_in(self, state: EpochState) -> None:
        self._state = state
        if not isinstance(state, ResignedState):
            self._persist_now(state.election())

    # --- moves

    def transition_to_unattached(self, epoch: int, now_ms: int, *, leader_id: int | None = None) -> None:
        """In the same epoch: only to abandon an election. In a higher epoch: the old vote no longer counts."""
        before = self._state
        same_epoch = epoch == before.epoch
        invariant(epoch >= before.epoch, f"epoch {epoch} is behind {before!r}")
        invariant(
            not same_epoch or isinstance(before, ProspectiveState | UnattachedState),
            f"{before!r} can't become Unattached in its own epoch",
        )
        self._move(
            UnattachedState(
                epoch,
                election_deadline_ms=self._carried_election_deadline(now_ms),
                leader_id=(leader_id if leader_id is not None else before.leader_id) if same_epoch else leader_id,
                voted_key=before.voted_key if same_epoch else None,
            )
        )

    def add_vote(self, candidate: ReplicaKey, now_ms: int) -> None:
        """Vote for another replica in this epoch."""
        before = self._state
        invariant(isinstance(before, UnattachedState | ProspectiveState), f"{before!r} can't vote")
        invariant(before.voted_key is None or before.voted_key.id == candidate.id, f"{before!r} has voted already")
        invariant(candidate.id != self._config.node_id, "a vote for oneself requires the Candidate state")
        deadline = before.deadline_ms
        if isinstance(before, ProspectiveState):
            state: EpochState = ProspectiveState(
                before.epoch,
                node_id=self._config.node_id,
                voters=self.voters,
                election_deadline_ms=deadline,
                leader_id=before.leader_id,
                voted_key=candidate,
            )
        else:
            state = UnattachedState(
                before.epoch, election_deadline_ms=deadline, leader_id=before.leader_id, voted_key=candidate
            )
        self._persist_now(state.election())
        self._move(state)

    def transition_to_prospective(self, now_ms: int) -> None:
        invariant(self.may_stand, "an observer, or a voter that lost records, does not stand for election")
        before = self._state
        self._move(
            ProspectiveState(
                before.epoch,
                node_id=self._config.node_id,
                voters=self.voters,
                election_deadline_ms=self._election_deadline(now_ms),
                leader_id=before.leader_id if not isinstance(before, ResignedState) else None,
                voted_key=before.voted_key,
            )
        )

    def transition_to_candidate(self, now_ms: int) -> None:
        invariant(self.may_stand, "an observer, or a voter that lost records, does not stand for election")
        self._move(
            CandidateState(
                self.epoch + 1,
                key=self._config.key,
                voters=self.voters,
                election_deadline_ms=self._election_deadline(now_ms),
            )
        )

    def transition_to_follower(
        self, epoch: int, leader_id: int, leader_endpoints: Mapping[str, Endpoint], now_ms: int
    ) -> None:
        before = self._state
        invariant(leader_id != self._config.node_id, f"{leader_id} can't follow itself in epoch {epoch}")
        invariant(epoch >= before.epoch, f"epoch {epoch} is behind {before!r}")
        same_epoch = epoch == before.epoch
        if same_epoch:
            known = before.leader_id
            invariant(known is None or known == leader_id, f"{leader_id} and {known} both lead epoch {epoch}")
            invariant(not isinstance(before, LeaderState | ResignedState), f"{leader_id} leads the epoch of {before!r}")
        self._move(
            FollowerState(
                epoch,
                leader_id=leader_id,
                leader_endpoints=leader_endpoints,
                voted_key=before.voted_key if same_epoch else None,
                fetch_deadline_ms=now_ms + self._config.fetch_timeout_ms,
            )
        )

    def transition_to_leader(self, epoch_start_offset: int, accumulator: BatchAccumulator, now_ms: int) -> LeaderState:
        candidate = self._state
        invariant(isinstance(candidate, CandidateState), f"{candidate!r} was not elected")
        if not isinstance(candidate, CandidateState):
            raise TypeError
        invariant(candidate.votes.is_granted, f"{candidate!r} has no majority")
        leader = LeaderState(
            candidate.epoch,
            key=self._config.key,
            voters=self.voters,
            granting=candidate.votes.granting,
            epoch_start_offset=epoch_start_offset,
            accumulator=accumulator,
            check_quorum_timeout_ms=self._config.check_quorum_timeout_ms,
            begin_quorum_epoch_timeout_ms=self._config.begin_quorum_epoch_timeout_ms,
            now_ms=now_ms,
        )
        self._move(leader)
        return leader

    def transition_to_resigned(self, preferred_successors: list[ReplicaKey], now_ms: int) -> None:
        self._move(
            ResignedState(
                self.epoch,
                node_id=self._config.node_id,
                # Also for a leader that is no longer a voter: it continues as an observer.
                election_deadline_ms=self._spread_deadline(now_ms),
                unacked_voters=self.voters.ids,
                preferred_successors=preferred_successors,
            )
        )

    # --- helpers

    def _move(self, state: EpochState) -> None:
        before = self._state
        legal = LEGAL_MOVES[type(before)]
        invariant(type(state) in legal, f"{before!r} can't become {state!r}")
        if not isinstance(state, ProspectiveState | ResignedState):
            self._persist_now(state.election())
        self._state = state

    def _persist_now(self, election: ElectionState) -> None:
        if election != self._persisted:
            self._persisted = election
            self._persist(election)

    def _carried_election_deadline(self, now_ms: int) -> int:
        """Keep the rest of the running election timer: a new epoch does not extend it."""
        before = self._state
        if isinstance(before, UnattachedState | CandidateState):
            return before.deadline_ms
        if isinstance(before, ProspectiveState) and before.deadline_ms > now_ms:
            return before.deadline_ms
        return self._election_deadline(now_ms)

    def _election_deadline(self, now_ms: int) -> int:
        return self._spread_deadline(now_ms) if self.may_stand else FOREVER_MS

    def _spread_deadline(self, now_ms: int) -> int:
        """Draw from one more timeout, so that two replicas seldom stand at the same time."""
        timeout = self._config.election_timeout_ms
        return now_ms + timeout + self._random_below(timeout)
