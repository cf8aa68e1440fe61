"""Dispatches messages to their protocols; loaded when the first message is received or sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from barnabas.common.errors import invariant
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.messages.api_versions import ApiVersionsResponse
from barnabas.protocol.messages.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
from barnabas.protocol.messages.describe_quorum import DescribeQuorumRequest
from barnabas.protocol.messages.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
from barnabas.protocol.messages.fetch import FetchRequest, FetchResponse
from barnabas.protocol.messages.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from barnabas.protocol.messages.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
from barnabas.protocol.messages.vote import VoteRequest, VoteResponse
from barnabas.protocol.schema import Message
from barnabas.raft.describe_quorum import handle_describe_quorum_request
from barnabas.raft.epoch_protocol import (
    handle_begin_request,
    handle_begin_response,
    handle_end_request,
    handle_end_response,
)
from barnabas.raft.fetch_protocol import FetchProtocol
from barnabas.raft.inbound import Inbound, RaftRequest, RaftResponse, RequestFailed
from barnabas.raft.replica import Replica
from barnabas.raft.replication import handle_fetch_response, handle_fetch_snapshot_response
from barnabas.raft.snapshot_protocol import handle_fetch_snapshot_request
from barnabas.raft.states.candidate import CandidateState
from barnabas.raft.states.follower import FollowerState
from barnabas.raft.states.prospective import ProspectiveState
from barnabas.raft.vote_protocol import handle_vote_request, handle_vote_response
from barnabas.raft.voter_changes import VoterChanges
from barnabas.raft.voter_update import handle_join_response, handle_update_response

__all__ = ["Messages"]

TURN_MS = 100

_REQUESTS: Mapping[type[Message], Callable[[Replica, RaftRequest, int], None]] = {
    VoteRequest: handle_vote_request,
    BeginQuorumEpochRequest: handle_begin_request,
    EndQuorumEpochRequest: handle_end_request,
    FetchSnapshotRequest: handle_fetch_snapshot_request,
    DescribeQuorumRequest: handle_describe_quorum_request,
}
_RESPONSES: Mapping[type[Message], Callable[[Replica, RaftResponse, int], bool]] = {
    VoteResponse: handle_vote_response,
    BeginQuorumEpochResponse: handle_begin_response,
    EndQuorumEpochResponse: handle_end_response,
    FetchResponse: handle_fetch_response,
    FetchSnapshotResponse: handle_fetch_snapshot_response,
    UpdateRaftVoterResponse: handle_update_response,
    AddRaftVoterResponse: handle_join_response,
    RemoveRaftVoterResponse: handle_join_response,
}


class Messages:
    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._fetches = FetchProtocol(replica)
        self._changes = VoterChanges(replica)
        self._own_handlers: Mapping[type[Message], Callable[[RaftRequest, int], None]] = {
            FetchRequest: self._fetches.handle_request,
            AddRaftVoterRequest: self._changes.handle_add,
            RemoveRaftVoterRequest: self._changes.handle_remove,
            UpdateRaftVoterRequest: self._changes.handle_update,
        }

    @property
    def deadline_ms(self) -> int:
        return min(self._fetches.deadline_ms, self._changes.deadline_ms)

    def receive(self, message: Inbound, now_ms: int) -> None:
        if isinstance(message, RaftRequest):
            self._receive_request(message, now_ms)
        elif isinstance(message, RaftResponse):
            self._receive_response(message, now_ms)
        else:
            self._receive_failure(message, now_ms)

    def answer_waiting(self, now_ms: int) -> None:
        self._fetches.answer_waiting(now_ms)
        self._changes.answer_waiting(now_ms)
        self._changes.maybe_update_leader(now_ms)

    def _receive_request(self, request: RaftRequest, now_ms: int) -> None:
        own = self._own_handlers.get(type(request.body))
        if own is not None:
            own(request, now_ms)
            return
        handler = _REQUESTS.get(type(request.body))
        invariant(handler is not None, f"{type(request.body).__name__} is not a request of the quorum")
        if handler is not None:
            handler(self._replica, request, now_ms)

    def _receive_response(self, response: RaftResponse, now_ms: int) -> None:
        requests = self._replica.requests
        if not requests.is_expected(response.source_id, response.correlation_id):
            return
        self._note_leader_reached(response.source_id, is_reached=True)
        if isinstance(response.body, ApiVersionsResponse):
            self._changes.handle_versions(response, now_ms)
            requests.succeeded(response.source_id, response.correlation_id)
            return
        handler = _RESPONSES.get(type(response.body))
        invariant(handler is not None, f"{type(response.body).__name__} is not an answer of the quorum")
        if handler is not None and handler(self._replica, response, now_ms):
            requests.succeeded(response.source_id, response.correlation_id)
        else:
            requests.failed(response.source_id, response.correlation_id, now_ms)
        self._maybe_stand_again(now_ms)

    def _receive_failure(self, failure: RequestFailed, now_ms: int) -> None:
        requests = self._replica.requests
        if not requests.is_expected(failure.source_id, failure.correlation_id):
            return
        requests.failed(failure.source_id, failure.correlation_id, now_ms, is_lost=True)
        self._note_leader_reached(failure.source_id, is_reached=failure.is_unsupported_version)
        self._changes.versions_unknown(failure.source_id)
        recovery = self._replica.quorum.recovery
        if failure.is_unsupported_version and recovery is not None:
            recovery.without_pre_votes.add(failure.source_id)
            recovery.next_question_ms = now_ms + self._replica.config.retry_backoff_ms
        if failure.is_unsupported_version and isinstance(self._replica.quorum.state, ProspectiveState):
            # A voter that is too old for pre-votes: only a real election can win its vote.
            self._replica.quorum.transition_to_candidate(now_ms)
            self._replica.state_changed()
        follower = self._replica.quorum.in_state(FollowerState)
        if failure.is_unsupported_version and follower is not None and follower.leader_id == failure.source_id:
            follower.has_described_itself = True  # A leader that does not know UpdateRaftVoter needs no description.
        if failure.is_refused and follower is not None and follower.leader_id == failure.source_id:
            follower.leader_is_gone(now_ms + self._turn_ms(follower.leader_id))
        candidate = self._replica.quorum.in_state(CandidateState)
        if failure.is_refused and candidate is not None:
            candidate.votes.connection_refused(failure.source_id)
            self._maybe_stand_again(now_ms)

    def _note_leader_reached(self, replica_id: int, *, is_reached: bool) -> None:
        follower = self._replica.quorum.in_state(FollowerState)
        if follower is not None and follower.leader_id == replica_id:
            follower.is_leader_unreachable = not is_reached

    def _maybe_stand_again(self, now_ms: int) -> None:
        """Kafka's candidates wait for the end of their election time-out, also when two have split the votes."""
        candidate = self._replica.quorum.in_state(CandidateState)
        if candidate is not None and candidate.votes.is_lost:
            candidate.stand_again(now_ms + self._turn_ms(None))

    def _turn_ms(self, leader_id: int | None) -> int:
        """Return when to become a candidate after a leader stopped: one voter after the other, to avoid split votes.

        Kafka's voters wait for their fetch timeout; the pre-vote protects a leader that they still reach.
        """
        config, voters = self._replica.config, self._replica.quorum.voters
        others = sorted(voter_id for voter_id in voters.ids if voter_id != leader_id)
        place = others.index(config.node_id) if config.node_id in others else len(others)
        return (place + 1) * TURN_MS
