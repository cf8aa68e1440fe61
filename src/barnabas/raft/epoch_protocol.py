"""BeginQuorumEpoch (53) and EndQuorumEpoch (54): a leader notifies the voters that its epoch has begun or ended."""

from __future__ import annotations

from collections.abc import Sequence

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages import begin_quorum_epoch as begin
from barnabas.protocol.messages import end_quorum_epoch as end
from barnabas.raft.epochs import (
    CLUSTER_METADATA_TOPIC,
    NO_LEADER,
    CommonOutcome,
    check_cluster_id,
    check_voter_request,
    handle_answer,
    is_meant_for,
    listeners_of,
    maybe_transition,
    only_partition,
)
from barnabas.raft.inbound import RaftRequest, RaftResponse
from barnabas.raft.replica import Replica
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.states.follower import FollowerState
from barnabas.raft.states.leader import LeaderState
from barnabas.raft.states.resigned import ResignedState

__all__ = [
    "election_backoff_ms",
    "handle_begin_request",
    "handle_begin_response",
    "handle_end_request",
    "handle_end_response",
    "send_begin_requests",
    "send_end_requests",
]


def election_backoff_ms(me: ReplicaKey, preferred: Sequence[ReplicaKey], backoff_max_ms: int) -> int:
    """The time to wait before standing for election: the replica with the longest log stands first."""
    position = next((index for index, key in enumerate(preferred) if key.matches(me)), None)
    if position == 0:
        return 0
    if position is None:
        return backoff_max_ms
    return min(backoff_max_ms, (backoff_max_ms >> (len(preferred) - 1)) << (position - 1))


# --- BeginQuorumEpoch


def send_begin_requests(replica: Replica, leader: LeaderState, now_ms: int) -> None:
    """Notify the voters that have not fetched lately."""
    listener = replica.config.listener_name
    for voter_id in leader.voters_to_begin(now_ms):
        voter = replica.quorum.voters.get(voter_id)
        endpoint = replica.quorum.voters.endpoint(voter_id, listener)
        if voter is not None and endpoint is not None and replica.requests.is_ready(voter_id, now_ms):
            replica.send(voter_id, endpoint, _begin_request(replica, voter.key), now_ms)
    leader.begin_quorum_sent(now_ms)


def handle_begin_request(replica: Replica, request: RaftRequest, now_ms: int) -> None:
    body = request.body
    if not isinstance(body, begin.BeginQuorumEpochRequest):
        raise TypeError(body)
    partition = only_partition(body.topics)
    if not check_cluster_id(replica, body.cluster_id):
        replica.outbox.respond(
            request.correlation_id, begin.BeginQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        )
        return
    if not isinstance(partition, begin.BeginQuorumEpochRequestPartitionData):
        replica.outbox.respond(
            request.correlation_id, begin.BeginQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST)
        )
        return
    error = check_voter_request(replica, partition.leader_id, partition.leader_epoch)
    if error is ErrorCode.NONE:
        maybe_transition(
            replica, partition.leader_id, partition.leader_epoch, listeners_of(body.leader_endpoints), now_ms
        )
        if not is_meant_for(replica, body.voter_id, partition.voter_directory_id):
            error = ErrorCode.INVALID_VOTER_KEY
    _respond_begin(replica, request, error)


def handle_begin_response(replica: Replica, response: RaftResponse, now_ms: int) -> bool:
    body = response.body
    if not isinstance(body, begin.BeginQuorumEpochResponse):
        raise TypeError(body)
    partition = only_partition(body.topics)
    if body.error_code or not isinstance(partition, begin.BeginQuorumEpochResponsePartitionData):
        return False
    outcome = handle_answer(replica, partition, body.node_endpoints, now_ms)
    return outcome is not CommonOutcome.RETRY


def _begin_request(replica: Replica, voter: ReplicaKey) -> begin.BeginQuorumEpochRequest:
    return begin.BeginQuorumEpochRequest(
        cluster_id=replica.config.cluster_id,
        voter_id=voter.id,
        topics=[
            begin.BeginQuorumEpochRequestTopicData(
                topic_name=CLUSTER_METADATA_TOPIC,
                partitions=[
                    begin.BeginQuorumEpochRequestPartitionData(
                        partition_index=0,
                        voter_directory_id=voter.directory_id,
                        leader_id=replica.config.node_id,
                        leader_epoch=replica.quorum.epoch,
                    )
                ],
            )
        ],
        leader_endpoints=[
            begin.LeaderEndpoint(name=name, host=endpoint.host, port=endpoint.port)
            for name, endpoint in replica.config.listeners.items()
        ],
    )


