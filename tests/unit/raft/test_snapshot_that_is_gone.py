"""A follower directed to a snapshot that the leader has deleted meanwhile sends a new Fetch, and doesn't insist."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages import begin_quorum_epoch as begin
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
    SnapshotId,
)
from barnabas.protocol.messages.fetch_snapshot import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    FetchSnapshotResponsePartitionSnapshot,
    FetchSnapshotResponseTopicSnapshot,
)
from barnabas.protocol.messages.fetch_snapshot import LeaderIdAndEpoch as SnapshotLeader
from barnabas.raft.epochs import CLUSTER_METADATA_TOPIC
from barnabas.raft.inbound import RaftRequest, RaftResponse
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.ready import OutboundRequest, Ready
from tests.unit.raft.single_voter import CONFIG, dynamic_quorum, only_voter


def request_in(ready: Ready) -> OutboundRequest:
    (request,) = ready.requests
    return request


def sent_to_a_snapshot() -> tuple[RaftNode, OutboundRequest]:
    """Voter 1 follows 2 in epoch 1, which directed it to a snapshot."""
    node = only_voter(None, dynamic_quorum(1, 2, 3), replace(CONFIG))
    node.start(None, 0)
    partition = begin.BeginQuorumEpochRequestPartitionData(leader_id=2, leader_epoch=1)
    topic = begin.BeginQuorumEpochRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    ready = node.receive(RaftRequest(1, begin.BeginQuorumEpochRequest(topics=[topic]), 0), 1)
    fetch = request_in(ready)
    assert isinstance(fetch.body, FetchRequest)
    data = PartitionData(
        current_leader=LeaderIdAndEpoch(leader_id=2, leader_epoch=1), snapshot_id=SnapshotId(end_offset=4, epoch=1)
    )
    answer = FetchResponse(responses=[FetchableTopicResponse(partitions=[data])])
    wanted = request_in(node.receive(RaftResponse(fetch.correlation_id, 2, answer), 2))
    assert isinstance(wanted.body, FetchSnapshotRequest)
    return node, wanted


def refusal(error: ErrorCode) -> FetchSnapshotResponse:
    data = FetchSnapshotResponsePartitionSnapshot(
        error_code=error, current_leader=SnapshotLeader(leader_id=2, leader_epoch=1)
    )
    topic = FetchSnapshotResponseTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[data])
    return FetchSnapshotResponse(topics=[topic])


@pytest.mark.parametrize(
    "answer",
    [
        refusal(ErrorCode.SNAPSHOT_NOT_FOUND),
        refusal(ErrorCode.POSITION_OUT_OF_RANGE),
        FetchSnapshotResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
    ids=["not found", "shorter", "as Kafka says both"],
)
def test_the_next_request_is_a_fetch(answer: Any) -> None:
    node, wanted = sent_to_a_snapshot()
    ready = node.receive(RaftResponse(wanted.correlation_id, 2, answer), 3)
    if not ready.requests:
        ready = node.tick(3 + CONFIG.retry_backoff_ms)
    assert isinstance(request_in(ready).body, FetchRequest)
