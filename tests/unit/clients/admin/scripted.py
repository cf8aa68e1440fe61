"""Nodes that answer from a script, in memory: each request and response passes through the codec of its version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from barnabas.clients.admin import AdminClient
from barnabas.clients.client_config import Address, client_config
from barnabas.clients.errors import ConnectFailed, UnsupportedVersion
from barnabas.clients.node_connection import SupportedVersions
from barnabas.protocol.api_keys import API_TABLE, ApiKey
from barnabas.protocol.messages.describe_cluster import DescribeClusterBroker, DescribeClusterResponse
from barnabas.protocol.messages.metadata import MetadataResponse, MetadataResponseBroker

__all__ = ["ScriptedCluster", "ScriptedNode", "admin_of"]

Answer = Callable[[Any], Any] | Exception | Any
BOOTSTRAP = Address("bootstrap", 9092)


class ScriptedNode:
    """``script`` contains a list of answers for an API, one for each request, or one for all: a response, a function of
    the request, or an exception. ``received`` contains the received requests.
    """

    def __init__(self, node_id: int, cluster: ScriptedCluster) -> None:
        self.id = node_id
        self.address = Address(f"node-{node_id}", 9092)
        self.cluster = cluster
        self.script: dict[ApiKey, Answer | list[Answer]] = {}
        self.versions: dict[int, SupportedVersions] = {
            key: SupportedVersions(info.lowest, info.highest) for key, info in API_TABLE.items()
        }
        self.received: list[Any] = []
        self.received_versions: list[int] = []
        self.is_up = True
        self.connections = 0

    def requests(self, api: ApiKey) -> list[Any]:
        return [request for request in self.received if api == request.API_KEY]

    def answer(self, message: Any) -> Any:
        key = ApiKey(message.API_KEY)
        scripted = self.script.get(key)
        if isinstance(scripted, list):
            scripted = scripted.pop(0) if len(scripted) > 1 else scripted[0]
        if scripted is None:
            scripted = self.cluster.default(self, message)
        return scripted(message) if callable(scripted) else scripted


class ScriptedConnection:
    def __init__(self, node: ScriptedNode, address: Address) -> None:
        self._node = node
        self.address = address
        self.versions: Mapping[int, SupportedVersions] = node.versions
        self.is_open = True
        self.in_flight = 0

    def version_of(self, api_key: int) -> int:
        if api_key not in self.versions:
            raise UnsupportedVersion(f"the node at {self.address} does not offer {API_TABLE[ApiKey(api_key)].name}")
        return self.versions[api_key].max

    async def request(
        self, message: Any, *, version: int | None = None, timeout_s: float | None = None, read: Any = None
    ) -> Any:
        assert self.is_open
        if not self._node.is_up:
            self.is_open = False
            raise ConnectFailed(f"nothing listens at {self.address}")
        version = self.version_of(message.API_KEY) if version is None else version
        received = type(message).decode(message.encode(version), version)
        self._node.received.append(received)
        self._node.received_versions.append(version)
        answer = self._node.answer(received)
        if isinstance(answer, Exception):
            self.is_open = False
            raise answer
        frame = bytearray(answer.encode(version))
        return (read or type(message).response_type().decode)(frame, version, 0)


class ScriptedCluster:
    """A network of nodes; the bootstrap address is that of the first node."""

    def __init__(self, node_count: int = 1) -> None:
        self.nodes = {number: ScriptedNode(number, self) for number in range(1, node_count + 1)}
        self.controller_id = 1

    def __getitem__(self, node_id: int) -> ScriptedNode:
        return self.nodes[node_id]

    def everywhere(self, api: ApiKey, answer: Answer) -> None:
        for node in self.nodes.values():
            node.script[api] = answer

    def default(self, node: ScriptedNode, message: Any) -> Any:
        """Answer with the nodes of the cluster; no other API has a default answer."""
        up = [live_node for live_node in self.nodes.values() if live_node.is_up]
        if message.API_KEY == ApiKey.METADATA:
            brokers = [
                MetadataResponseBroker(node_id=live_node.id, host=live_node.address.host, port=live_node.address.port)
                for live_node in up
            ]
            return MetadataResponse(brokers=brokers, controller_id=self.controller_id, cluster_id="scripted")
        if message.API_KEY == ApiKey.DESCRIBE_CLUSTER:
            members = [
                DescribeClusterBroker(broker_id=live_node.id, host=live_node.address.host, port=live_node.address.port)
                for live_node in up
            ]
            return DescribeClusterResponse(brokers=members, controller_id=self.controller_id, cluster_id="scripted")
        raise AssertionError(f"the script has no answer to {message}")

    async def connect(self) -> ScriptedConnection:
        for node in self.nodes.values():
            if node.is_up:
                node.connections += 1
                return ScriptedConnection(node, BOOTSTRAP)
        raise ConnectFailed("no bootstrap server can be used")

    async def connection_to(self, address: Address) -> ScriptedConnection:
        node = next(candidate for candidate in self.nodes.values() if candidate.address == address)
        if not node.is_up:
            raise ConnectFailed(f"nothing listens at {address}")
        node.connections += 1
        return ScriptedConnection(node, address)

    async def close(self) -> None:
        """Do nothing: nothing is open."""


def admin_of(cluster: ScriptedCluster, properties: Mapping[str, str] | None = None) -> AdminClient:
    """Return a client that does not pause between attempts."""
    settings = {"bootstrap.servers": "bootstrap:9092", "retry.backoff.ms": "0", "retry.backoff.max.ms": "0"}
    return AdminClient(config=client_config({**settings, **(properties or {})}), network=cluster)
