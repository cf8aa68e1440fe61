"""Chooses the node for a request: the least busy one, a certain broker, the controller, a coordinator.

Any broker accepts any request to the cluster and forwards it, so the controller is looked up only when a node reports
that it is not the controller. The first node that answers returns the other nodes. When none of them is reachable,
the bootstrap servers are contacted again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeVar, overload

from barnabas.clients.admin.errors import AdminError, admin_error
from barnabas.clients.client_config import Address
from barnabas.clients.errors import ClientError, ConnectFailed, Disconnected, UnsupportedVersion
from barnabas.common.error_code import ErrorCode
from barnabas.common.errors import Transient
from barnabas.protocol.api_keys import ApiKey
from barnabas.protocol.messages.describe_cluster import DescribeClusterRequest
from barnabas.protocol.messages.find_coordinator import FindCoordinatorRequest
from barnabas.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic

if TYPE_CHECKING:
    from barnabas.clients.node_connection import ResponseReader, SupportedVersions
    from barnabas.protocol.messages.metadata import MetadataResponse, MetadataResponsePartition
    from barnabas.protocol.schema import Message, Request

__all__ = ["ANY", "CONTROLLER", "Connection", "Network", "Router", "Target", "broker"]

R = TypeVar("R", bound="Message")
T = TypeVar("T")

_BUSY = 5
"""With this many requests in flight on each open connection, a connection to another node is opened."""

_CONTROLLERS = 2
_KEYS_PER_LOOKUP = 500


class Connection(Protocol):
    """The part of a ``NodeConnection`` that the routing uses."""

    address: Address
    versions: Mapping[int, SupportedVersions]

    @property
    def is_open(self) -> bool: ...
    @property
    def in_flight(self) -> int: ...
    def version_of(self, api_key: int) -> int: ...
    @overload
    async def request(
        self, message: Request[R], *, version: int | None = None, timeout_s: float | None = None, read: None = None
    ) -> R: ...
    @overload
    async def request(
        self,
        message: Request[Message],
        *,
        version: int | None = None,
        timeout_s: float | None = None,
        read: ResponseReader[T],
    ) -> T: ...


class Network(Protocol):
    """The part of a ``NetworkClient`` that the routing uses."""

    async def connect(self) -> Connection: ...
    async def connection_to(self, address: Address) -> Connection: ...
    async def close(self) -> None: ...


class Target(NamedTuple):
    """``node`` is None for any node, -1 for the controller."""

    node: int | None


ANY = Target(None)
CONTROLLER = Target(-1)


def broker(node_id: int) -> Target:
    return Target(node_id)


class Router:
    def __init__(self, network: Network, *, to_controllers: bool = False) -> None:
        self._network = network
        self._to_controllers = to_controllers
        self._nodes: dict[int, Address] = {}
        self._controller = -1
        self._is_current = False
        self._connections: dict[Address, Connection] = {}
        self._unreachable: set[Address] = set()
        self._coordinators: dict[tuple[int, str], int] = {}

    async def connection(self, target: Target) -> Connection:
        """Return a connection. Raise a ClientError, of which a Transient one may be retried, or AdminError."""
        if target.node is None:
            return await self._least_busy()
        if target == CONTROLLER:
            if not self._is_current or self._controller < 0:
                await self.refresh()
            node_id = self._controller
            if node_id not in self._nodes:
                raise ConnectFailed("the cluster has no active controller")
            return await self._connect(self._nodes[node_id])
        if target.node not in self._nodes or not self._is_current:
            await self.refresh()
        if target.node not in self._nodes:
            known = ", ".join(map(str, sorted(self._nodes))) or "none"
            raise AdminError(ErrorCode.BROKER_NOT_AVAILABLE, f"node {target.node} is not alive; live nodes: {known}")
        return await self._connect(self._nodes[target.node])

    async def node_ids(self) -> list[int]:
        """Return the live nodes, freshly requested."""
        await self.refresh()
        return sorted(self._nodes)

    def is_stale(self) -> None:
        """Mark the nodes as outdated: addresses and the controller are looked up before the next use."""
        self._is_current = False

    async def refresh(self) -> None:
        """Request the nodes from one that answers."""
        connection = await self._least_busy(learning=True)
        if self._to_controllers:
            await self._learn_controllers(connection)
        else:
            await self._learn_brokers(connection)
        self._is_current = True

    async def coordinators(self, kind: int, keys: Iterable[str]) -> tuple[dict[str, int], dict[str, AdminError]]:
        """Return the coordinator of each key (kind 0: groups, 1: transactional ids), and errors for the others."""
        found: dict[str, int] = {}
        missing: list[str] = []
        for key in keys:
            node = self._coordinators.get((kind, key))
            if node is None:
                missing.append(key)
            else:
                found[key] = node
        errors: dict[str, AdminError] = {}
        for start in range(0, len(missing), _KEYS_PER_LOOKUP):
            connection = await self._least_busy()
            response = await self._ask(
                connection,
                FindCoordinatorRequest(key_type=kind, coordinator_keys=missing[start : start + _KEYS_PER_LOOKUP]),
                at_least=4,
            )
            for coordinator in response.coordinators:
                if coordinator.error_code:
                    errors[coordinator.key] = admin_error(
                        coordinator.error_code, coordinator.error_message, coordinator.key
                    )
                else:
                    self._nodes[coordinator.node_id] = Address(coordinator.host, coordinator.port)
                    found[coordinator.key] = self._coordinators[(kind, coordinator.key)] = coordinator.node_id
        return found, errors

    def forget_coordinators(self, kind: int, keys: Iterable[str]) -> None:
        for key in keys:
            self._coordinators.pop((kind, key), None)

    async def leaders(
        self, partitions: Iterable[tuple[str, int]]
    ) -> tuple[dict[tuple[str, int], int], dict[tuple[str, int], AdminError]]:
        """Return the leader of each partition, freshly requested, and errors for the others."""
        wanted = list(partitions)
        connection = await self._least_busy()
        topics = [MetadataRequestTopic(name=name) for name in dict.fromkeys(topic for topic, _ in wanted)]
        response = await self._ask(
            connection, MetadataRequest(topics=topics, allow_auto_topic_creation=False), at_least=4
        )
        self._take_brokers(response)
        by_partition: dict[tuple[str, int], MetadataResponsePartition] = {}
        errors: dict[str, int] = {}
        for topic in response.topics:
            if topic.error_code:
                errors[topic.name or ""] = topic.error_code
            for partition in topic.partitions:
                by_partition[(topic.name or "", partition.partition_index)] = partition
        leaders: dict[tuple[str, int], int] = {}
        problems: dict[tuple[str, int], AdminError] = {}
        for key in wanted:
            at = by_partition.get(key)
            code = errors.get(key[0]) or (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if at is None else at.error_code)
            if at is not None and at.leader_id >= 0:
                leaders[key] = at.leader_id
            else:
                problems[key] = admin_error(code or ErrorCode.LEADER_NOT_AVAILABLE, None, f"{key[0]}-{key[1]}")
        return leaders, problems

    async def close(self) -> None:
        await self._network.close()

    async def _least_busy(self, *, learning: bool = False) -> Connection:
        open_now = [connection for connection in self._connections.values() if connection.is_open]
        if open_now:
            best = min(open_now, key=lambda connection: connection.in_flight)
            if best.in_flight < _BUSY:
                return best
            unused = [
                node for node in self._nodes.values() if node not in {connection.address for connection in open_now}
            ]
            for address in unused:
                if address not in self._unreachable:
                    try:
                        return await self._connect(address)
                    except ClientError:
                        self._unreachable.add(address)
            return best
        return await self._reconnect(learning=learning)

    async def _reconnect(self, *, learning: bool) -> Connection:
        """Connect to a known node, otherwise to a bootstrap server, which returns the nodes."""
        known = list(self._nodes.values())
        random.shuffle(known)
        for address in sorted(known, key=lambda address: address in self._unreachable):
            try:
                return await self._connect(address)
            except ClientError as error:
                if not isinstance(error, Transient):
                    raise
                self._unreachable.add(address)
        self._nodes.clear()
        self._unreachable.clear()
        connection = await self._network.connect()
        self._connections[connection.address] = connection
        if not learning:
            try:
                await self.refresh()
            except UnsupportedVersion:
                del self._connections[connection.address]  # A node of the wrong kind can't serve other requests either.
                raise
        return connection

    async def _connect(self, address: Address) -> Connection:
        known = self._connections.get(address)
        if known is not None and known.is_open:
            return known
        self._connections.pop(address, None)
        connection = self._connections[address] = await self._network.connection_to(address)
        self._unreachable.discard(address)
        return connection

    async def _learn_brokers(self, connection: Connection) -> None:
        try:
            response = await self._ask(connection, MetadataRequest(topics=[]), at_least=1)
        except UnsupportedVersion as error:
            raise UnsupportedVersion(
                f"{connection.address} is a controller, not a broker: set bootstrap.controllers to it"
            ) from error
        self._take_brokers(response)

    def _take_brokers(self, response: MetadataResponse) -> None:
        self._nodes = {node.node_id: Address(node.host, node.port) for node in response.brokers}
        self._controller = response.controller_id
        self._is_current = True

    async def _learn_controllers(self, connection: Connection) -> None:
        response = await self._ask(connection, DescribeClusterRequest(endpoint_type=_CONTROLLERS), at_least=1)
        if response.error_code == ErrorCode.MISMATCHED_ENDPOINT_TYPE:
            raise UnsupportedVersion(f"{connection.address} is a broker: set bootstrap.servers to it")
        if response.error_code:
            raise admin_error(response.error_code, response.error_message)
        self._nodes = {node.broker_id: Address(node.host, node.port) for node in response.brokers}
        self._controller = response.controller_id

    async def _ask(self, connection: Connection, message: Request[R], *, at_least: int) -> R:
        version = connection.version_of(message.API_KEY)
        if version < at_least:
            name = ApiKey(message.API_KEY).name
            raise UnsupportedVersion(
                f"{connection.address} is too old: it speaks {name} up to version {version}, and {at_least} is needed"
            )
        try:
            return await connection.request(message, version=version)
        except Disconnected:
            self._unreachable.add(connection.address)
            raise
