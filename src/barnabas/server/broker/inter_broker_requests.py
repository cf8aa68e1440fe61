"""Sends requests to other brokers over the inter-broker listener, as this broker's own principal."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from barnabas.clients.errors import ClientError
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.server.start_errors import NodeStartError

if TYPE_CHECKING:
    from barnabas.clients.network_client import NetworkClient
    from barnabas.protocol.schema import Message, Request
    from barnabas.server.node_core import NodeCore
    from barnabas.server.settings.node_config import NodeConfig

__all__ = ["OtherBrokers"]

R = TypeVar("R", bound="Message")


class OtherBrokers:
    """Implements the broker's port of the same name. One connection to each broker is kept for all requests."""

    def __init__(self, core: NodeCore) -> None:
        self._core = core
        self._client: NetworkClient | None = None
        self._config: NodeConfig | None = None

    async def ask(self, broker_id: int, request: Request[R], *, timeout_s: float | None = None) -> R:
        """Send a request. Raise BROKER_NOT_AVAILABLE with the reason if the broker does not answer."""
        from barnabas.server.listeners.inter_broker_client_config import inter_broker_address

        config = self._core.config
        address = inter_broker_address(self._core.metadata.image.cluster, broker_id, config)
        if address is None:
            raise _unavailable(broker_id, f"it has no listener {config.inter_broker_listener_name}")
        try:
            client = await self._current_client()
            connection = await client.connection_to(address)
            return await connection.request(request, timeout_s=timeout_s)
        except (ClientError, NodeStartError) as error:
            raise _unavailable(broker_id, str(error)) from error

    async def _current_client(self) -> NetworkClient:
        """Return a client with the present certificates and credentials."""
        from barnabas.clients.network_client import NetworkClient
        from barnabas.server.listeners.inter_broker_client_config import inter_broker_client_config

        config = self._core.config
        if self._config is not config:
            await self.close()
        if self._client is None:
            self._config = config
            self._client = NetworkClient(inter_broker_client_config(config, client_id=f"broker-{config.node_id}"))
        return self._client

    async def close(self) -> None:
        client, self._client = self._client, None
        if client is not None:
            await client.close()


def _unavailable(broker_id: int, why: str) -> ApiException:
    return ApiException(ErrorCode.BROKER_NOT_AVAILABLE, f"Broker {broker_id} is unreachable: {why}")
