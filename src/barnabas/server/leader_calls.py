"""Requests of this node's own to the active controller, when that is another node."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from barnabas.clients.client_config import Address
from barnabas.clients.errors import ClientError
from barnabas.clients.network_client import NetworkClient
from barnabas.common.errors import ApiException, ErrorCode
from barnabas.server.controller_client import controller_client_config

if TYPE_CHECKING:
    from collections.abc import Callable

    from barnabas.protocol.schema import Message
    from barnabas.raft.voter_set import Endpoint
    from barnabas.server.node_config import NodeConfig

__all__ = ["LeaderCalls"]


class LeaderCalls:
    def __init__(self, config: NodeConfig, leader: Callable[[], Endpoint | None]) -> None:
        """``leader`` is asked for each call. Raises NodeStartError for settings that don't make a client."""
        self._leader = leader
        self._client = NetworkClient(
            controller_client_config(
                config,
                client_id=str(config.node_id),
                request_timeout_ms=config.controller_quorum_request_timeout_ms,
            )
        )

    async def send(self, request: Message) -> Message:
        """Raises ApiException, a retriable one when the controller can't be reached now."""
        leader = self._leader()
        if leader is None:
            raise ApiException(ErrorCode.NOT_CONTROLLER, "No controller appears to be active.")
        try:
            connection = await self._client.connection_to(Address(leader.host, leader.port))
            return cast("Message", await connection.request(request))
        except ClientError as error:
            raise ApiException(ErrorCode.NOT_CONTROLLER, f"The active controller can't be asked: {error}") from error

    async def close(self) -> None:
        await self._client.close()
