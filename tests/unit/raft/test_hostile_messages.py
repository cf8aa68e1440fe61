"""For any message in any state, the node makes a legal transition or refuses; a refusal leaves its log unchanged."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from barnabas.common.errors import InvariantViolated
from barnabas.common.uuid import Uuid
from barnabas.protocol.errors import DecodeError
from barnabas.protocol.messages import begin_quorum_epoch as begin
from barnabas.protocol.messages import end_quorum_epoch as end
from barnabas.protocol.messages import fetch, fetch_snapshot, vote
from barnabas.protocol.schema import Message
from barnabas.raft.epochs import CLUSTER_METADATA_TOPIC
from barnabas.raft.inbound import RaftRequest, RaftResponse, RequestFailed
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.ready import Ready
from barnabas.raft.voter_set import Endpoint
from tests.unit.raft.single_voter import CONFIG, dynamic_quorum, only_voter, voter

SERVERS = tuple(Endpoint(f"host{node_id}", 9093) for node_id in (1, 2, 3))
epochs = st.integers(-1, 5)
ids = st.integers(-1, 4)
offsets = st.integers(-1, 6)
errors = st.sampled_from([0, 0, 0, 6, 8, 41, 74, 75, 98, 99, 104, 125, 999])
directories = st.sampled_from([Uuid.ZERO, *(voter(node_id).key.directory_id for node_id in (1, 2, 3))])


def vote_request(draw: st.DrawFn) -> Message:
    partition = vote.VoteRequestPartitionData(
        replica_epoch=draw(epochs),
        replica_id=draw(ids),
        replica_directory_id=draw(directories),
        voter_directory_id=draw(directories),
        last_offset_epoch=draw(epochs),
        last_offset=draw(offsets),
        pre_vote=draw(st.booleans()),
    )
    topic = vote.VoteRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return vote.VoteRequest(cluster_id="cluster", voter_id=draw(ids), topics=[topic])


def begin_request(draw: st.DrawFn) -> Message:
    partition = begin.BeginQuorumEpochRequestPartitionData(leader_id=draw(ids), leader_epoch=draw(epochs))
    topic = begin.BeginQuorumEpochRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return begin.BeginQuorumEpochRequest(cluster_id=draw(st.sampled_from(["cluster", None, "other"])), topics=[topic])


def end_request(draw: st.DrawFn) -> Message:
    partition = end.EndQuorumEpochRequestPartitionData(
        leader_id=draw(ids), leader_epoch=draw(epochs), preferred_successors=draw(st.lists(ids, max_size=3))
    )
    topic = end.EndQuorumEpochRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return end.EndQuorumEpochRequest(cluster_id="cluster", topics=[topic])


def fetch_request(draw: st.DrawFn) -> Message:
    partition = fetch.FetchPartition(
        current_leader_epoch=draw(epochs),
        fetch_offset=draw(offsets),
        last_fetched_epoch=draw(epochs),
        replica_directory_id=draw(directories),
        high_watermark=draw(offsets),
    )
    topic = fetch.FetchTopic(topic_id=Uuid.METADATA_TOPIC_ID, partitions=[partition])
    state = fetch.ReplicaState(replica_id=draw(ids))
    return fetch.FetchRequest(replica_state=state, max_wait_ms=draw(st.integers(-1, 500)), topics=[topic])


def snapshot_request(draw: st.DrawFn) -> Message:
    partition = fetch_snapshot.FetchSnapshotRequestPartitionSnapshot(
        current_leader_epoch=draw(epochs),
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=draw(offsets), epoch=draw(epochs)),
        position=draw(offsets),
    )
    topic = fetch_snapshot.FetchSnapshotRequestTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    return fetch_snapshot.FetchSnapshotRequest(replica_id=draw(ids), topics=[topic])


def answer_to(draw: st.DrawFn, request: Message) -> Message:
    leader_id, epoch, error = draw(ids), draw(epochs), draw(errors)
    if isinstance(request, vote.VoteRequest):
        data = vote.VoteResponsePartitionData(
            leader_id=leader_id, leader_epoch=epoch, error_code=error, vote_granted=draw(st.booleans())
        )
        return vote.VoteResponse(
            topics=[vote.VoteResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[data])]
        )
    if isinstance(request, begin.BeginQuorumEpochRequest):
        begun = begin.BeginQuorumEpochResponsePartitionData(leader_id=leader_id, leader_epoch=epoch, error_code=error)
        topic = begin.BeginQuorumEpochResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[begun])
        return begin.BeginQuorumEpochResponse(topics=[topic])
    if isinstance(request, end.EndQuorumEpochRequest):
        ended = end.EndQuorumEpochResponsePartitionData(leader_id=leader_id, leader_epoch=epoch, error_code=error)
        ended_topic = end.EndQuorumEpochResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[ended])
        return end.EndQuorumEpochResponse(topics=[ended_topic])
    if isinstance(request, fetch.FetchRequest):
        fetched = fetch.PartitionData(
            error_code=error,
            high_watermark=draw(offsets),
            current_leader=fetch.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
            diverging_epoch=fetch.EpochEndOffset(epoch=draw(epochs), end_offset=draw(offsets)),
            snapshot_id=fetch.SnapshotId(end_offset=draw(offsets), epoch=draw(epochs)),
            records=draw(st.binary(max_size=80)),
        )
        return fetch.FetchResponse(responses=[fetch.FetchableTopicResponse(partitions=[fetched])])
    chunk = fetch_snapshot.FetchSnapshotResponsePartitionSnapshot(
        error_code=error,
        snapshot_id=fetch_snapshot.SnapshotId(end_offset=draw(offsets), epoch=draw(epochs)),
        current_leader=fetch_snapshot.LeaderIdAndEpoch(leader_id=leader_id, leader_epoch=epoch),
        size=draw(offsets),
        position=draw(offsets),
        unaligned_records=draw(st.binary(max_size=8)),
    )
    snapshot_topic = fetch_snapshot.FetchSnapshotResponseTopicSnapshot(name=CLUSTER_METADATA_TOPIC, partitions=[chunk])
    return fetch_snapshot.FetchSnapshotResponse(topics=[snapshot_topic])


REQUESTS = (vote_request, begin_request, end_request, fetch_request, snapshot_request)


def node_of_three() -> RaftNode:
    config = replace(CONFIG, bootstrap_servers=SERVERS, listeners=voter(1).listeners)
    return only_voter(control_records=dynamic_quorum(1, 2, 3), config=config)


def position(node: RaftNode) -> tuple[Any, ...]:
    return (node.log_end_offset, node.high_watermark)


@settings(max_examples=150)
@given(st.data())
def test_any_message_in_any_state_is_handled_or_refused(data: st.DataObject) -> None:
    node = node_of_three()
    now_ms = 0
    sent: list[Any] = []
    epoch = 0

    def note(ready: Ready) -> None:
        sent.extend(ready.requests)
        assert ready.truncate_to is None or ready.truncate_to >= (node.high_watermark or 0)

    note(node.start(None, now_ms))
    for step in range(data.draw(st.integers(1, 25))):
        now_ms += data.draw(st.sampled_from([0, 1, 30, 500, 3000]))
        kind = data.draw(st.sampled_from(["tick", "flush", "append", "request", "answer", "answer", "failure"]))
        before = position(node)
        try:
            if kind == "tick" or (kind in ("answer", "failure") and not sent):
                note(node.tick(now_ms))
            elif kind == "flush":
                note(node.log_flushed(node.log_end_offset, now_ms))
            elif kind == "append" and node.state_name == "Leader":
                note(node.append([f"r{step}"], now_ms))
            elif kind == "request":
                body = data.draw(st.composite(data.draw(st.sampled_from(REQUESTS)))())
                note(node.receive(RaftRequest(step, body, type(body).MAX_VERSION), now_ms))
            elif kind == "answer":
                request = sent.pop(data.draw(st.integers(0, len(sent) - 1)))
                body = data.draw(st.composite(answer_to)(request.body))
                note(node.receive(RaftResponse(request.correlation_id, request.destination_id, body), now_ms))
            elif kind == "failure":
                request = sent.pop()
                note(node.receive(RequestFailed(request.correlation_id, request.destination_id), now_ms))
        except (InvariantViolated, DecodeError):
            assert position(node) == before, "a refused message changes neither the log nor the high watermark"
        assert node.epoch >= epoch
        epoch = node.epoch


@pytest.mark.parametrize("state", ["Follower", "Leader"])
def test_two_leaders_of_one_epoch_are_a_fault(state: str) -> None:
    node = only_voter() if state == "Leader" else node_of_three()
    node.start(None, 0)

    def claim(leader_id: int) -> RaftRequest:
        partition = begin.BeginQuorumEpochRequestPartitionData(leader_id=leader_id, leader_epoch=1)
        topic = begin.BeginQuorumEpochRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
        return RaftRequest(1, begin.BeginQuorumEpochRequest(topics=[topic]), 0)

    if state == "Follower":
        node.receive(claim(2), 1)
    assert node.state_name == state
    with pytest.raises(InvariantViolated, match="both lead epoch 1"):
        node.receive(claim(3), 2)