def _respond_begin(replica: Replica, request: RaftRequest, error: ErrorCode) -> None:
    leader_id, endpoint = replica.quorum.leader_id, replica.leader_endpoint()
    body = begin.BeginQuorumEpochResponse(
        topics=[
            begin.BeginQuorumEpochResponseTopicData(
                topic_name=CLUSTER_METADATA_TOPIC,
                partitions=[
                    begin.BeginQuorumEpochResponsePartitionData(
                        partition_index=0,
                        error_code=error,
                        leader_id=NO_LEADER if leader_id is None else leader_id,
                        leader_epoch=replica.quorum.epoch,
                    )
                ],
            )
        ]
    )
    if request.version >= 1 and leader_id is not None and endpoint is not None:
        body.node_endpoints = [begin.NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port)]
    replica.outbox.respond(request.correlation_id, body)


# --- EndQuorumEpoch


def send_end_requests(replica: Replica, state: ResignedState, now_ms: int) -> None:
    """Notify every voter that has not acknowledged it, so that none waits for its fetch timeout."""
    listener = replica.config.listener_name
    for voter_id in sorted(state.unacked_voters):
        endpoint = replica.quorum.voters.endpoint(voter_id, listener)
        if endpoint is not None and replica.requests.is_ready(voter_id, now_ms):
            replica.send(voter_id, endpoint, _end_request(replica, state), now_ms)


def handle_end_request(replica: Replica, request: RaftRequest, now_ms: int) -> None:
    body = request.body
    if not isinstance(body, end.EndQuorumEpochRequest):
        raise TypeError(body)
    partition = only_partition(body.topics)
    if not check_cluster_id(replica, body.cluster_id):
        replica.outbox.respond(
            request.correlation_id, end.EndQuorumEpochResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        )
        return
    if not isinstance(partition, end.EndQuorumEpochRequestPartitionData):
        replica.outbox.respond(request.correlation_id, end.EndQuorumEpochResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    error = check_voter_request(replica, partition.leader_id, partition.leader_epoch)
    if error is ErrorCode.NONE:
        maybe_transition(
            replica, partition.leader_id, partition.leader_epoch, listeners_of(body.leader_endpoints), now_ms
        )
        follower = replica.quorum.in_state(FollowerState)
        if follower is not None and follower.leader_id == partition.leader_id:
            backoff = election_backoff_ms(
                replica.config.key, _preferred(partition), replica.config.election_backoff_max_ms
            )
            follower.fetch_deadline_ms = now_ms + backoff
    _respond_end(replica, request, error)


def handle_end_response(replica: Replica, response: RaftResponse, now_ms: int) -> bool:
    body = response.body
    if not isinstance(body, end.EndQuorumEpochResponse):
        raise TypeError(body)
    partition = only_partition(body.topics)
    if body.error_code or not isinstance(partition, end.EndQuorumEpochResponsePartitionData):
        return False
    outcome = handle_answer(replica, partition, body.node_endpoints, now_ms)
    resigned = replica.quorum.in_state(ResignedState)
    if outcome is CommonOutcome.GO_ON and resigned is not None:
        resigned.acknowledge(response.source_id)
    return outcome is not CommonOutcome.RETRY


def _preferred(partition: end.EndQuorumEpochRequestPartitionData) -> list[ReplicaKey]:
    if partition.preferred_candidates:
        return [ReplicaKey(item.candidate_id, item.candidate_directory_id) for item in partition.preferred_candidates]
    return [ReplicaKey(node_id) for node_id in partition.preferred_successors]


def _end_request(replica: Replica, state: ResignedState) -> end.EndQuorumEpochRequest:
    preferred = state.preferred_successors
    return end.EndQuorumEpochRequest(
        cluster_id=replica.config.cluster_id,
        topics=[
            end.EndQuorumEpochRequestTopicData(
                topic_name=CLUSTER_METADATA_TOPIC,
                partitions=[
                    end.EndQuorumEpochRequestPartitionData(
                        partition_index=0,
                        leader_id=replica.config.node_id,
                        leader_epoch=replica.quorum.epoch,
                        preferred_successors=[key.id for key in preferred],
                        preferred_candidates=[
                            end.ReplicaInfo(candidate_id=key.id, candidate_directory_id=key.directory_id)
                            for key in preferred
                        ],
                    )
                ],
            )
        ],
    )


def _respond_end(replica: Replica, request: RaftRequest, error: ErrorCode) -> None:
    leader_id, endpoint = replica.quorum.leader_id, replica.leader_endpoint()
    body = end.EndQuorumEpochResponse(
        topics=[
            end.EndQuorumEpochResponseTopicData(
                topic_name=CLUSTER_METADATA_TOPIC,
                partitions=[
                    end.EndQuorumEpochResponsePartitionData(
                        partition_index=0,
                        error_code=error,
                        leader_id=NO_LEADER if leader_id is None else leader_id,
                        leader_epoch=replica.quorum.epoch,
                    )
                ],
            )
        ]
    )
    if request.version >= 1 and leader_id is not None and endpoint is not None:
        body.node_endpoints = [end.NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port)]
    replica.outbox.respond(request.correlation_id, body)
