"""Requests of a broker to other brokers: the port that ``OtherBrokers`` implements in a node, in the simulated network.

As there, one connection to each broker is kept for all requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from barnabas.clients.client_config import Address
from barnabas.clients.errors import ClientError
from barnabas.common.errors import ApiException, ErrorCode
from tests.simulation.cluster.client_process import BrokerClient

if TYPE_CHECKING:
    from tests.simulation.cluster.channel import SimulatedConnection
    from tests.simulation.cluster.node import SimulatedNode

__all__ = ["SimulatedBrokers"]


class SimulatedBrokers:
    def __init__(self, node: SimulatedNode) -> None:
        self._node = node
        self._client = BrokerClient(node)
        self._connections: dict[int, SimulatedConnection] = {}

    async def ask(self, broker_id: int, request: Any, *, timeout_s: float | None = None) -> Any:
        """Return the other broker's answer. Raise BROKER_NOT_AVAILABLE with the reason."""
        if broker_id not in self._node.loader.image.cluster.brokers:
            raise ApiException(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {broker_id} is not registered.")
        try:
            connection = self._connections.get(broker_id)
            if connection is None or not connection.is_open:
                connection = await self._client.open(Address(f"n{broker_id}", 9092))
                self._connections[broker_id] = connection
            return await connection.request(request, timeout_s=timeout_s)
        except ClientError as error:
            raise ApiException(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {broker_id} is unreachable: {error}") from error
