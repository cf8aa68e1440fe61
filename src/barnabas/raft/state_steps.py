"""The steps of each state when time passes or the log changes: all moves without a message.

The modules that communicate with other replicas are imported on first use: a replica that is the only voter never
needs them, and starts faster without them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from barnabas.raft.replica import Replica
from barnabas.raft.states.candidate import CandidateState
from barnabas.raft.states.epoch_state import EpochState
from barnabas.raft.states.follower import FollowerState
from barnabas.raft.states.leader import LeaderState
from barnabas.raft.states.prospective import ProspectiveState
from barnabas.raft.states.resigned import ResignedState
from barnabas.raft.states.unattached import UnattachedState

__all__ = ["step"]


def step(replica: Replica, now_ms: int) -> bool:
    """Make one move; False when the state stays, and has sent what it has to send."""
    state = replica.quorum.state
    return _STEPS[type(state)](replica, state, now_ms)


def _step_leader(replica: Replica, leader: LeaderState, now_ms: int) -> bool:
    if now_ms >= leader.check_quorum_deadline_ms:
        replica.resign(now_ms)
        return True
    if replica.was_removed(leader):
        replica.resign(now_ms)
        return True
    replica.drain(leader, now_ms)
    if now_ms >= leader.begin_quorum_deadline_ms and not leader.voters.is_only_voter(replica.config.key):
        from barnabas.raft.epoch_protocol import send_begin_requests

        send_begin_requests(replica, leader, now_ms)
    return False


def _step_follower(replica: Replica, follower: FollowerState, now_ms: int) -> bool:
    from barnabas.raft.replication import send_fetch, send_fetch_to_bootstrap_server

    if follower.snapshot_is_complete:
        return False
    if now_ms >= follower.fetch_deadline_ms:
        if replica.quorum.may_stand:
            replica.quorum.transition_to_prospective(now_ms)
            replica.state_changed()
            return True
        if now_ms < follower.fetch_deadline_ms + replica.config.fetch_timeout_ms:
            send_fetch_to_bootstrap_server(replica, now_ms)
        else:
            # No bootstrap server knows another leader. Contact this one again: it need not be one of them.
            follower.fetch_deadline_ms = now_ms + replica.config.fetch_timeout_ms
    send_fetch(replica, follower, now_ms)
    _ask_for_epochs(replica, now_ms)
    return False


def _step_unattached(replica: Replica, state: UnattachedState, now_ms: int) -> bool:
    if replica.quorum.may_stand and now_ms >= state.deadline_ms:
        replica.quorum.transition_to_prospective(now_ms)
        replica.state_changed()
        return True
    if replica.config.bootstrap_servers and not replica.quorum.is_only_voter:
        from barnabas.raft.replication import send_fetch_to_bootstrap_server

        send_fetch_to_bootstrap_server(replica, now_ms)
    _ask_for_epochs(replica, now_ms)
    return False


def _ask_for_epochs(replica: Replica, now_ms: int) -> None:
    """Let a voter that forgot its votes learn the epoch of each other voter."""
    recovery = replica.quorum.recovery
    if recovery is None or now_ms < recovery.next_question_ms:
        return
    unanswered = recovery.unanswered(replica.other_voters)
    if unanswered:
        from barnabas.raft.vote_protocol import send_epoch_questions

        recovery.next_question_ms = now_ms + replica.config.request_timeout_ms
        send_epoch_questions(replica, unanswered, now_ms)


def _step_prospective(replica: Replica, state: ProspectiveState, now_ms: int) -> bool:
    if state.votes.is_granted:
        replica.quorum.transition_to_candidate(now_ms)
    elif state.votes.is_rejected or now_ms >= state.deadline_ms:
        _give_up_pre_votes(replica, state, now_ms)
    else:
        from barnabas.raft.vote_protocol import send_vote_requests

        send_vote_requests(replica, state, now_ms)
        return False
    replica.state_changed()
    return True


def _give_up_pre_votes(replica: Replica, state: ProspectiveState, now_ms: int) -> None:
    """Return to the leader if its address is known: it may still be alive."""
    leader = replica.quorum.voters.get(state.leader_id) if state.leader_id is not None else None
    if leader is not None and leader.key.id != replica.config.node_id:
        replica.quorum.transition_to_follower(state.epoch, leader.key.id, leader.listeners, now_ms)
    else:
        replica.quorum.transition_to_unattached(state.epoch, now_ms)


def _step_candidate(replica: Replica, state: CandidateState, now_ms: int) -> bool:
    if state.votes.is_granted:
        replica.become_leader(now_ms)
    elif now_ms >= state.deadline_ms:
        replica.quorum.transition_to_prospective(now_ms)
    else:
        from barnabas.raft.vote_protocol import send_vote_requests

        send_vote_requests(replica, state, now_ms)
        return False
    replica.state_changed()
    return True


def _step_resigned(replica: Replica, state: ResignedState, now_ms: int) -> bool:
    if now_ms >= state.deadline_ms:
        replica.quorum.transition_to_unattached(state.epoch + 1, now_ms)
        replica.state_changed()
        return True
    if state.unacked_voters:
        from barnabas.raft.epoch_protocol import send_end_requests

        send_end_requests(replica, state, now_ms)
    return False


_STEPS: Mapping[type[EpochState], Callable[[Replica, Any, int], bool]] = {
    LeaderState: _step_leader,
    FollowerState: _step_follower,
    CandidateState: _step_candidate,
    ProspectiveState: _step_prospective,
    ResignedState: _step_resigned,
    UnattachedState: _step_unattached,
}
