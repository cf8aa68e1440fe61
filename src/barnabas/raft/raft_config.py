"""The settings of a replica; the defaults are Kafka's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from barnabas.common.uuid import Uuid
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.voter_set import Endpoint, VoterSet

__all__ = ["KRAFT_VERSION_MAX", "KRAFT_VERSION_MIN", "RaftConfig"]

KRAFT_VERSION_MIN, KRAFT_VERSION_MAX = 0, 1
"""The levels of kraft.version that this code supports."""


@dataclass(frozen=True, slots=True)
class RaftConfig:
    node_id: int
    directory_id: Uuid
    cluster_id: str
    can_be_voter: bool = True
    """Only a process with the controller role may become a voter; a broker always observes."""
    listener_name: str = "CONTROLLER"
    """The first of controller.listener.names: raft requests go to this endpoint of a voter."""
    listeners: Mapping[str, Endpoint] = field(default_factory=dict)
    """This node's own controller endpoints, as it reports them to others."""
    static_voters: VoterSet = field(default_factory=VoterSet)
    bootstrap_servers: tuple[Endpoint, ...] = ()
    election_timeout_ms: int = 1000
    fetch_timeout_ms: int = 2000
    election_backoff_max_ms: int = 1000
    append_linger_ms: int = 25
    request_timeout_ms: int = 2000
    retry_backoff_ms: int = 20
    fetch_max_bytes: int = 1024 * 1024
    fetch_snapshot_max_bytes: int = 1024 * 1024
    fetch_max_wait_ms: int = 500
    batch_max_bytes: int = 8 * 1024 * 1024
    joins_by_itself: bool = False
    """A controller that is not a voter requests to become one (``controller.quorum.auto.join.enable``)."""
    batch_max_records: int = 10_000
    """A result that need not be atomic is cut into batches of this many records."""

    @property
    def key(self) -> ReplicaKey:
        return ReplicaKey(self.node_id, self.directory_id)

    @property
    def has_other_bootstrap_servers(self) -> bool:
        return any(server not in self.listeners.values() for server in self.bootstrap_servers)

    @property
    def check_quorum_timeout_ms(self) -> int:
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_quorum_epoch_timeout_ms(self) -> int:
        return self.fetch_timeout_ms // 2
