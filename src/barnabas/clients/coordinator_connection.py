"""A connection to the coordinator of one group or transactional id, which is looked up when it is first needed.

It is a connection of its own, because a parked fetch delays every answer behind it. The caller decides about
repetitions: it drops the connection after an error that says that the coordinator has moved.
"""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from barnabas.clients.admin.errors import admin_error
from barnabas.clients.client_config import Address
from barnabas.clients.errors import UnsupportedVersion
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest

if TYPE_CHECKING:
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.node_connection import NodeConnection
    from barnabas.protocol.schema import Message, Request

__all__ = ["CoordinatorConnection", "CoordinatorKind"]

R = TypeVar("R", bound="Message")

_SEVERAL_KEYS_VERSION = 4
"""The first version of FindCoordinator for several keys: Kafka 3.0."""


class CoordinatorKind(IntEnum):
    """The key type of FindCoordinator."""

    GROUP = 0
    TRANSACTION = 1


class CoordinatorConnection:
    """``key`` is the group id or the transactional id."""

    def __init__(self, network: NetworkClient, key: str, kind: CoordinatorKind) -> None:
        self.key = key
        self._network = network
        self._kind = kind
        self._opening = asyncio.Lock()
        self._connection: NodeConnection | None = None

    async def connected(self) -> NodeConnection:
        """Return the open connection. Raise AdminError when FindCoordinator is refused, ClientError."""
        async with self._opening:
            if self._connection is None or not self._connection.is_open:
                self._connection = await self._network.open(await self._find())
            return self._connection

    async def request(
        self, message: Request[R], *, version_max: int | None = None, timeout_s: float | None = None
    ) -> R:
        """Send a request once, and return the answer, whatever its error is. Raise AdminError, ClientError."""
        connection = await self.connected()
        version = connection.version_of(message.API_KEY)
        if version_max is not None:
            version = min(version, version_max)
        return await connection.request(message, version=version, timeout_s=timeout_s)

    def feature_level(self, name: str) -> int | None:
        """Return the finalized level of a feature when the connection was opened; None before."""
        return None if self._connection is None else self._connection.features.get(name, 0)

    async def drop(self) -> None:
        """Close the connection. The next request looks up the coordinator again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.close()

    async def _find(self) -> Address:
        connection = await self._network.connect()
        version = min(connection.version_of(FindCoordinatorRequest.API_KEY), _SEVERAL_KEYS_VERSION)
        if version < _SEVERAL_KEYS_VERSION:
            raise UnsupportedVersion(f"the node at {connection.address} is older than Kafka 3.0")
        request = FindCoordinatorRequest(key_type=self._kind, coordinator_keys=[self.key])
        (found,) = (await connection.request(request, version=version)).coordinators
        if found.error_code:
            raise admin_error(found.error_code, found.error_message, self.key)
        return Address(found.host, found.port)
