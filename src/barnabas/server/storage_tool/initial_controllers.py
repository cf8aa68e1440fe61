"""Parses the voters of a new quorum: ``--initial-controllers id@host:port:directory-id,...``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from barnabas.common.uuid import Uuid
from barnabas.raft.replica_key import ReplicaKey
from barnabas.raft.voter_set import Endpoint, VoterNode, VoterSet

__all__ = ["InitialController", "parse_initial_controllers", "voter_set_of"]

KRAFT_VERSION_MAX = 1


@dataclass(frozen=True, slots=True)
class InitialController:
    node_id: int
    host: str
    port: int
    directory_id: Uuid


def parse_initial_controllers(text: str) -> list[InitialController]:
    """Parse every entry of the list. Raise ValueError with the text of Kafka's tool."""
    entries = text.strip()
    if not entries:
        raise ValueError("No voters given.")
    found = [_parse(entry.strip()) for entry in entries.split(",")]
    seen: set[int] = set()
    for controller in found:
        if controller.node_id in seen:
            raise ValueError(f"Node id {controller.node_id} was specified more than once.")
        seen.add(controller.node_id)
    return found


def voter_set_of(controllers: Sequence[InitialController], listener_name: str) -> VoterSet:
    return VoterSet(
        VoterNode(
            key=ReplicaKey(controller.node_id, controller.directory_id),
            listeners={listener_name: Endpoint(controller.host, controller.port)},
            kraft_version_max=KRAFT_VERSION_MAX,
        )
        for controller in sorted(controllers, key=lambda controller: controller.node_id)
    )


def _parse(text: str) -> InitialController:
    id_text, at, rest = text.partition("@")
    if not at:
        raise ValueError("No @ found in dynamic voter string.")
    try:
        node_id = int(id_text)
    except ValueError:
        raise ValueError("Failed to parse node id in dynamic voter string.") from None
    if node_id < 0:
        raise ValueError("Invalid negative node id in dynamic voter string.")
    if rest.startswith("["):
        host, bracket, rest = rest[1:].partition("]")
        if not bracket:
            raise ValueError("Hostname began with left bracket, but no right bracket was found.")
        if not rest.startswith(":"):
            raise ValueError("Port section not found in dynamic voter string.")
        rest = rest[1:]
    else:
        host, colon, rest = rest.partition(":")
        if not colon:
            raise ValueError("No colon following hostname could be found.")
    port_text, colon, directory_text = rest.partition(":")
    if not colon:
        raise ValueError("No colon following port could be found.")
    return InitialController(node_id, host, _parse_port(port_text), _parse_directory_id(directory_text))


def _parse_port(text: str) -> int:
    try:
        port = int(text)
    except ValueError:
        raise ValueError("Failed to parse port in dynamic voter string.") from None
    if not 0 <= port <= 65535:
        raise ValueError("Invalid port in dynamic voter string.")
    return port


def _parse_directory_id(text: str) -> Uuid:
    try:
        return Uuid.from_string(text)
    except ValueError:
        raise ValueError("Failed to parse directory ID in dynamic voter string.") from None
