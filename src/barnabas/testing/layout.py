"""The settings of the nodes of a test cluster, from their ports and roles.

Each node has a listener CLIENTS. Brokers of one cluster use INTERNAL among themselves, and controllers CONTROLLER:
these two may lead through a proxy, so that a test can cut nodes off from each other without touching clients.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from barnabas.testing.ports import HOST
from barnabas.testing.security import Security

__all__ = ["CLIENTS", "CONTROLLER", "INTERNAL", "Member", "initial_controllers", "node_settings"]

CLIENTS = "CLIENTS"
INTERNAL = "INTERNAL"
CONTROLLER = "CONTROLLER"

_INTERNAL_TOPIC_FACTORS = (
    "offsets.topic.replication.factor",
    "transaction.state.log.replication.factor",
    "share.coordinator.state.topic.replication.factor",
)
_INTERNAL_TOPIC_ISRS = ("transaction.state.log.min.isr", "share.coordinator.state.topic.min.isr")
_FOR_TESTS = {
    # Fifty partitions, Kafka's default, cost time at the first commit of a group.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "group.initial.rebalance.delay.ms": "0",
}
_FOR_CLUSTERS_IN_TESTS = {
    # A test waits until the cluster notices a dead broker: Kafka's defaults are 9 and 30 seconds.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "500",
    "replica.lag.time.max.ms": "4000",
    # The first election of a cluster begins after this time.
    "controller.quorum.election.timeout.ms": "300",
    "controller.quorum.election.backoff.max.ms": "300",
}


@dataclass(frozen=True, slots=True)
class Member:
    """``ports`` are the bound and the advertised port of each listener."""

    node_id: int
    is_broker: bool
    is_controller: bool
    directory_id: str
    ports: Mapping[str, tuple[int, int]]

    @property
    def controller_address(self) -> str:
        return f"{HOST}:{self.ports[CONTROLLER][1]}"


def initial_controllers(members: Sequence[Member]) -> str:
    """Return the voters, as ``barnabas storage format`` receives them."""
    voters = (member for member in members if member.is_controller)
    return ",".join(f"{voter.node_id}@{voter.controller_address}:{voter.directory_id}" for voter in voters)


def node_settings(
    member: Member,
    members: Sequence[Member],
    security: Security,
    *,
    log_dir: str,
    replication: int,
    settings: Mapping[str, str],
) -> dict[str, str]:
    """Return the node's settings. ``settings`` are the user's, and take precedence."""
    brokers = sum(other.is_broker for other in members)
    roles = [role for role, has in (("broker", member.is_broker), ("controller", member.is_controller)) if has]
    listeners = {name: ports for name, ports in member.ports.items() if name != CONTROLLER or member.is_controller}
    copies = min(3, brokers)
    found = {
        "process.roles": ",".join(roles),
        "node.id": str(member.node_id),
        "listeners": _endpoints({name: bound for name, (bound, _) in listeners.items()}),
        "advertised.listeners": _endpoints({name: advertised for name, (_, advertised) in listeners.items()}),
        "controller.listener.names": CONTROLLER,
        "controller.quorum.bootstrap.servers": ",".join(
            other.controller_address for other in members if other.is_controller
        ),
        "log.dirs": log_dir,
        "default.replication.factor": str(replication),
        **dict.fromkeys(_INTERNAL_TOPIC_FACTORS, str(copies)),
        **dict.fromkeys(_INTERNAL_TOPIC_ISRS, str(min(2, copies))),
        **_FOR_TESTS,
        **(_FOR_CLUSTERS_IN_TESTS if len(members) > 1 else {}),
    }
    if member.is_broker:
        found["inter.broker.listener.name"] = INTERNAL if INTERNAL in listeners else CLIENTS
    internal = (INTERNAL, CONTROLLER) if any(INTERNAL in other.ports for other in members) else (CONTROLLER,)
    return {**found, **security.node_settings(internal_listeners=internal), **settings}


def _endpoints(ports: Mapping[str, int]) -> str:
    return ",".join(f"{name}://{HOST}:{port}" for name, port in ports.items())
