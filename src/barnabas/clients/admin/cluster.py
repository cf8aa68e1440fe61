"""Operations on the cluster itself: describe its nodes, and unregister brokers."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from barnabas.clients.admin.errors import OperationTimedOut
from barnabas.clients.admin.operations import Operations, refuse_unless
from barnabas.clients.admin.protocol_codes import authorized_operations
from barnabas.clients.admin.routing import ANY, Target
from barnabas.clients.errors import UnsupportedVersion
from barnabas.common.acl import AclOperation
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_cluster import (
    DescribeClusterBroker,
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataResponse, MetadataResponseBroker
from barnabas.protocol.messages.unregister_broker import UnregisterBrokerRequest

__all__ = ["ClusterDescription", "ClusterOperations", "Node"]

_BROKERS, _CONTROLLERS = 1, 2
_HAS_OPERATIONS = 8
"""Older versions of Metadata have no authorized operations: callers receive None."""


@dataclass(frozen=True, slots=True)
class Node:
    id: int
    host: str
    port: int
    rack: str | None = None
    is_fenced: bool = False

    def __str__(self) -> str:
        return f"{self.id} ({self.host}:{self.port})"


@dataclass(frozen=True, slots=True)
class ClusterDescription:
    """``nodes`` are the brokers, or with ``bootstrap.controllers`` the controllers.

    A broker reports any live broker as ``controller``; only controllers report the real one.
    """

    cluster_id: str | None
    nodes: tuple[Node, ...]
    controller: Node | None
    authorized_operations: frozenset[AclOperation] | None = None


class ClusterOperations(Operations):
    async def describe_cluster(
        self,
        *,
        include_authorized_operations: bool = False,
        include_fenced_brokers: bool = False,
        timeout_s: float | None = None,
    ) -> ClusterDescription:
        """Describe the nodes; fenced brokers are listed since Kafka 4.0."""
        deadline = self._deadline(timeout_s)
        endpoint = _CONTROLLERS if self._config.asks_controllers else _BROKERS
        response: DescribeClusterResponse | MetadataResponse
        try:
            response = await self._call(
                lambda version: DescribeClusterRequest(
                    include_cluster_authorized_operations=include_authorized_operations,
                    endpoint_type=endpoint,
                    include_fenced_brokers=include_fenced_brokers,
                ),
                deadline,
                api=ApiKey.DESCRIBE_CLUSTER,
                at_least=2 if include_fenced_brokers else 0,
            )
        except UnsupportedVersion:
            if endpoint == _CONTROLLERS or include_fenced_brokers:
                raise
            response = await self._call(
                lambda version: MetadataRequest(
                    topics=[],
                    include_cluster_authorized_operations=include_authorized_operations and version >= _HAS_OPERATIONS,
                ),
                deadline,
                api=ApiKey.METADATA,
                at_least=1,
                at_most=10,
            )
        return _description(response, include_authorized_operations)

    async def require_api(self, api: ApiKey, *, timeout_s: float | None = None) -> None:
        """Raise UnsupportedVersion, with the API's name, if the node does not serve it."""
        deadline = self._deadline(timeout_s)
        try:
            async with asyncio.timeout_at(deadline.at):
                connection = await self._router.connection(ANY)
        except TimeoutError as timeout:
            raise OperationTimedOut(self._too_late(api, deadline)) from timeout
        connection.version_of(api)

    async def unregister_broker(self, broker_id: int, *, wait: bool = False, timeout_s: float | None = None) -> None:
        """Unregister a broker that will not return. Raise AdminError.

        With ``wait`` (from Kafka 4.0 on) this returns when no live broker lists it, not even as fenced.
        """
        refuse_unless(broker_id >= 0, f"{broker_id} is not a broker id")
        deadline = self._deadline(timeout_s)
        await self._call(UnregisterBrokerRequest(broker_id=broker_id), deadline, api=ApiKey.UNREGISTER_BROKER)
        if not wait:
            return

        async def shows(target: Target) -> bool:
            response = await self._call(
                DescribeClusterRequest(include_fenced_brokers=True),
                deadline,
                api=ApiKey.DESCRIBE_CLUSTER,
                target=target,
                at_least=2,
            )
            return all(broker.broker_id != broker_id for broker in response.brokers)

        await self._until_each_broker(shows, deadline, "forgetting the broker")


def _description(response: DescribeClusterResponse | MetadataResponse, with_operations: bool) -> ClusterDescription:
    nodes = tuple(sorted((_node(broker) for broker in response.brokers), key=lambda node: node.id))
    return ClusterDescription(
        response.cluster_id,
        nodes,
        next((node for node in nodes if node.id == response.controller_id), None),
        authorized_operations(response.cluster_authorized_operations) if with_operations else None,
    )


def _node(broker: DescribeClusterBroker | MetadataResponseBroker) -> Node:
    if isinstance(broker, DescribeClusterBroker):
        return Node(broker.broker_id, broker.host, broker.port, broker.rack, broker.is_fenced)
    return Node(broker.node_id, broker.host, broker.port, broker.rack, False)
