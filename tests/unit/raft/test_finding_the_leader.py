"""How a replica finds a leader that was unreachable, or that listens at another address than the log says."""

from __future__ import annotations

from dataclasses import replace

from barnabas.common.errors import ErrorCode
from barnabas.common.uuid import Uuid
from barnabas.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    LeaderIdAndEpoch,
    NodeEndpoint,
    PartitionData,
)
from barnabas.protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from barnabas.raft.control_record_state_machine import ControlRecordStateMachine
from barnabas.raft.election_state import ElectionState
from barnabas.raft.inbound import RaftResponse, RequestFailed
from barnabas.raft.raft_node import RaftNode
from barnabas.raft.ready import OutboundRequest, Ready
from barnabas.raft.voter_set import Endpoint, VoterSet
from tests.unit.raft.single_voter import CONFIG, dynamic_quorum, only_voter, voter

LEADER, OTHER = 2, 3
BOOTSTRAP = -2
OBSERVER = replace(CONFIG, can_be_voter=False, bootstrap_servers=(Endpoint("host3", 9093),))


def one_request(ready: Ready) -> OutboundRequest:
    (request,) = ready.requests
    return request


def not_leader(request: OutboundRequest, endpoint: Endpoint, epoch: int = 1) -> RaftResponse:
    """Another replica names the leader of the epoch, and its address."""
    data = PartitionData(
        error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER,
        current_leader=LeaderIdAndEpoch(leader_id=LEADER, leader_epoch=epoch),
    )
    body = FetchResponse(
        responses=[FetchableTopicResponse(partitions=[data])],
        node_endpoints=[NodeEndpoint(node_id=LEADER, host=endpoint.host, port=endpoint.port)],
    )
    return RaftResponse(request.correlation_id, request.destination_id, body)


def nothing_new(request: OutboundRequest) -> RaftResponse:
    """The leader answers a Fetch."""
    data = PartitionData(
        current_leader=LeaderIdAndEpoch(leader_id=LEADER, leader_epoch=1), high_watermark=0, records=b""
    )
    return RaftResponse(
        request.correlation_id, LEADER, FetchResponse(responses=[FetchableTopicResponse(partitions=[data])])
    )


def test_an_observer_contacts_its_leader_again_if_bootstrap_servers_know_no_other() -> None:
    """The bootstrap servers need not include the leader, and then only the leader has the log."""
    node = only_voter(None, dynamic_quorum(LEADER, OTHER), OBSERVER)
    fetch = one_request(node.start(ElectionState(1, leader_id=LEADER), 0))
    assert fetch.destination_id == LEADER
    now_ms = CONFIG.fetch_timeout_ms + 1
    failed = RequestFailed(fetch.correlation_id, LEADER)
    to_bootstrap = one_request(node.receive(failed, now_ms))
    assert to_bootstrap.destination_id == BOOTSTRAP
    now_ms += 1
    ready = node.receive(not_leader(to_bootstrap, Endpoint("host2", 9093)), now_ms)
    end_ms = now_ms + 3 * CONFIG.fetch_timeout_ms
    while not any(request.destination_id == LEADER for request in ready.requests):
        now_ms += CONFIG.retry_backoff_ms
        assert now_ms < end_ms, "only bootstrap servers are contacted"
        ready = node.tick(now_ms)
        for request in ready.requests:
            if request.destination_id == BOOTSTRAP:
                ready = node.receive(not_leader(request, Endpoint("host2", 9093)), now_ms)


def test_a_follower_learns_the_new_address_of_an_unreachable_leader() -> None:
    """It was down when the leader moved and was elected, so the log and the disk contain the previous address."""
    moved = Endpoint("host2", 9999)
    node = only_voter(None, dynamic_quorum(LEADER, OTHER), OBSERVER)
    fetch = one_request(node.start(ElectionState(1, leader_id=LEADER), 0))
    assert fetch.endpoint == Endpoint("host2", 9093)
    request = one_request(node.receive(RequestFailed(fetch.correlation_id, LEADER, is_refused=True), 1))
    node.receive(not_leader(request, moved), 2)
    assert node.leader_endpoint == moved


def test_a_leader_that_answers_keeps_its_address() -> None:
    """The information of another replica may be outdated."""
    known = Endpoint("host2", 9093)
    node = only_voter(None, dynamic_quorum(LEADER, OTHER), OBSERVER)
    fetch = one_request(node.start(ElectionState(1, leader_id=LEADER), 0))
    node.receive(not_leader(fetch, Endpoint("host2", 1)), 1)
    assert node.leader_endpoint == known


def test_a_leader_too_old_for_a_request_is_still_fetched_from() -> None:
    """A bootstrap server may hang, and while the follower waits for its response the leader loses the follower."""
    of_settings = VoterSet(
        replace(voter(id_), key=voter(id_).key._replace(directory_id=Uuid.ZERO)) for id_ in (1, 2, 3)
    )
    config = replace(OBSERVER, can_be_voter=True, listeners=voter(1).listeners)
    node = only_voter(None, ControlRecordStateMachine(of_settings), config)
    request = one_request(node.start(ElectionState(1, leader_id=LEADER), 0))
    for now_ms in (CONFIG.fetch_timeout_ms - 1, CONFIG.fetch_timeout_ms + 1):
        assert isinstance(request.body, FetchRequest)
        request = one_request(node.receive(nothing_new(request), now_ms))
    assert isinstance(request.body, UpdateRaftVoterRequest)
    too_old = RequestFailed(request.correlation_id, LEADER, is_unsupported_version=True)
    assert node.receive(too_old, now_ms).requests == []
    request = one_request(node.tick(now_ms + CONFIG.retry_backoff_ms))
    assert (request.destination_id, type(request.body)) == (LEADER, FetchRequest)
    now_ms += CONFIG.fetch_timeout_ms - 1
    request = one_request(node.receive(nothing_new(request), now_ms))
    request = one_request(node.receive(nothing_new(request), now_ms + 2))
    assert isinstance(request.body, FetchRequest), "it describes itself once to each leader"


# --- the leader itself


def restarted_leader(node: RaftNode) -> ControlRecordStateMachine:
    """Flush the records of the only voter until it writes nothing more."""
    ready = node.start(None, 0)
    while ready.appends:
        ready = node.log_flushed(node.log_end_offset, 1)
    return node._replica.control_records


def test_a_leader_that_has_moved_writes_its_address_into_the_log() -> None:
    config = replace(CONFIG, listeners={"CONTROLLER": Endpoint("host1", 9999)})
    records = dynamic_quorum(1)
    node = only_voter(None, records, config)
    restarted_leader(node)
    node.receive(RequestFailed(99, OTHER), 2)
    node.log_flushed(node.log_end_offset, 3)
    assert records.last_voter_set.endpoint(1, "CONTROLLER") == Endpoint("host1", 9999)


def test_a_leader_at_the_address_in_the_log_writes_nothing() -> None:
    known = voter(1)
    config = replace(CONFIG, listeners=known.listeners)
    node = only_voter(None, dynamic_quorum(1), config)
    restarted_leader(node)
    end = node.log_end_offset
    node.receive(RequestFailed(99, OTHER), 2)
    assert node.log_end_offset == end
