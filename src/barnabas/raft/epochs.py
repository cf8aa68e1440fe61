"""Handles the epoch and leader in a message; shared by all of the quorum's protocols."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Protocol

from barnabas.common.error_code import error_of
from barnabas.common.errors import ErrorCode, InvariantViolated, invariant
from barnabas.common.uuid import Uuid
from barnabas.raft.replica import Replica
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.states.follower import FollowerState
from barnabas.raft.states.leader import LeaderState
from barnabas.raft.states.unattached import UnattachedState
from barnabas.raft.voter_set import Endpoint

__all__ = [
    "CLUSTER_METADATA_TOPIC",
    "CommonOutcome",
    "check_cluster_id",
    "check_leader_request",
    "check_voter_request",
    "endpoint_of_leader",
    "is_meant_for",
    "handle_answer",
    "handle_fetch_answer",
    "listeners_of",
    "only_partition",
    "maybe_transition",
]

CLUSTER_METADATA_TOPIC = "__cluster_metadata"

NO_LEADER = -1


class _Listener(Protocol):
    name: str
    host: str
    port: int


class _NodeEndpoint(Protocol):
    node_id: int
    host: str
    port: int


class _CurrentLeader(Protocol):
    leader_id: int
    leader_epoch: int


class _LeaderAnswer(_CurrentLeader, Protocol):
    error_code: int


class CommonOutcome(Enum):
    """The result of the common part of handling a response."""

    HANDLED = "handled"
    RETRY = "retry"
    GO_ON = "continue"


def only_partition(topics: Iterable[object]) -> object | None:
    """Return the partition of the metadata log in a raft message; None if the message is about any other."""
    found = list(topics)
    if len(found) != 1:
        return None
    topic = found[0]
    partitions = list(getattr(topic, "partitions", ()))
    if getattr(topic, "topic_name", None) != CLUSTER_METADATA_TOPIC or len(partitions) != 1:
        return None
    partition: object = partitions[0]
    return partition if getattr(partition, "partition_index", None) == 0 else None


def check_cluster_id(replica: Replica, cluster_id: str | None) -> bool:
    """Accept a request without a cluster id: its sender may not know it yet."""
    return cluster_id is None or cluster_id == replica.config.cluster_id


def check_voter_request(replica: Replica, sender_id: int, epoch: int) -> ErrorCode:
    """Check a request that only voters send. The sender may be missing in our voter set, which may be old."""
    if epoch < replica.quorum.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if sender_id < 0:
        return ErrorCode.INVALID_REQUEST
    return ErrorCode.NONE


def is_meant_for(replica: Replica, voter_id: int, directory_id: Uuid) -> bool:
    """Whether a request that names a voter, only its id, or no voter, is addressed to this replica."""
    return voter_id < 0 or ReplicaKey(voter_id, directory_id).matches(replica.config.key)


def check_leader_request(replica: Replica, epoch: int) -> ErrorCode:
    """Check a request that only the leader of the epoch may answer."""
    if epoch < replica.quorum.epoch:
        return ErrorCode.FENCED_LEADER_EPOCH
    if epoch > replica.quorum.epoch:
        return ErrorCode.UNKNOWN_LEADER_EPOCH
    if replica.quorum.in_state(LeaderState) is None:
        return ErrorCode.NOT_LEADER_OR_FOLLOWER
    return ErrorCode.NONE


def listeners_of(listeners: Iterable[_Listener]) -> dict[str, Endpoint]:
    return {listener.name: Endpoint(listener.host, listener.port) for listener in listeners}


def endpoint_of_leader(
    replica: Replica, leader_id: int | None, endpoints: Iterable[_NodeEndpoint]
) -> dict[str, Endpoint]:
    """Return the leader's endpoint in a response, which is that of the listener of the request."""
    for endpoint in endpoints:
        if endpoint.node_id == leader_id:
            return {replica.config.listener_name: Endpoint(endpoint.host, endpoint.port)}
    return {}


def maybe_transition(
    replica: Replica, leader_id: int | None, epoch: int, endpoints: Mapping[str, Endpoint], now_ms: int
) -> None:
    """Follow the (epoch, leader) of a message if it is new. Two leaders of one epoch are a fault, never a reply."""
    quorum = replica.quorum
    _check_consistent_leader(replica, leader_id, epoch)
    if epoch < quorum.epoch:
        return
    known_endpoints = endpoints
    if leader_id is not None and not known_endpoints:
        voter = quorum.voters.get(leader_id)
        known_endpoints = voter.listeners if voter is not None else {}
    if epoch > quorum.epoch:
        if leader_id is not None and known_endpoints:
            quorum.transition_to_follower(epoch, leader_id, known_endpoints, now_ms)
        else:
            quorum.transition_to_unattached(epoch, now_ms, leader_id=leader_id)
        replica.state_changed()
    elif leader_id is not None and leader_id != replica.config.node_id and known_endpoints:
        follower = quorum.in_state(FollowerState)
        if follower is None and quorum.in_state(LeaderState) is None:
            quorum.transition_to_follower(epoch, leader_id, known_endpoints, now_ms)
            replica.state_changed()


