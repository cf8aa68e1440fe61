"""Vote (52): requests votes as Prospective or Candidate, and grants them.

A pre-vote only asks whether the voter would grant its vote, and changes no state. A real vote is durable before its
response is sent: the Ready that holds both ensures that.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.vote import (
    NodeEndpoint,
    VoteRequest,
    VoteRequestPartitionData,
    VoteRequestTopicData,
    VoteResponse,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)
from barnabas.raft.epochs import (
    CLUSTER_METADATA_TOPIC,
    NO_LEADER,
    CommonOutcome,
    check_cluster_id,
    check_voter_request,
    handle_answer,
    is_meant_for,
    only_partition,
)
from barnabas.raft.inbound import RaftRequest, RaftResponse
from barnabas.raft.replica import Replica
from barnabas.raft.replica_key import OffsetAndEpoch, ReplicaKey
from barnabas.raft.states.candidate import CandidateState
from barnabas.raft.states.follower import FollowerState
from barnabas.raft.states.prospective import ProspectiveState

__all__ = ["handle_vote_request", "handle_vote_response", "send_epoch_questions", "send_vote_requests"]

FIRST_EPOCH = 1


def handle_vote_request(replica: Replica, request: RaftRequest, now_ms: int) -> None:
    body = request.body
    if not isinstance(body, VoteRequest):
        raise TypeError(body)
    partition = only_partition(body.topics)
    if not check_cluster_id(replica, body.cluster_id):
        _respond_top_level(replica, request, ErrorCode.INCONSISTENT_CLUSTER_ID)
    elif not isinstance(partition, VoteRequestPartitionData):
        _respond_top_level(replica, request, ErrorCode.INVALID_REQUEST)
    else:
        error, granted = _decide(replica, body.voter_id, partition, now_ms)
        _respond(replica, request, error, granted=granted)


def send_vote_requests(replica: Replica, state: ProspectiveState | CandidateState, now_ms: int) -> None:
    """Request the votes of all voters that have not answered, as soon as each can be contacted."""
    if state.votes.is_rejected:
        return
    for voter_id in state.votes.unanswered:
        voter = replica.quorum.voters.get(voter_id)
        endpoint = replica.quorum.voters.endpoint(voter_id, replica.config.listener_name)
        if voter is None or endpoint is None or not replica.requests.is_ready(voter_id, now_ms):
            continue
        request = _request(replica, voter.key, is_pre_vote=isinstance(state, ProspectiveState))
        replica.send(voter_id, endpoint, request, now_ms)


def send_epoch_questions(replica: Replica, voter_ids: Iterable[int], now_ms: int) -> None:
    """Votes whose answers count only for the epoch in them: no voter is bound by a pre-vote, or by an old epoch."""
    recovery = replica.quorum.recovery
    for voter_id in voter_ids:
        voter = replica.quorum.voters.get(voter_id)
        endpoint = replica.quorum.voters.endpoint(voter_id, replica.config.listener_name)
        if voter is not None and endpoint is not None and replica.requests.is_ready(voter_id, now_ms):
            request = _request(replica, voter.key, is_pre_vote=True)
            if recovery is not None and voter_id in recovery.without_pre_votes:
                if replica.quorum.epoch <= FIRST_EPOCH and replica.quorum.in_state(FollowerState) is None:
                    continue  # The vote could elect another leader. Once this epoch has one, it elects no other.
                partition = request.topics[0].partitions[0]
                partition.pre_vote = False
                partition.replica_epoch, partition.last_offset_epoch, partition.last_offset = FIRST_EPOCH, 0, 0
            replica.send(voter_id, endpoint, request, now_ms)


def handle_vote_response(replica: Replica, response: RaftResponse, now_ms: int) -> bool:
    """Return whether the sender may be contacted again immediately; False adds a short wait."""
    body = response.body
    if not isinstance(body, VoteResponse):
        raise TypeError(body)
    partition = only_partition(body.topics)
    if body.error_code or not isinstance(partition, VoteResponsePartitionData):
        return False
    outcome = handle_answer(replica, partition, body.node_endpoints, now_ms)
    recovery = replica.quorum.recovery
    if recovery is not None and replica.quorum.epoch >= partition.leader_epoch >= 0:
        recovery.answered(response.source_id)
        replica.maybe_end_recovery()
    if outcome is not CommonOutcome.GO_ON:
        return outcome is CommonOutcome.HANDLED
    state = replica.quorum.state
    if isinstance(state, ProspectiveState | CandidateState):
        state.votes.record(response.source_id, granted=partition.vote_granted)
    return True


def _decide(
    replica: Replica, voter_id: int, partition: VoteRequestPartitionData, now_ms: int
) -> tuple[ErrorCode, bool]:
    epoch, is_pre_vote = partition.replica_epoch, partition.pre_vote
    last_epoch = partition.last_offset_epoch
    if partition.last_offset < 0 or last_epoch < 0 or last_epoch > epoch or (last_epoch == epoch and not is_pre_vote):
        return ErrorCode.INVALID_REQUEST, False
    error = check_voter_request(replica, partition.replica_id, epoch)
    if error is not ErrorCode.NONE:
        return error, False
    quorum = replica.quorum
    if epoch > quorum.epoch:
        quorum.transition_to_unattached(epoch, now_ms)
        replica.state_changed()
    if not is_meant_for(replica, voter_id, partition.voter_directory_id):
        return ErrorCode.INVALID_VOTER_KEY, False
    candidate = ReplicaKey(partition.replica_id, partition.replica_directory_id)
    mine = replica.log.end_offset_and_epoch
    theirs = OffsetAndEpoch(partition.last_offset, last_epoch)
    granted = quorum.recovery is None and quorum.state.can_grant_vote(
        candidate,
        is_log_up_to_date=(theirs.epoch, theirs.offset) >= (mine.epoch, mine.offset),
        is_pre_vote=is_pre_vote,
    )
    if granted and not is_pre_vote and quorum.state.voted_key is None:
        quorum.add_vote(candidate, now_ms)
    return ErrorCode.NONE, granted


def _request(replica: Replica, voter: ReplicaKey, *, is_pre_vote: bool) -> VoteRequest:
    end = replica.log.end_offset_and_epoch
    config = replica.config
    return VoteRequest(
        cluster_id=config.cluster_id,
        voter_id=voter.id,
        topics=[
            VoteRequestTopicData(
                topic_name=CLUSTER_METADATA_TOPIC,
                partitions=[
                    VoteRequestPartitionData(
                        partition_index=0,
                        replica_epoch=replica.quorum.epoch,
                        replica_id=config.node_id,
                        replica_directory_id=config.directory_id,
                        voter_directory_id=voter.directory_id,
                        last_offset_epoch=end.epoch,
                        last_offset=end.offset,
                        pre_vote=is_pre_vote,
                    )
                ],
            )
        ],
    )


def _respond_top_level(replica: Replica, request: RaftRequest, error: ErrorCode) -> None:
    replica.outbox.respond(request.correlation_id, VoteResponse(error_code=error))


def _respond(replica: Replica, request: RaftRequest, error: ErrorCode, *, granted: bool) -> None:
    leader_id, endpoint = replica.quorum.leader_id, replica.leader_endpoint()
    shows_endpoint = request.version >= 1 and leader_id is not None and endpoint is not None
    body = VoteResponse(
        topics=[
            VoteResponseTopicData(
                topic_name=CLUSTER_METADATA_TOPIC,
                partitions=[
                    VoteResponsePartitionData(
                        partition_index=0,
                        error_code=error,
                        leader_id=NO_LEADER if leader_id is None else leader_id,
                        leader_epoch=replica.quorum.epoch,
                        vote_granted=granted,
                    )
                ],
            )
        ],
    )
    if shows_endpoint and leader_id is not None and endpoint is not None:
        body.node_endpoints = [NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port)]
    replica.outbox.respond(request.correlation_id, body)
