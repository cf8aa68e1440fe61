"""FetchSnapshot (59) on the leader: sends the bytes of a snapshot file, a chunk at a time."""

from __future__ import annotations

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotRequestPartitionSnapshot,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
    LeaderIdAndEpoch,
    NodeEndpoint,
    SnapshotId,
)
from barnabas.raft.epochs import CLUSTER_METADATA_TOPIC, NO_LEADER, check_cluster_id, check_leader_request
from barnabas.raft.inbound import RaftRequest
from barnabas.raft.log_state import BOOTSTRAP_SNAPSHOT_ID
from barnabas.raft.ready import SnapshotChunk
from barnabas.raft.replica import Replica
from barnabas.raft.replica_key import OffsetAndEpoch, ReplicaKey
from barnabas.raft.states.leader import LeaderState

__all__ = ["handle_fetch_snapshot_request"]


def handle_fetch_snapshot_request(replica: Replica, request: RaftRequest, now_ms: int) -> None:
    body = request.body
    if not isinstance(body, FetchSnapshotRequest):
        raise TypeError(body)
    if not check_cluster_id(replica, body.cluster_id):
        error = FetchSnapshotResponse(error_code=ErrorCode.INCONSISTENT_CLUSTER_ID)
        replica.outbox.respond(request.correlation_id, error)
        return
    if len(body.topics) != 1 or len(body.topics[0].partitions) != 1:
        replica.outbox.respond(request.correlation_id, FetchSnapshotResponse(error_code=ErrorCode.INVALID_REQUEST))
        return
    topic = body.topics[0]
    partition = topic.partitions[0]
    answer = FetchSnapshotResponsePartitionSnapshot(
        index=partition.partition,
        snapshot_id=SnapshotId(end_offset=partition.snapshot_id.end_offset, epoch=partition.snapshot_id.epoch),
        unaligned_records=b"",
    )
    fill: SnapshotChunk | None = None
    if topic.name != CLUSTER_METADATA_TOPIC or partition.partition != 0:
        answer.error_code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    else:
        fill = _chunk(replica, body, partition, answer, now_ms)
    response = FetchSnapshotResponse(topics=[FetchSnapshotResponseTopicSnapshot(name=topic.name, partitions=[answer])])
    leader_id, endpoint = replica.quorum.leader_id, replica.leader_endpoint()
    if request.version >= 1 and leader_id is not None and endpoint is not None:
        response.node_endpoints = [NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port)]
    replica.outbox.respond(request.correlation_id, response, fill)


def _chunk(
    replica: Replica,
    body: FetchSnapshotRequest,
    partition: FetchSnapshotRequestPartitionSnapshot,
    answer: FetchSnapshotResponsePartitionSnapshot,
    now_ms: int,
) -> SnapshotChunk | None:
    leader_id = replica.quorum.leader_id
    answer.current_leader = LeaderIdAndEpoch(
        leader_id=NO_LEADER if leader_id is None else leader_id, leader_epoch=replica.quorum.epoch
    )
    error = check_leader_request(replica, partition.current_leader_epoch)
    snapshot_id = OffsetAndEpoch(partition.snapshot_id.end_offset, partition.snapshot_id.epoch)
    size = replica.log.snapshots.get(snapshot_id)
    if error is not ErrorCode.NONE:
        answer.error_code = error
        return None
    if size is None or snapshot_id == BOOTSTRAP_SNAPSHOT_ID:
        answer.error_code = ErrorCode.SNAPSHOT_NOT_FOUND
        return None
    if not 0 <= partition.position < size:
        answer.error_code = ErrorCode.POSITION_OUT_OF_RANGE
        return None
    leader = replica.quorum.in_state(LeaderState)
    if leader is not None:
        leader.note_snapshot_fetch(ReplicaKey(body.replica_id, partition.replica_directory_id), now_ms)
    answer.size, answer.position = size, partition.position
    max_bytes = min(body.max_bytes, replica.config.fetch_snapshot_max_bytes)
    return SnapshotChunk(snapshot_id, partition.position, max(max_bytes, 0))
