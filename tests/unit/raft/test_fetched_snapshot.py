"""How a follower handles a fetched snapshot when leaders change during the fetch."""

from __future__ import annotations

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
from barnabas.protocol.messages.fetch_snapshot import SnapshotId as ChunkSnapshotId
from barnabas.raft.control_records import build_control_batch, leader_change
from barnabas.raft.epochs import CLUSTER_METADATA_TOPIC
from barnabas.raft.inbound import FetchedSnapshot, RaftRequest, RaftResponse
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.ready import OutboundRequest, Ready
from barnabas.raft.replica_key import OffsetAndEpoch
from tests.unit.raft.single_voter import dynamic_quorum, only_voter, voter

SNAPSHOT = OffsetAndEpoch(4, 1)


def request_in(ready: Ready) -> OutboundRequest:
    (request,) = ready.requests
    return request


def begins_epoch(node: RaftNode, leader_id: int, epoch: int, now_ms: int) -> OutboundRequest:
    """The node learns of a leader, and sends it a Fetch."""
    partition = begin.BeginQuorumEpochRequestPartitionData(leader_id=leader_id, leader_epoch=epoch)
    topic = begin.BeginQuorumEpochRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return request_in(node.receive(RaftRequest(epoch, begin.BeginQuorumEpochRequest(topics=[topic]), 0), now_ms))


def fetched(
    request: OutboundRequest,
    *,
    leader_id: int,
    epoch: int,
    snapshot_id: SnapshotId | None = None,
    records: bytes = b"",
    high_watermark: int = -1,
) -> RaftResponse:
    assert isinstance(request.body, FetchRequest)
    data = PartitionData(
        current_leader=LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
        high_watermark=high_watermark,
        records=records,
    )
    if snapshot_id is not None:
        data.snapshot_id = snapshot_id
    answer = FetchResponse(responses=[FetchableTopicResponse(partitions=[data])])
    return RaftResponse(request.correlation_id, leader_id, answer)


def fetches_all_of_a_snapshot(*, high_watermark: int = -1) -> RaftNode:
    """Voter 1 follows 2 in epoch 1 and has received the only chunk of its snapshot, which a thread is freezing."""
    node = only_voter(None, dynamic_quorum(1, 2, 3))
    node.start(None, 0)
    fetch = begins_epoch(node, 2, 1, 1)
    sent_to = SnapshotId(end_offset=SNAPSHOT.offset, epoch=SNAPSHOT.epoch)
    answer = fetched(fetch, leader_id=2, epoch=1, snapshot_id=sent_to, high_watermark=high_watermark)
    wanted = request_in(node.receive(answer, 2))
    assert isinstance(wanted.body, FetchSnapshotRequest)
    data = FetchSnapshotResponsePartitionSnapshot(
        current_leader=SnapshotLeader(leader_id=2, leader_epoch=1),
        snapshot_id=ChunkSnapshotId(end_offset=SNAPSHOT.offset, epoch=SNAPSHOT.epoch),
        size=3,
        unaligned_records=b"all",
    )
    topic = FetchSnapshotResponseTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[data])
    chunk = FetchSnapshotResponse(topics=[topic])
    ready = node.receive(RaftResponse(wanted.correlation_id, 2, chunk), 3)
    assert ready.snapshot_to_freeze == SNAPSHOT
    return node


def frozen() -> FetchedSnapshot:
    return FetchedSnapshot(SNAPSHOT, 3, kraft_version=1, voters=None)


def test_a_snapshot_does_not_say_how_far_the_log_is_committed() -> None:
    """A leader that was just elected offers it before it knows the high watermark, which may be far before its end.

    A node that took the end of the snapshot for the high watermark would authorize requests by outdated ACLs.
    """
    node = fetches_all_of_a_snapshot()
    ready = node.snapshot_fetched(frozen(), 4)
    assert ready.restart_at == SNAPSHOT
    assert (node.high_watermark, node.known_high_watermark) == (SNAPSHOT.offset, None)


def test_the_high_watermark_received_with_a_snapshot_stays_known() -> None:
    node = fetches_all_of_a_snapshot(high_watermark=1000)
    node.snapshot_fetched(frozen(), 4)
    assert (node.high_watermark, node.known_high_watermark) == (SNAPSHOT.offset, 1000)


def test_a_snapshot_does_not_replace_later_records_of_another_leader() -> None:
    """The voter has acknowledged those records: they may be committed, with this voter in the majority."""
    node = fetches_all_of_a_snapshot()
    fetch = begins_epoch(node, 3, 2, 4)
    log = b"".join(
        build_control_batch([leader_change(3, [voter(3).key], [])], base_offset=offset, leader_epoch=2, timestamp_ms=0)
        for offset in range(6)
    )
    node.receive(fetched(fetch, leader_id=3, epoch=2, records=log), 5)
    node.log_flushed(6, 6)
    ready = node.snapshot_fetched(frozen(), 7)
    assert ready.restart_at is None
    assert node.log_end_offset == 6


def test_a_snapshot_that_is_ahead_of_the_log_is_used_under_another_leader_too() -> None:
    node = fetches_all_of_a_snapshot()
    begins_epoch(node, 3, 2, 4)
    assert node.snapshot_fetched(frozen(), 5).restart_at == SNAPSHOT
    assert node.log_end_offset == SNAPSHOT.offset
