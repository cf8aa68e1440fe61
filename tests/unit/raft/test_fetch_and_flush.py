"""A voter's Fetch acknowledges its whole log, so it must not be sent while a part of that log is not flushed."""

from __future__ import annotations

from dataclasses import replace

from barnabas.protocol.messages import vote
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    PartitionData,
)
from barnabas.raft.control_records import build_control_batch, leader_change
from barnabas.raft.election_state import ElectionState
from barnabas.raft.epochs import CLUSTER_METADATA_TOPIC
from barnabas.raft.inbound import RaftRequest, RaftResponse
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.ready import Ready
from barnabas.raft.voter_set import Endpoint
from tests.unit.raft.single_voter import CONFIG, dynamic_quorum, only_voter, voter

SERVERS = tuple(Endpoint(f"host{node_id}", 9093) for node_id in (1, 2, 3))


def elected() -> RaftNode:
    """Voter 1 of three has just become the leader of epoch 1; its first batch is appended and not flushed."""
    node = only_voter(None, dynamic_quorum(1, 2, 3), replace(CONFIG, bootstrap_servers=SERVERS))
    ready = node.start(ElectionState(1, voted_key=CONFIG.key), 0)
    request = next(candidate for candidate in ready.requests if candidate.destination_id == 2)
    partition = vote.VoteResponsePartitionData(leader_id=-1, leader_epoch=1, vote_granted=True)
    topic = vote.VoteResponseTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    ready = node.receive(RaftResponse(request.correlation_id, 2, vote.VoteResponse(topics=[topic])), 1)
    assert node.state_name == "Leader"
    assert ready.appends
    return node


def request_vote(node: RaftNode, epoch: int) -> Ready:
    partition = vote.VoteRequestPartitionData(
        replica_epoch=epoch,
        replica_id=3,
        replica_directory_id=voter(3).key.directory_id,
        voter_directory_id=CONFIG.directory_id,
        last_offset_epoch=0,
        last_offset=0,
    )
    topic = vote.VoteRequestTopicData(topic_name=CLUSTER_METADATA_TOPIC, partitions=[partition])
    body = vote.VoteRequest(cluster_id="cluster", voter_id=1, topics=[topic])
    return node.receive(RaftRequest(1, body, vote.VoteRequest.MAX_VERSION), 2)


def fetches(ready: Ready) -> list[int]:
    bodies = [request.body for request in ready.requests]
    return [body.topics[0].partitions[0].fetch_offset for body in bodies if isinstance(body, FetchRequest)]


def test_a_former_leader_looks_for_the_next_one_only_after_its_log_is_flushed() -> None:
    """The bootstrap server that it contacts may be that leader, and count the Fetch."""
    node = elected()
    ready = request_vote(node, 2)
    assert node.state_name == "Unattached"
    assert fetches(ready) == []
    assert fetches(node.log_flushed(node.log_end_offset, 3)) == [node.log_end_offset]


def test_a_controller_that_is_not_a_voter_yet_fetches_only_after_its_flushed_log() -> None:
    """The leader may have made it a voter meanwhile, and counts its fetch offset."""
    node = only_voter(None, dynamic_quorum(2), replace(CONFIG, bootstrap_servers=SERVERS[1:2]))
    request = next(iter(node.start(ElectionState(1, leader_id=2), 0).requests))
    data = build_control_batch([leader_change(2, [voter(2).key], [])], base_offset=0, leader_epoch=1, timestamp_ms=0)
    body = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(records=data)])])
    body.responses[0].partitions[0].current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=1)
    ready = node.receive(RaftResponse(request.correlation_id, request.destination_id, body), 1)
    assert [batch.last_offset for batch in ready.appends] == [0]
    assert fetches(ready) == []
    assert fetches(node.log_flushed(1, 2)) == [1]


def test_the_high_watermark_is_known_before_its_records_are_fetched() -> None:
    """A replica that waits for all committed records must not be content with a first, small response."""
    node = only_voter(None, dynamic_quorum(2), replace(CONFIG, can_be_voter=False, bootstrap_servers=SERVERS[1:2]))
    request = next(iter(node.start(ElectionState(1, leader_id=2), 0).requests))
    body = FetchResponse(responses=[FetchableTopicResponse(partitions=[PartitionData(high_watermark=1000)])])
    body.responses[0].partitions[0].current_leader = LeaderIdAndEpoch(leader_id=2, leader_epoch=1)
    node.receive(RaftResponse(request.correlation_id, request.destination_id, body), 1)
    assert (node.high_watermark, node.known_high_watermark) == (0, 1000)
