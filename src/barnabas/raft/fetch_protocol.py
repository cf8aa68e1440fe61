"""Fetch (1) on the leader: sends the log to followers and observers, and learns from them what they have.

A fetch at offset N acknowledges everything below N. A fetch without new records waits until some exist, the high
watermark exceeds the fetcher's, or its time is over.
"""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.fetch import (
    EpochEndOffset,
    FetchableTopicResponse,
    FetchPartition,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
    SnapshotId,
)
from barnabas.raft.epochs import NO_LEADER, check_cluster_id, check_leader_request
from barnabas.raft.inbound import RaftRequest
from barnabas.raft.log_state import OffsetCheck, OffsetVerdict
from barnabas.raft.ready import LogSlice
from barnabas.raft.replica import Replica
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.states.epoch_state import FOREVER_MS
from barnabas.raft.states.leader import LeaderState

__all__ = ["FetchProtocol"]

UNKNOWN = -1
ENDPOINTS_SINCE = 17
HIGH_WATERMARK_SINCE = 18


@dataclass(slots=True)
class _Waiting:
    request: RaftRequest
    body: FetchRequest
    partition: FetchPartition
    epoch: int
    deadline_ms: int
    high_watermark: int | None


class FetchProtocol:
    """Keeps the waiting fetches."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._waiting: list[_Waiting] = []

    @property
    def deadline_ms(self) -> int:
        return min((waiting.deadline_ms for waiting in self._waiting), default=FOREVER_MS)

    def handle_request(self, request: RaftRequest, now_ms: int) -> None:
        """Answer the fetch, or keep it waiting."""
        body = request.body
        if not isinstance(body, FetchRequest):
            raise TypeError(body)
        if not check_cluster_id(self._replica, body.cluster_id):
            self._respond_top_level(request, ErrorCode.INCONSISTENT_CLUSTER_ID)
            return
        partition = _only_partition(body)
        if partition is None:
            self._respond_top_level(request, ErrorCode.INVALID_REQUEST)
            return
        if _is_invalid(body, partition):
            self._respond(request, partition, ErrorCode.INVALID_REQUEST)
            return
        error = check_leader_request(self._replica, partition.current_leader_epoch)
        leader = self._replica.quorum.in_state(LeaderState)
        if error is not ErrorCode.NONE or leader is None:
            self._respond(request, partition, error)
            return
        check = self._replica.log.check(partition.fetch_offset, partition.last_fetched_epoch)
        if check.verdict is OffsetVerdict.VALID and self._acknowledge(leader, body, partition, now_ms):
            self._replica.leader_high_watermark_moved(leader)
        if self._must_answer_now(leader, body, partition, check, request.version):
            self._respond(request, partition, ErrorCode.NONE, check)
        else:
            self._waiting.append(
                _Waiting(request, body, partition, leader.epoch, now_ms + body.max_wait_ms, leader.high_watermark)
            )

    def answer_waiting(self, now_ms: int) -> None:
        """Answer the fetches that need not wait any longer."""
        if not self._waiting:
            return
        leader = self._replica.quorum.in_state(LeaderState)
        still_waiting: list[_Waiting] = []
        for waiting in self._waiting:
            if leader is None or leader.epoch != waiting.epoch:
                self._respond(waiting.request, waiting.partition, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            elif (
                now_ms >= waiting.deadline_ms
                or self._replica.log.end_offset > waiting.partition.fetch_offset
                or leader.high_watermark != waiting.high_watermark
            ):
                check = self._replica.log.check(waiting.partition.fetch_offset, waiting.partition.last_fetched_epoch)
                self._respond(waiting.request, waiting.partition, ErrorCode.NONE, check)
            else:
                still_waiting.append(waiting)
        self._waiting = still_waiting

    def _acknowledge(self, leader: LeaderState, body: FetchRequest, partition: FetchPartition, now_ms: int) -> bool:
        replica_id = _replica_id(body)
        if replica_id < 0 or replica_id == self._replica.config.node_id:
            return False
        key = ReplicaKey(replica_id, partition.replica_directory_id)
        return leader.update_replica(key, partition.fetch_offset, self._replica.log.end_offset, now_ms)

    def _must_answer_now(
        self, leader: LeaderState, body: FetchRequest, partition: FetchPartition, check: OffsetCheck, version: int
    ) -> bool:
        if check.verdict is not OffsetVerdict.VALID or body.max_wait_ms == 0:
            return True
        if self._replica.log.end_offset > partition.fetch_offset:
            return True
        # Without the tag the fetcher's high watermark is unknown, and only records end the wait.
        known = partition.high_watermark if version >= HIGH_WATERMARK_SINCE else None
        return known is not None and (leader.high_watermark or UNKNOWN) > known

    # --- answers

    def _respond_top_level(self, request: RaftRequest, error: ErrorCode) -> None:
        self._replica.outbox.respond(request.correlation_id, FetchResponse(error_code=error))

    def _respond(
        self, request: RaftRequest, partition: FetchPartition, error: ErrorCode, check: OffsetCheck | None = None
    ) -> None:
        replica = self._replica
        log, leader_id = replica.log, replica.quorum.leader_id
        leader = replica.quorum.in_state(LeaderState)
        high_watermark = leader.high_watermark if leader is not None and error is ErrorCode.NONE else None
        data = PartitionData(
            partition_index=partition.partition,
            error_code=error,
            high_watermark=UNKNOWN if high_watermark is None else high_watermark,
            log_start_offset=log.start_offset,
            current_leader=LeaderIdAndEpoch(
                leader_id=NO_LEADER if leader_id is None else leader_id, leader_epoch=replica.quorum.epoch
            ),
            aborted_transactions=[],
            records=b"",
        )
        fill: LogSlice | None = None
        if check is not None and check.verdict is OffsetVerdict.DIVERGING:
            data.diverging_epoch = EpochEndOffset(epoch=check.where.epoch, end_offset=check.where.offset)
        elif check is not None and check.verdict is OffsetVerdict.SNAPSHOT:
            data.snapshot_id = SnapshotId(end_offset=check.where.offset, epoch=check.where.epoch)
        elif check is not None and log.end_offset > partition.fetch_offset:
            fill = LogSlice(partition.fetch_offset, self._max_bytes(request))
        topic = FetchableTopicResponse(topic_id=Uuid.METADATA_TOPIC_ID, partitions=[data])
        body = FetchResponse(responses=[topic])
        endpoint = replica.leader_endpoint()
        if request.version >= ENDPOINTS_SINCE and leader_id is not None and endpoint is not None:
            body.node_endpoints = [NodeEndpoint(node_id=leader_id, host=endpoint.host, port=endpoint.port)]
        replica.outbox.respond(request.correlation_id, body, fill)

    def _max_bytes(self, request: RaftRequest) -> int:
        body = request.body
        limit = self._replica.config.fetch_max_bytes
        requested = body.max_bytes if isinstance(body, FetchRequest) else 0
        return min(requested, limit) if requested > 0 else limit


def _replica_id(body: FetchRequest) -> int:
    """Return the fetcher's id; since version 15 it is in a tagged struct."""
    state = body.replica_state
    return state.replica_id if state is not None and state.replica_id >= 0 else body.replica_id


def _only_partition(body: FetchRequest) -> FetchPartition | None:
    """Find the topic by its id: versions before 13, which name the topic, are always refused."""
    if len(body.topics) != 1 or len(body.topics[0].partitions) != 1:
        return None
    topic = body.topics[0]
    partition = topic.partitions[0]
    return partition if topic.topic_id == Uuid.METADATA_TOPIC_ID and partition.partition == 0 else None


def _is_invalid(body: FetchRequest, partition: FetchPartition) -> bool:
    return (
        body.max_wait_ms < 0
        or partition.fetch_offset < 0
        or partition.last_fetched_epoch < 0
        or partition.last_fetched_epoch > partition.current_leader_epoch
    )