def handle_common_response(
    replica: Replica,
    *,
    error: ErrorCode,
    leader_id: int | None,
    epoch: int,
    endpoints: Mapping[str, Endpoint],
    now_ms: int,
) -> CommonOutcome:
    """Handle the common part of the responses to all raft requests."""
    quorum = replica.quorum
    if epoch < quorum.epoch or error is ErrorCode.UNKNOWN_LEADER_EPOCH:
        return CommonOutcome.HANDLED
    if epoch == quorum.epoch:
        _correct_endpoints(replica, leader_id, endpoints)
    if epoch > quorum.epoch or error in (ErrorCode.FENCED_LEADER_EPOCH, ErrorCode.NOT_LEADER_OR_FOLLOWER):
        maybe_transition(replica, leader_id, epoch, endpoints, now_ms)
        return CommonOutcome.HANDLED
    is_unattached = quorum.in_state(UnattachedState) is not None
    if leader_id is not None and (quorum.leader_id is None or is_unattached) and leader_id != replica.config.node_id:
        maybe_transition(replica, leader_id, epoch, endpoints, now_ms)
        return CommonOutcome.GO_ON if error is ErrorCode.NONE else CommonOutcome.HANDLED
    if error is ErrorCode.NONE:
        return CommonOutcome.GO_ON
    if error is ErrorCode.INVALID_REQUEST:
        raise InvariantViolated("a replica reports that our request is invalid")
    return CommonOutcome.RETRY


def _correct_endpoints(replica: Replica, leader_id: int | None, endpoints: Mapping[str, Endpoint]) -> None:
    """Adopt the leader's endpoints from a message if the leader of this epoch can't be reached at its known ones.

    A replica that restarts knows the leader from its disk, and the leader's earlier endpoints from the voters in the
    log. A leader that has moved since has notified the other voters, but not a voter that was down.
    """
    follower = replica.quorum.in_state(FollowerState)
    if follower is None or not endpoints or leader_id != follower.leader_id or not follower.is_leader_unreachable:
        return
    if dict(endpoints) != dict(follower.leader_endpoints):
        follower.leader_endpoints = dict(endpoints)
        follower.is_leader_unreachable = False


def handle_answer(
    replica: Replica, partition: _LeaderAnswer, endpoints: Iterable[_NodeEndpoint], now_ms: int
) -> CommonOutcome:
    """As above, for a response whose partition names error, leader and epoch."""
    return handle_common_response(
        replica,
        error=error_of(partition.error_code),
        leader_id=_known(partition.leader_id),
        epoch=partition.leader_epoch,
        endpoints=endpoint_of_leader(replica, partition.leader_id, endpoints),
        now_ms=now_ms,
    )


def handle_fetch_answer(
    replica: Replica,
    error: ErrorCode,
    current_leader: _CurrentLeader | None,
    endpoints: Iterable[_NodeEndpoint],
    now_ms: int,
) -> CommonOutcome:
    """As above, for a response that names the leader only if its sender expects that we don't know it."""
    leader_id = NO_LEADER if current_leader is None else current_leader.leader_id
    return handle_common_response(
        replica,
        error=error,
        leader_id=_known(leader_id),
        epoch=replica.quorum.epoch if current_leader is None else current_leader.leader_epoch,
        endpoints=endpoint_of_leader(replica, leader_id, endpoints),
        now_ms=now_ms,
    )


def _known(leader_id: int) -> int | None:
    return None if leader_id == NO_LEADER else leader_id


def _check_consistent_leader(replica: Replica, leader_id: int | None, epoch: int) -> None:
    quorum = replica.quorum
    if leader_id is None or epoch != quorum.epoch:
        return
    if leader_id == replica.config.node_id:
        invariant(quorum.leader_id == leader_id, f"{leader_id} is said to lead epoch {epoch}, but does not")
    else:
        known = quorum.leader_id
        invariant(known is None or known == leader_id, f"{leader_id} and {known} both lead epoch {epoch}")
