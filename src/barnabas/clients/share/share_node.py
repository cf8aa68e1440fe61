"""The share session with one node, over a connection of its own: the session ends with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from typing import TYPE_CHECKING

from barnabas.clients.errors import ClientError, UnsupportedVersion
from barnabas.clients.membership.share_session import ShareSession
from barnabas.common.errors import Transient

if TYPE_CHECKING:
    from barnabas.clients.client_config import Address
    from barnabas.clients.membership.acknowledgements import Acknowledgements, TopicIdPartition
    from barnabas.clients.membership.share_session import FetchLimits
    from barnabas.clients.network_client import NetworkClient
    from barnabas.clients.node_connection import NodeConnection
    from barnabas.protocol.messages.share_acknowledge import ShareAcknowledgeResponse
    from barnabas.protocol.messages.share_fetch import ShareFetchResponse

__all__ = ["ShareNode"]

_CLOSE_WITHIN_S = 5.0
_HAS_RENEWALS = 2
"""The first version of ShareAcknowledge with renewals (KIP-1222)."""


class ShareNode:
    """One request is in flight at a time. ``lost`` is called when the session has ended."""

    def __init__(
        self,
        network: NetworkClient,
        address: Address,
        group_id: str,
        member_id: str,
        lost: Callable[[ShareNode], None],
    ) -> None:
        self.address = address
        self._network = network
        self._session = ShareSession(group_id, member_id)
        self._lost = lost
        self._turn = asyncio.Lock()
        self._connection: NodeConnection | None = None

    async def fetch(self, wanted: Set[TopicIdPartition], limits: FetchLimits) -> ShareFetchResponse | None:
        """Fetch and acquire records. Return None if the session was lost. Raise ClientError."""
        async with self._turn:
            try:
                connection = await self._connected()
                response = await connection.request(self._session.fetch(wanted, limits))
            except ClientError:
                await self._drop()
                raise
            return response if self._has_continued(response.error_code) else None

    async def acknowledge(self, acknowledgements: Acknowledgements) -> ShareAcknowledgeResponse | None:
        """Acknowledge records. Return None if the session was lost, and the records with it. Raise ClientError."""
        async with self._turn:
            connection = self._connection
            if connection is None or not connection.is_open or not self._session.is_open:
                await self._drop()
                return None
            request = self._session.acknowledge(acknowledgements)
            if request.is_renew_ack and connection.version_of(request.API_KEY) < _HAS_RENEWALS:
                raise UnsupportedVersion(f"the node at {self.address} can't renew locks: this needs Kafka 4.2")
            try:
                response = await connection.request(request)
            except ClientError:
                await self._drop()
                raise
            return response if self._has_continued(response.error_code) else None

    async def close(self, acknowledgements: Acknowledgements) -> None:
        """Acknowledge, and end the session. The node releases the other records at once."""
        async with self._turn:
            connection = self._connection
            try:
                if connection is not None and connection.is_open and self._session.is_open:
                    async with asyncio.timeout(_CLOSE_WITHIN_S):
                        await connection.request(self._session.close(acknowledgements))
            except (TimeoutError, ClientError) as error:
                if isinstance(error, ClientError) and not isinstance(error, Transient):
                    raise
            finally:
                await self._drop()

    async def _connected(self) -> NodeConnection:
        if self._connection is None or not self._connection.is_open:
            await self._drop()
            self._connection = await self._network.open(self.address)
        return self._connection

    def _has_continued(self, error_code: int) -> bool:
        if self._session.answered(error_code):
            return True
        self._lost(self)
        return False

    async def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if self._session.is_open:
            self._session.lost()
            self._lost(self)
        if connection is not None:
            await connection.close()
