"""A replica's requests to its leader about its own place among the voters.

A voter sends UpdateRaftVoter (82) if it differs from its entry in the quorum. If the voters are those of the settings
(kraft.version 0), each describes itself once to every leader. A controller that joins automatically
(``controller.quorum.auto.join.enable``) sends AddRaftVoter (80), after RemoveRaftVoter (81) for its id with the
directory that it had before.
"""

from __future__ import annotations

from barnabas.common.error_code import error_of
from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from barnabas.protocol.messages.add_raft_voter import Listener as AddListener
from barnabas.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from barnabas.protocol.messages.update_raft_voter import (
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from barnabas.protocol.schema import Message, Request
from barnabas.raft.epochs import NO_LEADER, CommonOutcome, handle_common_response
from barnabas.raft.inbound import RaftResponse
from barnabas.raft.raft_config import KRAFT_VERSION_MAX, KRAFT_VERSION_MIN, RaftConfig
from barnabas.raft.replica import Replica
from barnabas.raft.states.follower import FollowerState
from barnabas.raft.voter_set import Endpoint, VoterNode

__all__ = ["handle_join_response", "handle_update_response", "own_voter_node", "voter_node", "voter_request"]


def voter_node(config: RaftConfig) -> VoterNode:
    """Return this replica's entry for the voters in the log."""
    return VoterNode(config.key, config.listeners, KRAFT_VERSION_MIN, KRAFT_VERSION_MAX)


def own_voter_node(replica: Replica) -> VoterNode | None:
    """Return the same entry; None for a replica without an endpoint for others."""
    config = replica.config
    return voter_node(config) if config.listener_name in config.listeners else None


def voter_request(replica: Replica, follower: FollowerState, now_ms: int) -> Request[Message] | None:
    """Return the request that is due: one in a fetch timeout at most, the first after following for that long."""
    if now_ms < follower.update_deadline_ms:
        return None
    request: Request[Message] | None = None
    if replica.quorum.is_voter:
        request = _update_request(replica) if _is_update_due(replica, follower) else None
    elif _may_join(replica):
        request = _join_request(replica)
    if request is not None:
        follower.update_deadline_ms = now_ms + replica.config.fetch_timeout_ms
    return request


def handle_join_response(replica: Replica, response: RaftResponse, now_ms: int) -> bool:
    """Return whether the request succeeded. The log will show the outcome; a failed request is retried later."""
    body = response.body
    if not isinstance(body, AddRaftVoterResponse | RemoveRaftVoterResponse):
        raise TypeError(body)
    return body.error_code == ErrorCode.NONE


def _may_join(replica: Replica) -> bool:
    """Return whether the log has been followed far enough for the voters to be known."""
    config = replica.config
    return (
        config.joins_by_itself
        and config.can_be_voter
        and config.listener_name in config.listeners
        and replica.control_records.last_kraft_version >= 1
        and len(replica.quorum.voters) > 0
    )


def _join_request(replica: Replica) -> Request[Message]:
    config = replica.config
    known = replica.quorum.voters.get(config.node_id)
    if known is not None:
        return RemoveRaftVoterRequest(
            cluster_id=config.cluster_id, voter_id=known.key.id, voter_directory_id=known.key.directory_id
        )
    return AddRaftVoterRequest(
        cluster_id=config.cluster_id,
        timeout_ms=config.request_timeout_ms,
        voter_id=config.node_id,
        voter_directory_id=config.directory_id,
        listeners=[
            AddListener(name=name, host=endpoint.host, port=endpoint.port)
            for name, endpoint in config.listeners.items()
        ],
        ack_when_committed=False,
    )


def _is_update_due(replica: Replica, follower: FollowerState) -> bool:
    config, voter = replica.config, replica.quorum.voters.get(replica.config.node_id)
    if voter is None or config.listener_name not in config.listeners:
        return False
    if replica.control_records.last_kraft_version < 1:
        return not follower.has_described_itself
    levels = (voter.kraft_version_min, voter.kraft_version_max)
    return dict(voter.listeners) != dict(config.listeners) or levels != (KRAFT_VERSION_MIN, KRAFT_VERSION_MAX)


def _update_request(replica: Replica) -> UpdateRaftVoterRequest:
    config = replica.config
    return UpdateRaftVoterRequest(
        cluster_id=config.cluster_id,
        current_leader_epoch=replica.quorum.epoch,
        voter_id=config.node_id,
        voter_directory_id=config.directory_id,
        listeners=[
            Listener(name=name, host=endpoint.host, port=endpoint.port) for name, endpoint in config.listeners.items()
        ],
        kraft_version_feature=KRaftVersionFeature(
            min_supported_version=KRAFT_VERSION_MIN, max_supported_version=KRAFT_VERSION_MAX
        ),
    )


def handle_update_response(replica: Replica, response: RaftResponse, now_ms: int) -> bool:
    body = response.body
    if not isinstance(body, UpdateRaftVoterResponse):
        raise TypeError(body)
    leader = body.current_leader
    leader_id = None if leader is None or leader.leader_id == NO_LEADER else leader.leader_id
    endpoints = {}
    if leader is not None and leader.host:
        endpoints = {replica.config.listener_name: Endpoint(leader.host, leader.port)}
    outcome = handle_common_response(
        replica,
        error=error_of(body.error_code),
        leader_id=leader_id,
        epoch=replica.quorum.epoch if leader is None or leader.leader_epoch < 0 else leader.leader_epoch,
        endpoints=endpoints,
        now_ms=now_ms,
    )
    follower = replica.quorum.in_state(FollowerState)
    if follower is not None and body.error_code == ErrorCode.NONE:
        follower.has_described_itself = True
    return outcome is not CommonOutcome.RETRY
