"""The states, their transitions, and which candidates are granted a vote."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from barnabas.common.errors import InvariantViolated
from barnabas.raft.batch_accumulator import BatchAccumulator
from barnabas.raft.control_record_state_machine import ControlRecordStateMachine
from barnabas.raft.election_state import ElectionState
from barnabas.raft.log_state import LogState
from barnabas.raft.quorum_state import LEGAL_MOVES, QuorumState
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.states.candidate import CandidateState
from barnabas.raft.states.epoch_state import EpochState
from barnabas.raft.states.follower import FollowerState
from barnabas.raft.states.leader import LeaderState
from barnabas.raft.states.prospective import ProspectiveState
from barnabas.raft.states.resigned import ResignedState
from barnabas.raft.states.unattached import UnattachedState
from tests.unit.raft.single_voter import CONFIG, TextSerde, dynamic_quorum, voter

STATES = (UnattachedState, ProspectiveState, CandidateState, FollowerState, LeaderState, ResignedState)
ENDPOINTS = voter(2).listeners


class Quorum:
    """A quorum state, with the elections that it requested to persist."""

    def __init__(self, *voters: int, control_records: ControlRecordStateMachine | None = None) -> None:
        self.persisted: list[ElectionState] = []
        self.state = QuorumState(
            config=replace(CONFIG, listeners=voter(1).listeners),
            log=LogState(),
            control_records=control_records or dynamic_quorum(*(voters or (1, 2, 3))),
            random_below=lambda bound: 300,
            persist=self.persisted.append,
        )

    def begin(self, stored: ElectionState | None = None, log_epoch: int = 0, now_ms: int = 0) -> Quorum:
        self.state.initialize(stored, log_epoch, now_ms)
        self.persisted.clear()
        return self

    def candidate(self) -> Quorum:
        self.begin().state.transition_to_prospective(0)
        self.state.transition_to_candidate(0)
        return self

    def leader(self) -> Quorum:
        state = self.candidate().state.in_state(CandidateState)
        assert state is not None
        state.votes.record(2, granted=True)
        self.state.transition_to_leader(0, accumulator(), 0)
        return self


def accumulator() -> BatchAccumulator:
    return BatchAccumulator(epoch=1, base_offset=0, serde=TextSerde(), batch_max_bytes=1000, batch_max_records=10)


def in_state(target: type[EpochState]) -> Quorum:
    if target is UnattachedState:
        return Quorum().begin()
    if target is ProspectiveState:
        quorum = Quorum().begin()
        quorum.state.transition_to_prospective(0)
        return quorum
    if target is CandidateState:
        return Quorum().candidate()
    if target is FollowerState:
        quorum = Quorum().begin()
        quorum.state.transition_to_follower(1, 2, ENDPOINTS, 0)
        return quorum
    quorum = Quorum().leader()
    if target is ResignedState:
        quorum.state.transition_to_resigned([], 0)
    return quorum


MOVES: dict[type[EpochState], Callable[[QuorumState], object]] = {
    UnattachedState: lambda state: state.transition_to_unattached(state.epoch + 1, 0),
    ProspectiveState: lambda state: state.transition_to_prospective(0),
    CandidateState: lambda state: state.transition_to_candidate(0),
    FollowerState: lambda state: state.transition_to_follower(state.epoch + 1, 2, ENDPOINTS, 0),
    LeaderState: lambda state: state.transition_to_leader(0, accumulator(), 0),
    ResignedState: lambda state: state.transition_to_resigned([], 0),
}


@pytest.mark.parametrize("source", STATES)
@pytest.mark.parametrize("target", STATES)
def test_only_the_transitions_of_the_table_are_possible(source: type[EpochState], target: type[EpochState]) -> None:
    quorum = in_state(source)
    assert type(quorum.state.state) is source
    if source is CandidateState and target is LeaderState:
        votes = quorum.state.in_state(CandidateState)
        assert votes is not None
        votes.votes.record(2, granted=True)
    if target in LEGAL_MOVES[source]:
        MOVES[target](quorum.state)
        assert type(quorum.state.state) is target
    else:
        with pytest.raises(InvariantViolated):
            MOVES[target](quorum.state)
        assert type(quorum.state.state) is source


@pytest.mark.parametrize("target", STATES)
def test_new_information_about_the_election_is_persisted(target: type[EpochState]) -> None:
    quorum = in_state(target)
    last = quorum.persisted[-1] if quorum.persisted else ElectionState(0)
    if target is ResignedState:
        assert last == ElectionState(1, 1)
    elif target in (UnattachedState, ProspectiveState):
        assert not quorum.persisted
    else:
        assert last == quorum.state.state.election()


@pytest.mark.parametrize(
    ("stored", "log_epoch", "state", "epoch", "leader_id"),
    [
        (None, 0, UnattachedState, 0, None),
        (None, 4, UnattachedState, 4, None),
        (ElectionState(3), 3, UnattachedState, 3, None),
        (ElectionState(3, 1), 3, ResignedState, 3, 1),
        (ElectionState(3, None, CONFIG.key), 3, CandidateState, 3, None),
        (ElectionState(3, 2), 3, FollowerState, 3, 2),
        (ElectionState(3, 9), 3, UnattachedState, 3, 9),
        (ElectionState(3, None, ReplicaKey(2, voter(2).key.directory_id)), 3, UnattachedState, 3, None),
        (ElectionState(3, 1), 5, UnattachedState, 5, None),
    ],
)
def test_a_restart_leads_to_a_safe_state(
    stored: ElectionState | None, log_epoch: int, state: type[EpochState], epoch: int, leader_id: int | None
) -> None:
    quorum = Quorum().begin(stored, log_epoch)
    assert (type(quorum.state.state), quorum.state.epoch, quorum.state.leader_id) == (state, epoch, leader_id)


def test_a_vote_for_another_survives_a_restart() -> None:
    quorum = Quorum().begin(ElectionState(3, None, voter(2).key), 3)
    assert quorum.state.state.voted_key == voter(2).key
    assert not quorum.state.state.can_grant_vote(voter(3).key, is_log_up_to_date=True, is_pre_vote=False)
    assert quorum.state.state.can_grant_vote(voter(2).key, is_log_up_to_date=True, is_pre_vote=False)


# (state, pre-vote, log up to date) -> granted, for a candidate that has not been voted for.
GRANTS = {
    (UnattachedState, True, True): True,
    (UnattachedState, True, False): False,
    (UnattachedState, False, True): True,
    (UnattachedState, False, False): False,
    (ProspectiveState, True, True): True,
    (ProspectiveState, False, True): True,
    (ProspectiveState, False, False): False,
    (CandidateState, True, True): True,
    (CandidateState, True, False): False,
    (CandidateState, False, True): False,
    (FollowerState, True, True): True,
    (FollowerState, True, False): False,
    (FollowerState, False, True): False,
    (LeaderState, True, True): False,
    (LeaderState, False, True): False,
    (ResignedState, True, True): True,
    (ResignedState, False, True): False,
}


@pytest.mark.parametrize(("situation", "granted"), GRANTS.items())
def test_votes_are_granted_by_state_and_log(situation: tuple[type[EpochState], bool, bool], granted: bool) -> None:
    state, is_pre_vote, is_up_to_date = situation
    answer = in_state(state).state.state.can_grant_vote(
        voter(3).key, is_log_up_to_date=is_up_to_date, is_pre_vote=is_pre_vote
    )
    assert answer is granted


def test_a_follower_that_has_received_from_its_leader_grants_no_pre_vote() -> None:
    follower = in_state(FollowerState).state.in_state(FollowerState)
    assert follower is not None
    follower.has_fetched_from_leader = True
    assert not follower.can_grant_vote(voter(3).key, is_log_up_to_date=True, is_pre_vote=True)


@pytest.mark.parametrize("state", [UnattachedState, ProspectiveState])
def test_a_real_vote_is_persisted_and_given_once(state: type[EpochState]) -> None:
    quorum = in_state(state)
    quorum.state.add_vote(voter(2).key, 0)
    assert quorum.persisted[-1] == ElectionState(0, None, voter(2).key)
    assert type(quorum.state.state) is state
    with pytest.raises(InvariantViolated):
        quorum.state.add_vote(voter(3).key, 0)


def test_a_higher_epoch_forgets_the_vote() -> None:
    quorum = Quorum().begin(ElectionState(3, None, voter(2).key), 3)
    quorum.state.transition_to_unattached(4, 0)
    assert quorum.state.state.voted_key is None


def test_the_epoch_never_decreases() -> None:
    quorum = Quorum().begin(ElectionState(3), 3)
    for move in (
        lambda: quorum.state.transition_to_unattached(2, 0),
        lambda: quorum.state.transition_to_follower(2, 2, ENDPOINTS, 0),
    ):
        with pytest.raises(InvariantViolated, match="is behind"):
            move()


def test_an_epoch_has_one_leader() -> None:
    quorum = in_state(FollowerState)
    with pytest.raises(InvariantViolated, match="both lead"):
        quorum.state.transition_to_follower(1, 3, ENDPOINTS, 0)


def test_a_replica_does_not_follow_itself() -> None:
    with pytest.raises(InvariantViolated, match="can't follow itself"):
        Quorum().begin().state.transition_to_follower(1, 1, ENDPOINTS, 0)


def test_the_rest_of_the_election_timer_is_carried_into_the_next_epoch() -> None:
    quorum = Quorum().begin()
    deadline = quorum.state.state.deadline_ms
    assert deadline == CONFIG.election_timeout_ms + 300
    quorum.state.transition_to_unattached(5, 900)
    assert quorum.state.state.deadline_ms == deadline


def test_an_observer_has_no_election_timer_and_cannot_stand() -> None:
    quorum = Quorum(2, 3).begin()
    assert quorum.state.state.deadline_ms > 1 << 60
    with pytest.raises(InvariantViolated, match="observer"):
        quorum.state.transition_to_prospective(0)
