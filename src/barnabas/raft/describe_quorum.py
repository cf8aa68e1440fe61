"""DescribeQuorum (55): the leader, the voters, the observers and their progress. Only the leader answers."""

from __future__ import annotations

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    DescribeQuorumResponsePartitionData,
    DescribeQuorumResponseTopicData,
    Listener,
    Node,
    ReplicaState,
)
from barnabas.raft.epochs import CLUSTER_METADATA_TOPIC, NO_LEADER, only_partition
from barnabas.raft.inbound import RaftRequest
from barnabas.raft.replica import Replica
from barnabas.raft.states.leader import LeaderState, ReplicaProgress

__all__ = ["describe_quorum", "handle_describe_quorum_request"]

UNKNOWN = -1
NODES_SINCE = 2


def handle_describe_quorum_request(replica: Replica, request: RaftRequest, now_ms: int) -> None:
    body = request.body
    if not isinstance(body, DescribeQuorumRequest):
        raise TypeError(body)
    replica.outbox.respond(request.correlation_id, describe_quorum(replica, body, request.version, now_ms))


def describe_quorum(replica: Replica, body: DescribeQuorumRequest, version: int, now_ms: int) -> DescribeQuorumResponse:
    if only_partition(body.topics) is None:
        return _unknown_partitions(body)
    leader = replica.quorum.in_state(LeaderState)
    leader_id = replica.quorum.leader_id
    data = DescribeQuorumResponsePartitionData(
        partition_index=0,
        leader_id=NO_LEADER if leader_id is None else leader_id,
        leader_epoch=replica.quorum.epoch,
        high_watermark=UNKNOWN,
    )
    response = DescribeQuorumResponse(
        topics=[DescribeQuorumResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[data])]
    )
    if leader is None:
        data.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return response
    leader.forget_old_observers(now_ms)
    data.high_watermark = UNKNOWN if leader.high_watermark is None else leader.high_watermark
    own_id = replica.config.node_id
    data.current_voters = [
        _state(seen, version, now_ms if seen.key.id == own_id else None) for seen in leader.progress.values()
    ]
    data.observers = [_state(seen, version, None) for seen in leader.observers.values()]
    if version >= NODES_SINCE:
        response.nodes = [
            Node(
                node_id=voter.key.id,
                listeners=[
                    Listener(name=name, host=endpoint.host, port=endpoint.port)
                    for name, endpoint in voter.listeners.items()
                ],
            )
            for voter in leader.voters
        ]
    return response


def _state(seen: ReplicaProgress, version: int, now_ms: int | None) -> ReplicaState:
    """The leader itself counts as having fetched, and caught up, now."""
    state = ReplicaState(
        replica_id=seen.key.id,
        log_end_offset=UNKNOWN if seen.end_offset is None else seen.end_offset,
        last_fetch_timestamp=seen.last_fetch_ms if now_ms is None else now_ms,
        last_caught_up_timestamp=seen.last_caught_up_ms if now_ms is None else now_ms,
    )
    if version >= NODES_SINCE:
        state.replica_directory_id = seen.key.directory_id
    return state


def _unknown_partitions(body: DescribeQuorumRequest) -> DescribeQuorumResponse:
    return DescribeQuorumResponse(
        topics=[
            DescribeQuorumResponseTopicData(
                topic_name=topic.topic_name,
                partitions=[
                    DescribeQuorumResponsePartitionData(
                        partition_index=partition.partition_index,
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
                        error_message="This server does not host this topic-partition.",
                    )
                    for partition in topic.partitions
                ],
            )
            for topic in body.topics
        ]
    )
