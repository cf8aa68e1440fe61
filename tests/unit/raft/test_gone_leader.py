"""A follower waits for a silent leader until its fetch timeout, and less for a leader whose process has stopped."""

from __future__ import annotations

from barnabas.protocol.messages.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, PartitionData
from barnabas.protocol.messages.vote import (
    VoteRequest,
    VoteResponse,
    VoteResponsePartitionData,
    VoteResponseTopicData,
)
from barnabas.raft.election_state import ElectionState
from barnabas.raft.inbound import RaftResponse, RequestFailed
from barnabas.raft.messages import TURN_MS
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.ready import OutboundRequest, Ready
from tests.unit.raft.single_voter import CONFIG, dynamic_quorum, only_voter

LEADER = 3
STARTED_MS, RECEIVED_MS, LOST_MS = 0, 10, 20


def follower() -> tuple[RaftNode, OutboundRequest]:
    """Return voter 1 of three, and its Fetch to the leader."""
    node = only_voter(None, dynamic_quorum(1, 2, LEADER), CONFIG)
    ready = node.start(ElectionState(1, leader_id=LEADER), STARTED_MS)
    return node, fetch_of(ready)


def fetch_of(ready: Ready) -> OutboundRequest:
    return next(request for request in ready.requests if request.destination_id == LEADER)


def received_from_leader() -> tuple[RaftNode, OutboundRequest]:
    node, request = follower()
    partition = PartitionData(high_watermark=-1, current_leader=LeaderIdAndEpoch(leader_id=LEADER, leader_epoch=1))
    body = FetchResponse(responses=[FetchableTopicResponse(partitions=[partition])])
    return node, fetch_of(node.receive(RaftResponse(request.correlation_id, LEADER, body), RECEIVED_MS))


def lose(node: RaftNode, request: OutboundRequest, *, is_refused: bool) -> Ready:
    return node.receive(RequestFailed(request.correlation_id, LEADER, is_refused=is_refused), LOST_MS)


def asks_for_votes(ready: Ready) -> bool:
    return any(isinstance(request.body, VoteRequest) for request in ready.requests)


def test_the_first_voter_stands_after_one_turn_when_the_leaders_port_is_closed() -> None:
    node, request = received_from_leader()
    lose(node, request, is_refused=True)
    assert not asks_for_votes(node.tick(LOST_MS + TURN_MS - 1))
    assert asks_for_votes(node.tick(LOST_MS + TURN_MS))
    assert node.state_name == "Prospective"


def test_a_broken_connection_alone_causes_no_election() -> None:
    node, request = received_from_leader()
    lose(node, request, is_refused=False)
    assert not asks_for_votes(node.tick(RECEIVED_MS + CONFIG.fetch_timeout_ms - 1))
    assert asks_for_votes(node.tick(RECEIVED_MS + CONFIG.fetch_timeout_ms))


def test_a_leader_that_never_answered_has_its_full_time() -> None:
    """It may be starting: it opens its listener when others elect it."""
    node, request = follower()
    lose(node, request, is_refused=True)
    assert not asks_for_votes(node.tick(STARTED_MS + CONFIG.fetch_timeout_ms - 1))


def votes_of(ready: Ready, *, pre_vote: bool) -> dict[int, OutboundRequest]:
    """Return the vote requests by voter."""
    return {
        request.destination_id: request
        for request in ready.requests
        if isinstance(request.body, VoteRequest) and request.body.topics[0].partitions[0].pre_vote is pre_vote
    }


def vote(request: OutboundRequest, epoch: int, *, granted: bool) -> RaftResponse:
    partition = VoteResponsePartitionData(leader_id=-1, leader_epoch=epoch, vote_granted=granted)
    body = VoteResponse(topics=[VoteResponseTopicData(topic_name="__cluster_metadata", partitions=[partition])])
    return RaftResponse(request.correlation_id, request.destination_id, body)


def split_election(now_ms: int) -> tuple[RaftNode, dict[int, OutboundRequest]]:
    """Voter 1 is a candidate in epoch 2, and voter 2 has just refused it."""
    node, request = received_from_leader()
    lose(node, request, is_refused=True)
    requests = votes_of(node.tick(now_ms), pre_vote=True)
    node.receive(RequestFailed(requests[LEADER].correlation_id, LEADER, is_refused=True), now_ms)
    real = votes_of(node.receive(vote(requests[2], 1, granted=True), now_ms), pre_vote=False)
    real |= votes_of(node.tick(now_ms + CONFIG.retry_backoff_ms), pre_vote=False)
    node.receive(vote(real[2], 2, granted=False), now_ms + CONFIG.retry_backoff_ms)
    assert node.state_name == "Candidate"
    return node, real


SPLIT_MS = LOST_MS + TURN_MS
REFUSED_MS = SPLIT_MS + CONFIG.retry_backoff_ms


def test_after_split_votes_a_candidate_stands_again_after_its_turn() -> None:
    node, requests = split_election(SPLIT_MS)
    node.receive(RequestFailed(requests[LEADER].correlation_id, LEADER, is_refused=True), REFUSED_MS)
    node.tick(REFUSED_MS + TURN_MS - 1)
    assert node.state_name == "Candidate"
    again = node.tick(REFUSED_MS + TURN_MS)
    assert node.state_name == "Prospective"
    assert 2 in votes_of(again, pre_vote=True)


def test_while_a_voter_may_still_answer_a_candidate_waits() -> None:
    node, requests = split_election(SPLIT_MS)
    node.receive(RequestFailed(requests[LEADER].correlation_id, LEADER, is_refused=False), REFUSED_MS)
    node.tick(SPLIT_MS + CONFIG.election_timeout_ms - 1)
    assert node.state_name == "Candidate"
