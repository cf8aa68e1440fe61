"""A client outside the cluster: its connections to brokers, and the requests that it sends over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from barnabas.broker.apis import SERVED_BY_BROKER
from barnabas.clients.client_config import Address
from barnabas.clients.errors import Disconnected
from barnabas.security.principal import Principal
from tests.simulation.cluster.channel import Process, SimulatedClient, SimulatedConnection, peer_of
from tests.simulation.cluster.software import NEWEST

if TYPE_CHECKING:
    from barnabas.protocol.schema import Message
    from tests.simulation.cluster.node import SimulatedNode
    from tests.simulation.cluster.world import World

__all__ = ["ClientProcess"]


CLIENT_TIMEOUT_S = 4.0
PEER = peer_of(Principal("User", "admin"), "PLAINTEXT")


BROKER_PEER = peer_of(Principal("User", "broker"), "PLAINTEXT")


def _inter_broker_door(target: SimulatedNode) -> Process | None:
    return _process(target, BROKER_PEER)


def broker_door(target: SimulatedNode) -> Process | None:
    return _process(target, PEER)


def _process(target: SimulatedNode, peer: Any) -> Process | None:
    data = target.data
    if data is None or not data.is_open:
        return None
    return lambda frame: data.dispatcher.process(peer, frame)


class BrokerClient(SimulatedClient):
    """Replaces ``NetworkClient`` for replication between brokers."""

    def is_served(self, target: SimulatedNode, address: Address) -> bool:
        return target.data is not None and target.data.is_open

    def connect(self, target: SimulatedNode, address: Address) -> SimulatedConnection:
        return SimulatedConnection(self._node, target, address, door=_inter_broker_door, served=SERVED_BY_BROKER)


class ClientProcess:
    """A client as a peer in the simulated network. Its ``id`` there is negative, unlike those of nodes."""

    def __init__(self, world: World, number: int, *, timeout_s: float = CLIENT_TIMEOUT_S) -> None:
        self.world = world
        self._timeout_s = timeout_s
        self.id = -1
        self.name = f"client {number}"
        self.software = NEWEST
        self._connections: dict[int, SimulatedConnection] = {}

    def act(self, action: Callable[[], None]) -> None:
        """Run the action: clients are neither killed nor suspended."""
        action()

    async def request(self, node_id: int, request: Message, version: int | None = None) -> Any:
        """Send a request to a node, in its newest version by default; return its response.

        Raises Disconnected or RequestTimedOut; the outcome of the request is then unknown.
        """
        target = self.world.nodes[node_id]
        connection = self._connections.get(node_id)
        if connection is None or not connection.is_open:
            if not target.is_up or target.data is None or not target.data.is_open:
                raise Disconnected(f"{target.name} does not accept connections")
            connection = SimulatedConnection(
                self,  # type: ignore[arg-type]
                target,
                Address(target.name, 9092),
                door=broker_door,
                served=SERVED_BY_BROKER,
                timeout_s=self._timeout_s,
            )
            self._connections[node_id] = connection
        return await connection.request(request, version=version)
