"""UpdateRaftVoter (82) as a voter sends it: when it is not what the quorum knows of it.

Where the voters stand in the settings (kraft.version 0) each describes itself once to every leader.
"""

from __future__ import annotations

from barnabas.common.errors import ErrorCode
from barnabas.protocol.messages.update_raft_voter import (
    KRaftVersionFeature,
    Listener,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)
from barnabas.raft.epochs import NOBODY, CommonOutcome, error_of, handle_common_response
from barnabas.raft.inbound import RaftResponse
from barnabas.raft.raft_config import KRAFT_VERSION_MAX, KRAFT_VERSION_MIN
from barnabas.raft.replica import Replica
from barnabas.raft.states.follower import FollowerState
from barnabas.raft.voter_set import Endpoint

__all__ = ["handle_update_response", "is_update_due", "update_request"]


def is_update_due(replica: Replica, follower: FollowerState, now_ms: int) -> bool:
    """Not before the follower has heard of its leader for a while, and then at most once in a fetch timeout."""
    config, voter = replica.config, replica.quorum.voters.get(replica.config.node_id)
    if now_ms < follower.update_deadline_ms or voter is None or not replica.quorum.is_voter or not config.listeners:
        return False
    if replica.control_records.last_kraft_version < 1:
        return not follower.has_described_itself
    levels = (voter.kraft_version_min, voter.kraft_version_max)
    return dict(voter.listeners) != dict(config.listeners) or levels != (KRAFT_VERSION_MIN, KRAFT_VERSION_MAX)


def update_request(replica: Replica) -> UpdateRaftVoterRequest:
    config = replica.config
    return UpdateRaftVoterRequest(
        cluster_id=config.cluster_id,
        current_leader_epoch=replica.quorum.epoch,
        voter_id=config.node_id,
        voter_directory_id=config.directory_id,
        listeners=[Listener(name=name, host=each.host, port=each.port) for name, each in config.listeners.items()],
        kraft_version_feature=KRaftVersionFeature(
            min_supported_version=KRAFT_VERSION_MIN, max_supported_version=KRAFT_VERSION_MAX
        ),
    )


def handle_update_response(replica: Replica, response: RaftResponse, now_ms: int) -> bool:
    body = response.body
    if not isinstance(body, UpdateRaftVoterResponse):
        raise TypeError(body)
    leader = body.current_leader
    leader_id = None if leader is None or leader.leader_id == NOBODY else leader.leader_id
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
